"""What is known of each transaction in a simulation, and the invariants that hold for it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum

from kraft.coordinator.transactions.markers import PendingMarkers
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch, Transaction, TransactionState
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

    def broken(self) -> Invariant | None:
        """Return the invariant that does not hold for it."""
        outcomes = set(self.outcomes.values())
        if len(outcomes) > 1:
            return Invariant.ALL_OR_NOTHING
        if outcomes == {True} and not self.asked_commit:
            return Invariant.COMMITTED_AS_ASKED
        if outcomes == {False} and self.acknowledged_commit:
            return Invariant.ACKNOWLEDGED_IS_COMMITTED
        return None


class Numbers:
    """The transaction of each identity of a client that bumps the epoch."""

    def __init__(self) -> None:
        self._by_identity: dict[tuple[ProducerIdAndEpoch, str], int] = {}

    def begin(self, identity: ProducerIdAndEpoch, transactional_id: str, number: int) -> None:
        self._by_identity[identity, transactional_id] = number

    def decided(self, transactional_id: str, before: Transaction | None, after: Transaction | None) -> int | None:
        """Return the transaction that was decided between two states of the id; None if none was."""
        if before is None or after is None or before.state is not TransactionState.ONGOING:
            return None
        return self._by_identity.get((before.producer, transactional_id)) if after.state.is_prepared else None


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
        if (broken := fate.broken()) is not None:
            raise Violation(broken, f"{number}: {fate}")
