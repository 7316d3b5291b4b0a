"""One transaction coordinator with its log, producers, and partitions that take markers, under faults by a seed.

Messages arrive in any order, late, and more than once. The coordinator crashes at any point; what was not committed
then stays or is lost. Producers crash, and others take over their transactional ids.

Only what old clients cannot have is left out: a request of theirs that arrives after a later one, and a marker that
arrives twice from one coordinator, both of which could end their next transaction, because its epoch is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final, TypeAlias

from msgspec.structs import replace

from kraft.coordinator.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    ProducerIdNeeded,
    TransactionCommand,
)
from kraft.coordinator.transactions.markers import PendingMarkers, pending_markers
from kraft.coordinator.transactions.replicated import record_of
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.shard import TransactionShard
from kraft.coordinator.transactions.transaction import (
    EPOCH_BUMP,
    ProducerIdAndEpoch,
    TransactionState,
    new_transaction,
)
from kraft.metadata.features import TRANSACTION_VERSION
from kraft.metadata.image import EMPTY_IMAGE
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerEpoch, ProducerId, TopicPartition
from tests.simulation.transactions_coordinator import FaultyCoordinator
from tests.simulation.transactions_history import History, Invariant, Numbers, Violation
from tests.simulation.transactions_host import Batch, Host

TIMEOUT_MS: Final = 1_000
PARTITIONS: Final = tuple(TopicPartition("orders", number) for number in range(3))
_ONE_ID_BYTES: Final = 641
"""Memory with which one of the two ids is evicted when the other one needs its room."""

_RETRY: Final = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE}

MarkerKey: TypeAlias = tuple[int, str, int, TopicPartition]
"""Leader epoch of the coordinator that sent a marker, transactional id, time of the decision, partition."""


@dataclass(slots=True)
class Process:
    """A producer. It has one request at a time, and sends it again if no response comes."""

    name: str
    transactional_id: str
    client_version: int
    identity: ProducerIdAndEpoch | None = None
    expected: ProducerIdAndEpoch | None = None
    number: int = 0
    """Its transaction; 0 if there is none."""
    partitions: list[TopicPartition] = field(default_factory=list)
    added: int = 0
    commits: bool = True
    request: TransactionCommand | None = None
    attempt: int = 0
    """Number of the last message with the request; only its response is taken."""
    rest: int = 0
    """How many turns it takes to start again."""

    def restart(self, expected: ProducerIdAndEpoch | None) -> None:
        self.identity, self.expected, self.request, self.number = None, expected, None, 0


@dataclass(frozen=True, slots=True)
class Message:
    deliver: Callable[[], None]
    sender: str = ""
    """The old client that sent it, which waits for the response."""
    may_repeat: bool = True
    may_be_lost: bool = True


@dataclass(slots=True)
class Entry:
    """What a partition knows of one producer id."""

    epoch: int = -1
    coordinator_epoch: int = -1
    open: set[int] = field(default_factory=set)


class World(FaultyCoordinator):
    def __init__(self, seed: int) -> None:
        super().__init__(Random(seed))
        chance = self.chance
        level = chance.choice([0, EPOCH_BUMP, EPOCH_BUMP])
        self.image = replace(EMPTY_IMAGE, features={TRANSACTION_VERSION: level})
        self.history = History()
        self.shard = TransactionShard(
            TransactionSettings(
                id_expiration_ms=chance.choice([3_000, 10_000_000]),
                expiry_interval_ms=500,
                memory_bytes_max=_ONE_ID_BYTES if seed % 3 == 0 else 1 << 20,
                unused_ages_ms=(20, 0),
                eviction_interval_ms=1,
            )
        )
        self.next_producer_id = 100
        self.next_number = 1
        self.attempts = 0
        self.network: list[Message] = []
        self.late: list[Message] = []
        """Messages that were delivered, and come again."""
        self.entries: dict[tuple[TopicPartition, int], Entry] = {}
        self.numbers = Numbers()
        self.in_flight: set[MarkerKey] = set()
        versions = {"a": level, "b": 0}
        self.processes = [
            Process(f"{each}{number}", each, version) for each, version in versions.items() for number in range(2)
        ]
        self.host = Host(self.shard, self.context, 0, [self._first(level)] if chance.random() < 0.3 else [])
        self.commit_all()

    def _first(self, level: int) -> Batch:
        """Return records of ids whose epochs are nearly exhausted."""
        fresh = new_transaction(ProducerId(1), TIMEOUT_MS, self.now_ms)
        late = replace(fresh, producer=ProducerIdAndEpoch(ProducerId(1), ProducerEpoch(32_763)))
        other = replace(late, producer=replace(late.producer, producer_id=ProducerId(2)))
        return tuple(
            record_of(each, transaction, transaction_version=level) for each, transaction in (("a", late), ("b", other))
        )

    # --- runs --------------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        events: list[tuple[Callable[[], None], int]] = [
            (self._producer_acts, 300),
            (self.deliver, 450),
            (self._deliver_again, 15),
            (self.works, 250),
            (self.append, 100),
            (self.commit, 100),
            (self.send_markers, 100),
            (self.time_passes, 15),
            (self.crash, 4),
            (self._process_crashes, 4),
        ]
        acts, weights = zip(*events, strict=True)
        for step, act in enumerate(self.chance.choices(acts, weights, k=steps)):
            act()
            if step % 20 == 0:
                self.check_state()
        self.heal()

    def heal(self) -> None:
        """Without faults and new requests, every transaction ends in time."""
        self.network += self.late
        self.end_faults(TIMEOUT_MS // 10, 60)
        hanging = [each for each in self.host.hosted.committed.by_id.values() if not each.state.is_closed]
        open_records = {key: entry for key, entry in self.entries.items() if entry.open}
        if hanging or open_records:
            raise Violation(Invariant.NOTHING_HANGS, f"{hanging} {open_records}")
        for number, fate in self.history.fates.items():
            if fate.acknowledged_commit and not all(fate.outcomes.values()):
                raise Violation(Invariant.ACKNOWLEDGED_IS_COMMITTED, f"{number}: {fate}")

    def check_state(self) -> None:
        if not self.has_state_of_log():
            raise Violation(Invariant.STATE_IS_THE_LOG, "")

    # --- markers -----------------------------------------------------------------------------------------------------

    def pending(self) -> list[PendingMarkers]:
        hosted = self.host.hosted
        if hosted.volatile is None:
            return []
        return list(pending_markers(hosted.committed, hosted.latest, hosted.volatile))

    def send_markers(self) -> None:
        # Sets and maps of texts have another order in each process.
        for markers in sorted(self.pending(), key=lambda each: each.transactional_id):
            self.history.markers(markers)
            for partition in sorted(markers.partitions):
                key = (self.host.leader_epoch, markers.transactional_id, markers.prepared_ms, partition)
                if key in self.in_flight or self.chance.random() < 0.3:
                    continue
                is_bumped = markers.transaction_version >= EPOCH_BUMP
                if not is_bumped:
                    self.in_flight.add(key)
                self.network.append(
                    Message(
                        partial(self._mark, self.host, markers, partition), may_repeat=is_bumped, may_be_lost=is_bumped
                    )
                )

    # --- partitions --------------------------------------------------------------------------------------------------

    def _mark(self, host: Host, markers: PendingMarkers, partition: TopicPartition) -> None:
        """Write a marker, unless a later coordinator or producer has been here; then report it."""
        entry = self.entries.setdefault((partition, markers.producer.producer_id), Entry())
        epoch = markers.producer.epoch
        repeats = markers.transaction_version >= EPOCH_BUMP and epoch == entry.epoch and bool(entry.open)
        if host.leader_epoch < entry.coordinator_epoch or epoch < entry.epoch or repeats:
            return
        ended, entry.open = entry.open, set()
        entry.epoch, entry.coordinator_epoch = epoch, host.leader_epoch
        for number in ended:
            self.history.ended(number, partition, commit=markers.commit)
        report = markers.written(frozenset({partition}))
        arrived = {(host.leader_epoch, markers.transactional_id, markers.prepared_ms, partition)}
        self.network.append(Message(lambda: self._report(host, report, arrived), may_be_lost=False))

    def _report(self, host: Host, report: MarkersWritten, arrived: set[MarkerKey]) -> None:
        """Report a marker to the coordinator that sent it, if it still is one; it may have to send the marker again."""
        self.in_flight -= arrived
        arrived.clear()
        if host is self.host:
            host.receive(report, lambda response: None)

    def _write(self, process: Process, partition: TopicPartition) -> bool:
        """Write a record, after the coordinator has verified that the partition is in the transaction."""
        hosted = self.host.hosted
        latest = hosted.latest.by_id.get(process.transactional_id)
        committed = hosted.committed.by_id.get(process.transactional_id)
        identity = process.identity
        assert identity is not None
        for known in (latest, committed):
            if known is None or known.state is not TransactionState.ONGOING or known.producer != identity:
                return False
            if partition not in known.partitions or latest is None or known.start_ms != latest.start_ms:
                return False
        entry = self.entries.setdefault((partition, identity.producer_id), Entry())
        if identity.epoch < entry.epoch:
            return False
        entry.epoch = identity.epoch
        entry.open.add(process.number)
        return True

    # --- producers ---------------------------------------------------------------------------------------------------

    def _producer_acts(self) -> None:
        process = self.chance.choice(self.processes)
        if process.rest > 0:
            process.rest -= 1
        elif process.request is not None:
            if self.chance.random() < 0.05:
                self._send(process, process.request)
        elif process.identity is None:
            command = InitProducerId(
                transactional_id=process.transactional_id, timeout_ms=TIMEOUT_MS, expected=process.expected
            )
            self._send(process, command)
        elif process.number == 0:
            self._begin(process, process.identity)
        elif process.added < len(process.partitions):
            partitions = frozenset({process.partitions[process.added]})
            self._send(
                process,
                AddPartitions(
                    transactional_id=process.transactional_id,
                    producer=process.identity,
                    partitions=partitions,
                    client_version=process.client_version,
                ),
            )
        else:
            self._end(process, process.identity)

    def _begin(self, process: Process, identity: ProducerIdAndEpoch) -> None:
        process.number, self.next_number = self.next_number, self.next_number + 1
        process.partitions = self.chance.sample(PARTITIONS, self.chance.randint(1, len(PARTITIONS)))
        process.added = 0
        process.commits = self.chance.random() < 0.7
        if process.client_version >= EPOCH_BUMP:
            self.numbers.begin(identity, process.transactional_id, process.number)

    def _end(self, process: Process, identity: ProducerIdAndEpoch) -> None:
        if process.commits:
            self.history.asked_commit(process.number)
        self._send(
            process,
            EndTransaction(
                transactional_id=process.transactional_id,
                producer=identity,
                commit=process.commits,
                client_version=process.client_version,
            ),
        )

    def _process_crashes(self) -> None:
        self.chance.choice(self.processes).restart(expected=None)

    def _send(self, process: Process, command: TransactionCommand) -> None:
        self.attempts += 1
        process.request, process.attempt = command, self.attempts
        attempt, number = self.attempts, process.number
        is_old = process.client_version < EPOCH_BUMP
        self.network.append(
            Message(
                lambda: self._arrive(process, command, attempt, number),
                sender=process.name if is_old else "",
                may_repeat=not is_old,
            )
        )

    def _arrive(self, process: Process, command: TransactionCommand, attempt: int, number: int) -> None:
        before = self.host.hosted.latest.by_id.get(process.transactional_id)
        self.host.receive(command, lambda response: self._respond(process, attempt, response))
        after = self.host.hosted.latest.by_id.get(process.transactional_id)
        if isinstance(command, EndTransaction) and command.client_version >= EPOCH_BUMP:
            decided = self.numbers.decided(process.transactional_id, before, after)
            if decided is not None:
                self.history.decided(number, decided)

    def _respond(self, process: Process, attempt: int, response: object) -> None:
        self.network.append(Message(lambda: self._take(process, attempt, response), may_repeat=False))

    def _take(self, process: Process, attempt: int, response: object) -> None:
        if attempt != process.attempt or process.request is None:
            return
        command, process.request = process.request, None
        # Until its next request, nothing of an old client is on its way.
        self.network = [each for each in self.network if each.sender != process.name]
        if isinstance(response, ProducerIdNeeded):
            assert isinstance(command, InitProducerId | EndTransaction)
            self.next_producer_id += 1
            self._send(process, replace(command, new_producer_id=ProducerId(self.next_producer_id)))
        elif isinstance(response, Refusal):
            if response.error_code in _RETRY:
                process.request = command
            else:
                process.restart(expected=process.identity if self.chance.random() < 0.5 else None)
                process.rest = self.chance.choice([0, 20, 200])
        elif isinstance(command, AddPartitions):
            written = self._write(process, process.partitions[process.added])
            # The client knows that it has to abort if a write was refused.
            process.commits = process.commits and written
            process.added += 1
        else:
            assert isinstance(response, ProducerIdAndEpoch)
            if isinstance(command, EndTransaction):
                self.history.acknowledged(process.number, commit=command.commit)
            process.identity, process.number = response, 0

    def deliver(self) -> None:
        """Deliver any message; under faults, it may be lost, or come again much later."""
        if not self.network:
            return
        is_late = self.chance.random() < 0.3
        place = self.chance.randrange(len(self.network)) if is_late else len(self.network) - 1
        message = self.network[place]
        lot = self.chance.random()
        del self.network[place]
        if self.faults and message.may_repeat and lot < 0.1:
            self.late.append(message)
        if not (self.faults and message.may_be_lost and lot > 0.95):
            message.deliver()

    def _deliver_again(self) -> None:
        if self.late:
            self.late.pop(self.chance.randrange(len(self.late))).deliver()
