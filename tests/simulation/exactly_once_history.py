"""What is known of the transactions, outputs and offsets in a joined simulation, and the invariants that hold for them.

The histories are made of committed batches and of what producers and consumers see. They use no state of the machines.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kraft.log.format.control_record import EndTransactionMarker, MarkerType
from kraft.log.format.record_batch import BatchHeader
from kraft.model.ids import TopicPartition
from tests.simulation import transactions_history


class Invariant(StrEnum):
    EXACTLY_ONCE = "consumers of committed records see the output of each input record once"
    ALL_OR_NOTHING = "the records and offsets of a transaction are committed in all partitions or in none"
    COMMITTED_AS_ASKED = "a transaction is committed only if its producer asked for it"
    ACKNOWLEDGED_IS_COMMITTED = "a transaction whose commit was acknowledged is committed"
    ENDED_BY_ITS_OWN = "a request that ends a transaction was sent for it"
    MARKER_HAS_THE_EPOCH = "a marker has the epoch of the transaction that it ends"
    NOTHING_AFTER_THE_END = "no record of a transaction follows the marker that ended it"
    ACKNOWLEDGED_IS_KEPT = "what is acknowledged to a producer is in the committed log"
    STABLE_MOVES = "the last stable offset moves within the transaction timeout"
    REFUSED_ALONE = "a producer that the log refuses costs nobody else anything"
    TOLD_RIGHT = "no producer is told that its transaction is not open unless it has ended"
    GOES_ON = "without faults every producer commits again"


class Violation(AssertionError):
    def __init__(self, invariant: Invariant, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


class Input(NamedTuple):
    """A record that a group reads."""

    group: str
    partition: int
    offset: int


class Output(NamedTuple):
    """A record that a worker writes: which transaction it is of, and what was read for it."""

    number: int
    source: Input

    def encode(self) -> bytes:
        return f"{self.number} {self.source.group} {self.source.partition} {self.source.offset}".encode()


def decoded(value: bytes) -> Output:
    number, group, partition, offset = value.decode().split()
    return Output(int(number), Input(group, int(partition), int(offset)))


@dataclass(slots=True)
class Fate(transactions_history.Fate):
    """One transaction."""

    bumps: bool = True
    """The end of the transaction gives its producer the next epoch."""

    stored: set[TopicPartition] = field(default_factory=set)
    """Partitions with records that were acknowledged."""


class History:
    def __init__(self) -> None:
        self.fates: dict[int, Fate] = {}
        self.seen: dict[Input, int] = {}
        """Inputs whose output was seen by the consumer, with the transaction."""
        self.open: defaultdict[TopicPartition, dict[int, dict[int, int]]] = defaultdict(dict)
        """Epochs of the open transactions of each partition, by producer id and number."""

    # --- producers ---------------------------------------------------------------------------------------------------

    def begin(self, *, bumps: bool) -> int:
        """Return the number of a new transaction."""
        number = len(self.fates)
        self.fates[number] = Fate(bumps=bumps)
        return number

    def acknowledged(self, number: int, *, commit: bool) -> None:
        self.fates[number].acknowledged_commit |= commit
        self._check(number)

    def stored(self, number: int, partition: TopicPartition) -> None:
        """Records or offsets of the transaction were acknowledged."""
        self.fates[number].stored.add(partition)

    def decided(self, sent_for: int, decided_for: int) -> None:
        """A request for one transaction has led to the decision on one."""
        if sent_for != decided_for:
            raise Violation(Invariant.ENDED_BY_ITS_OWN, f"{decided_for} was ended by a request for {sent_for}")

    # --- partitions --------------------------------------------------------------------------------------------------

    def committed(
        self, partition: TopicPartition, header: BatchHeader, marker: EndTransactionMarker | None, numbers: set[int]
    ) -> None:
        """A batch is below the high watermark; it has records of these transactions."""
        if marker is not None:
            self._ended(partition, header, commit=marker.type is MarkerType.COMMIT)
        for number in sorted(numbers):
            if partition in self.fates[number].outcomes:
                raise Violation(Invariant.NOTHING_AFTER_THE_END, f"{number} in {partition}")
            self.open[partition].setdefault(header.producer_id, {})[number] = header.producer_epoch

    def _ended(self, partition: TopicPartition, header: BatchHeader, *, commit: bool) -> None:
        for number, epoch in self.open[partition].pop(header.producer_id, {}).items():
            fate = self.fates[number]
            # An older client keeps its epoch, unless the coordinator aborts its transaction.
            allowed = {epoch + 1} if fate.bumps else {epoch} if commit else {epoch, epoch + 1}
            if header.producer_epoch not in allowed:
                raise Violation(Invariant.MARKER_HAS_THE_EPOCH, f"{header.producer_epoch} for {epoch} of {number}")
            fate.outcomes[partition] = commit
            self._check(number)

    def _check(self, number: int) -> None:
        fate = self.fates[number]
        if (broken := fate.broken()) is not None:
            raise Violation(Invariant[broken.name], f"{number}: {fate}")

    # --- consumers ---------------------------------------------------------------------------------------------------

    def consumed(self, partition: TopicPartition, output: Output) -> None:
        """A consumer of committed records has received this one."""
        if self.fates[output.number].outcomes.get(partition) is not True:
            raise Violation(Invariant.ALL_OR_NOTHING, f"{output} was not committed in {partition}")
        first = self.seen.setdefault(output.source, output.number)
        if first != output.number:
            raise Violation(Invariant.EXACTLY_ONCE, f"{output.source} by {first} and {output.number}")

    def check_end(self, offsets: dict[tuple[str, int], int]) -> None:
        """Check what holds when every transaction has ended, with the committed offsets of all groups."""
        for number, fate in self.fates.items():
            missing = {place for place in fate.stored if place not in fate.outcomes}
            if missing or (fate.acknowledged_commit and not all(fate.outcomes.values())):
                raise Violation(Invariant.ALL_OR_NOTHING, f"{number}: {fate}, without {missing}")
        expected = {
            Input(group, partition, offset) for (group, partition), end in offsets.items() for offset in range(end)
        }
        if expected != self.seen.keys():
            lost, uncounted = expected - self.seen.keys(), self.seen.keys() - expected
            raise Violation(Invariant.EXACTLY_ONCE, f"no output {lost}, no offset {uncounted}")
