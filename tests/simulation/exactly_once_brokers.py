"""The brokers of a joined simulation: what requests of producers lead to, from the listener to the answer.

The states, the coordinators and the logs are the real ones. The tasks of real brokers, which ask other brokers and wait
for them, are messages here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from kraft.coordinator.groups.commands import CommitTransactionOffsets
from kraft.coordinator.transactions.commands import (
    AddPartitions,
    EndTransaction,
    TransactionCommand,
    VerifiedPartitions,
    VerifyPartitions,
)
from kraft.coordinator.transactions.markers import PendingMarkers
from kraft.coordinator.transactions.transaction import (
    EPOCH_BUMP,
    ProducerIdAndEpoch,
)
from kraft.log.append_work import TRANSACTIONAL_CLIENT, AppendOrigin
from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.format.record_batch import read_header
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerEpoch, ProducerId, TopicPartition
from kraft.server.coordinator.marker_sender import ENDED_THERE
from kraft.server.handlers.produce_verification import TransactionSupport, for_producer
from tests.simulation.exactly_once_coordinators import (
    GroupCoordinators,
    GroupHost,
    TransactionCoordinators,
    TransactionHost,
)
from tests.simulation.exactly_once_history import History
from tests.simulation.exactly_once_network import Network
from tests.simulation.exactly_once_partitions import NOT_LEADER, Leader, Partition
from tests.simulation.transactions_history import Numbers

Answer = Callable[[object], None]

OFFSETS: Final = TopicPartition(OFFSETS_TOPIC, 0)
UNAVAILABLE: Final = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no answer")


class Brokers:
    def __init__(
        self,
        network: Network,
        history: History,
        transactions: TransactionCoordinators,
        groups: GroupCoordinators,
        partitions: Sequence[Partition],
    ) -> None:
        self.network = network
        self.history = history
        self.transactions = transactions
        self.groups = groups
        self.partitions = partitions
        self.numbers = Numbers()
        self._producer_ids = 100

    def new_producer_id(self) -> ProducerId:
        self._producer_ids += 1
        return ProducerId(self._producer_ids)

    # --- requests of producers ---------------------------------------------------------------------------------------

    def coordinate(
        self, host: TransactionHost, command: TransactionCommand, number: int, sender: str, answer: Answer
    ) -> None:
        """Send a request to a coordinator of transactions."""

        def arrive() -> None:
            transactional_id = command.transactional_id
            before = host.hosted.latest.by_id.get(transactional_id)
            host.receive(command, partial(self._respond, answer))
            if isinstance(command, EndTransaction) and command.client_version >= EPOCH_BUMP:
                after = host.hosted.latest.by_id.get(transactional_id)
                decided = self.numbers.decided(transactional_id, before, after)
                if decided is not None:
                    self.history.decided(number, decided)

        self.network.send(arrive, sender=sender)

    def produce(
        self, place: int, batch: bytes, transactional_id: str, support: TransactionSupport, answer: Answer
    ) -> None:
        leader = self.partitions[place].some_leader()
        self.network.send(partial(self._produce, place, leader, batch, transactional_id, support, answer))

    def _produce(
        self,
        place: int,
        leader: Leader,
        batch: bytes,
        transactional_id: str,
        support: TransactionSupport,
        answer: Answer,
    ) -> None:
        """Verify that the partition is in the transaction, or add it, and append."""
        answered: Answer = partial(self._respond, answer)

        def append(origin: AppendOrigin) -> None:
            """Append with the lead that the broker has by now."""
            present = self.partitions[place].leader_on(leader.replica)
            if present is None:
                answered(NOT_LEADER)
            else:
                present.append(batch, origin, self.network.now_ms, answered)

        if leader.is_gone:
            # The request may wait for the verification of another partition.
            self.network.send(partial(append, TRANSACTIONAL_CLIENT), may_repeat=False)
            return
        header, adds = read_header(batch), support is TransactionSupport.ADDS
        log = leader.log
        guard = log.transactions.begin_verification(
            header.producer_id, header.producer_epoch, header.base_sequence, begins_at_zero=adds
        )
        if guard is None:
            append(TRANSACTIONAL_CLIENT)
            return

        def verified(refusal: Refusal | None) -> None:
            if refusal is None:
                append(AppendOrigin(guard=guard, is_verified_again=True))
                return
            told = for_producer(refusal, support)
            log.transactions.verification_refused(header.producer_id, guard, told)
            answered(told)

        identity = ProducerIdAndEpoch(ProducerId(header.producer_id), ProducerEpoch(header.producer_epoch))
        self._ask(transactional_id, identity, self.partitions[place].name, adds, verified)

    def commit_offsets(self, host: GroupHost, command: CommitTransactionOffsets, sender: str, answer: Answer) -> None:
        self.network.send(partial(self._commit_offsets, host, command, partial(self._respond, answer)), sender=sender)

    def _commit_offsets(self, host: GroupHost, command: CommitTransactionOffsets, answer: Answer) -> None:
        """Verify that the group's partition is in the transaction, or add it, and decide."""
        guard = host.begin_verification(command.request.producer_id, command.request.producer_epoch)
        if guard is None:
            host.decide(command, answer)
            return

        def verified(refusal: Refusal | None) -> None:
            if refusal is None:
                host.decide(replace(command, guard=guard), answer)
                return
            host.verification_refused(command.request.producer_id, guard, refusal)
            answer(refusal)

        identity = ProducerIdAndEpoch(
            ProducerId(command.request.producer_id), ProducerEpoch(command.request.producer_epoch)
        )
        self._ask(command.request.transactional_id, identity, OFFSETS, command.adds_partition, verified)

    def _ask(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partition: TopicPartition,
        adds: bool,
        then: Callable[[Refusal | None], None],
    ) -> None:
        """Ask a coordinator whether the partition is in the transaction, or let it add the partition. Answers once."""
        host = self.transactions.some_host() if adds else self.transactions.leader
        answers: list[Refusal | None] = []

        def once(refusal: Refusal | None) -> None:
            if not answers:
                answers.append(refusal)
                then(refusal)

        def arrive() -> None:
            partitions = frozenset({partition})
            command: TransactionCommand = (
                AddPartitions(
                    transactional_id=transactional_id,
                    producer=producer,
                    partitions=partitions,
                    client_version=EPOCH_BUMP,
                )
                if adds
                else VerifyPartitions(transactional_id=transactional_id, producer=producer, partitions=partitions)
            )
            host.receive(command, respond)

        def respond(response: object) -> None:
            refusal = _refusal_in(response, partition)
            self.network.send(lambda: once(refusal), lost=lambda: once(UNAVAILABLE))

        self.network.send(arrive, lost=lambda: once(UNAVAILABLE))

    def _respond(self, answer: Answer, response: object) -> None:
        self.network.send(lambda: answer(response), may_repeat=False)

    # --- markers -----------------------------------------------------------------------------------------------------

    def send_markers(self, skipped: Callable[[], bool]) -> None:
        """Send markers that are pending, one at a time for each decision and partition."""
        for host in self.transactions.hosts:
            for markers in self.pending(host):
                for partition in sorted(markers.partitions):
                    key = (markers.transactional_id, markers.prepared_ms, partition)
                    if key in host.under_way or skipped():
                        continue
                    host.under_way.add(key)
                    # Without a bump of the epoch only the connection tells a late marker from one of the next
                    # transaction.
                    is_bumped = markers.transaction_version >= EPOCH_BUMP
                    self.network.send(
                        partial(self._mark, host, markers, partition),
                        lost=partial(host.under_way.discard, key),
                        may_repeat=is_bumped,
                        may_be_lost=is_bumped,
                    )

    def pending(self, host: TransactionHost) -> list[PendingMarkers]:
        return host.pending()

    def _mark(self, host: TransactionHost, markers: PendingMarkers, partition: TopicPartition) -> None:
        """Write a marker, as the handler of WriteTxnMarkers does."""
        end = EndTransactionMarker(
            type=MarkerType.COMMIT if markers.commit else MarkerType.ABORT, coordinator_epoch=host.leader_epoch
        )
        batch = build_marker(end, markers.producer.producer_id, markers.producer.epoch, self.network.now_ms)
        origin = AppendOrigin(is_coordinator=True, transaction_version=markers.transaction_version)
        answer = partial(self._marked, host, markers, partition)
        if partition == OFFSETS:
            self.groups.some_host().end_transaction(batch, markers.transaction_version, answer)
        else:
            self.partitions[partition.partition].some_leader().append(batch, origin, self.network.now_ms, answer)

    def _marked(
        self, host: TransactionHost, markers: PendingMarkers, partition: TopicPartition, response: object
    ) -> None:
        code = response.error_code if isinstance(response, Refusal) else ErrorCode.NONE
        key = (markers.transactional_id, markers.prepared_ms, partition)

        def report() -> None:
            if code in ENDED_THERE and not host.is_gone:
                host.receive(markers.written(frozenset({partition})), lambda _: None)
            host.under_way.discard(key)

        self.network.send(report, may_repeat=markers.transaction_version >= EPOCH_BUMP, may_be_lost=False)

    # --- offsets -----------------------------------------------------------------------------------------------------

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        """Committed offsets by group and partition."""
        return self.groups.leader.offsets("orders")


def _refusal_in(response: object, partition: TopicPartition) -> Refusal | None:
    if isinstance(response, Refusal):
        return response
    if isinstance(response, VerifiedPartitions) and response.errors[partition] is not ErrorCode.NONE:
        return Refusal(response.errors[partition], f"{partition} is not part of the transaction")
    return None
