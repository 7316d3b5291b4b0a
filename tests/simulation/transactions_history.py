"""What is known of each transaction in a simulation, and the invariants that hold for it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum

from kraft.coordinator.transactions.markers import PendingMarkers
from kraft.model.ids import TopicPartition


class Invariant(Enum):
    ALL_OR_NOTHING = "the records of a transaction are committed in all partitions or in none"
    COMMITTED_AS_ASKED = "a transaction is committed only if its producer asked for it"
    ACKNOWLEDGED_IS_COMMITTED = "a transaction whose commit was acknowledged is committed"
    ENDED_BY_ITS_OWN = "a request that ends a transaction was sent for it"
    DECIDED_ONCE = "markers of one decision never contradict one another"
    NOTHING_HANGS = "every transaction ends, and no partition keeps an open one"
    STATE_IS_THE_LOG = "the state is the replay of the log"


class Violation(AssertionError):
    def __init__(self, invariant: Invariant, detail: str) -> None:
        super().__init__(f"{invariant.value}: {detail}")
        self.invariant = invariant


@dataclass(slots=True)
class Fate:
    """One transaction, as its producer and the partitions have seen it."""

    asked_commit: bool = False
    acknowledged_commit: bool = False
    outcomes: dict[TopicPartition, bool] = field(default_factory=dict)
    """Partitions whose marker has ended the transaction's records: True if it commits."""


class History:
    def __init__(self) -> None:
        self.fates: defaultdict[int, Fate] = defaultdict(Fate)
        self._decisions: dict[tuple[str, object, int], bool] = {}

    def asked_commit(self, number: int) -> None:
        self.fates[number].asked_commit = True

    def acknowledged(self, number: int, *, commit: bool) -> None:
        fate = self.fates[number]
        fate.acknowledged_commit |= commit
        self._check(number)

    def ended(self, number: int, partition: TopicPartition, *, commit: bool) -> None:
        self.fates[number].outcomes[partition] = commit
        self._check(number)

    def decided(self, sent_for: int, decided_for: int) -> None:
        """A request for one transaction has led to the decision on one."""
        if sent_for != decided_for:
            raise Violation(Invariant.ENDED_BY_ITS_OWN, f"{decided_for} was ended by a request for {sent_for}")

    def markers(self, markers: PendingMarkers) -> None:
        key = (markers.transactional_id, markers.producer, 0 if markers.transaction_version else markers.prepared_ms)
        if self._decisions.setdefault(key, markers.commit) != markers.commit:
            raise Violation(Invariant.DECIDED_ONCE, str(markers))

    def _check(self, number: int) -> None:
        fate = self.fates[number]
        outcomes = set(fate.outcomes.values())
        if len(outcomes) > 1:
            raise Violation(Invariant.ALL_OR_NOTHING, f"{number}: {fate}")
        if outcomes == {True} and not fate.asked_commit:
            raise Violation(Invariant.COMMITTED_AS_ASKED, f"{number}: {fate}")
        if outcomes == {False} and fate.acknowledged_commit:
            raise Violation(Invariant.ACKNOWLEDGED_IS_COMMITTED, f"{number}: {fate}")
