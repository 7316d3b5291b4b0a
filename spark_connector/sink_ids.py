"""Transactional ids of the tasks that one process runs.

A new id for each task would leave a producer in every partition that it writes to, for `producer.id.expiration.ms`. So
the tasks of a stream use the ids of earlier batches again. Spark runs the batches of a query one after the other: when
a task of the next one begins, or of the next run, the transactions of the last one are committed, aborted or lost. A
task that is lost may still be open, and its new user aborts it. Within one batch, no id is used twice: its first
transaction waits for the commit.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """The micro-batch that a task belongs to."""

    run: str | None
    """Changes with each start of the query."""

    batch: str | None


class TransactionalIds:
    def __init__(self) -> None:
        self._uses: defaultdict[str, dict[str, Use]] = defaultdict(dict)
        """For each committer, its ids with their last use."""
        self._guard = threading.Lock()

    def is_new(self, committer: str, use: Use) -> bool:
        """Return whether this process has not written in this run of the committer's query."""
        with self._guard:
            return all(each.run != use.run for each in self._uses[committer].values())

    def take(self, committer: str, use: Use) -> str | None:
        """Return an id whose last use was another batch, and note the present one; None if there is none."""
        with self._guard:
            ids = self._uses[committer]
            free = next((each for each, last in ids.items() if last != use), None)
            if free is not None:
                ids[free] = use
            return free

    def add(self, committer: str, transactional_id: str, use: Use) -> None:
        with self._guard:
            self._uses[committer][transactional_id] = use
