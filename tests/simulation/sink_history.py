"""What is known of each batch that simulated drivers commit, and the invariants that hold for it."""

from __future__ import annotations

from collections import defaultdict
from enum import Enum


class Invariant(Enum):
    ONCE = "a batch is committed at most once, whichever driver wrote it"
    ALL_OR_NOTHING = "the transactions of a batch are committed all together or not at all"
    COMMITTED_AS_ASKED = "a transaction is committed only if a driver asked for it"
    ACKNOWLEDGED_IS_COMMITTED = "a batch that a driver has gone past is committed"
    NOTHING_HANGS = "every transaction ends, no partition keeps an open one, and temporary ids are deleted"
    STATE_IS_THE_LOG = "the state is the replay of the log"


class Violation(AssertionError):
    def __init__(self, invariant: Invariant, detail: str) -> None:
        super().__init__(f"{invariant.value}: {detail}")
        self.invariant = invariant


class History:
    def __init__(self) -> None:
        self.asked: defaultdict[int, set[frozenset[str]]] = defaultdict(set)
        """The transactions of each request to commit a batch."""
        self.written: defaultdict[str, set[object]] = defaultdict(set)
        """Partitions in which each transaction has records."""
        self.outcomes: defaultdict[str, dict[object, bool]] = defaultdict(dict)
        """Partitions whose marker has ended the transaction's records: True if it commits."""
        self.passed: set[int] = set()
        """Batches that a driver holds for committed."""

    def ended(self, transactional_id: str, partition: object, *, commit: bool) -> None:
        outcomes = self.outcomes[transactional_id]
        outcomes[partition] = commit
        if len(set(outcomes.values())) > 1:
            raise Violation(Invariant.ALL_OR_NOTHING, transactional_id)
        if commit and not any(transactional_id in ids for asked in self.asked.values() for ids in asked):
            raise Violation(Invariant.COMMITTED_AS_ASKED, transactional_id)

    @property
    def committed(self) -> set[str]:
        return {each for each, outcomes in self.outcomes.items() if True in outcomes.values()}

    def check_end(self) -> None:
        """Check every batch, after everything has ended."""
        committed = self.committed
        for batch, asked in self.asked.items():
            runs = [ids for ids in asked if ids & committed]
            if len(runs) > 1:
                raise Violation(Invariant.ONCE, f"batch {batch}: {runs}")
            if any(ids - committed for ids in runs):
                raise Violation(Invariant.ALL_OR_NOTHING, f"batch {batch}: {runs}")
            if batch in self.passed and not runs:
                raise Violation(Invariant.ACKNOWLEDGED_IS_COMMITTED, f"batch {batch}")
        for each in committed:
            if self.written[each] != self.outcomes[each].keys():
                raise Violation(Invariant.ALL_OR_NOTHING, f"{each}: {self.written[each]} {self.outcomes[each]}")
