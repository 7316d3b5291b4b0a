"""What the console's process keeps beside sessions. Each part is bounded, and says by what."""

from __future__ import annotations

import time
from typing import Final

from kraft.console.growth import Growth
from kraft.console.kept import Kept
from kraft.console.moves_seen import MovesSeen
from kraft.console.records.decoding.registry import Registries
from kraft.console.records.readers import Readers
from kraft.console.sampling import Sampling
from kraft.console.sent_forms import SentForms

FACTS_MAX: Final = 2
"""Facts at the same time, each as one user sees one cluster: of 10,000 partitions, they take 10 MiB."""


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class State:
    """One for the process; pages reach it as `asked.state`."""

    def __init__(self) -> None:
        self.readers = Readers()
        self.registries = Registries()
        """Schemas that were read: as many as `registry.SCHEMAS_MAX` of each cluster."""
        self.kept = Kept(_now_ms)
        self.facts = Kept(_now_ms, FACTS_MAX)
        """Facts about clusters, from which several pages are made."""

        self.sent_forms = SentForms()

        self.moves = MovesSeen()
        """Since when partitions move: as many as `moves_seen.SEEN_MAX`."""

        self.sampling = Sampling()
        """The groups that users look at, over time."""

        self.growth = Growth()
        """The ends of topics' logs as pages saw them: growth.REMEMBERED_MAX topics."""

    def close(self) -> None:
        """Give back what is open. Called once, when the console stops."""
        self.readers.close()
        self.sampling.close()
