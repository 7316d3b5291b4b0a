"""Producers of a joined simulation: the client's real state machine, with a request at a time.

An old client adds partitions to its transactions itself, and its epoch stays the same from one to the next. After a
record whose fate it does not know it asks for the next epoch, as Kafka's clients do since KIP-360.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.client.model.errors import TransactionAborted
from kraft.client.sans_io.send_batch import ProducerIdentity
from kraft.client.sans_io.transactions import CoordinatorRequest, ProducerTransactions, ProducerTransactionState
from kraft.coordinator.groups.commands import CommitTransactionOffsets
from kraft.coordinator.transactions.commands import (
    AddOffsets,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    ProducerIdNeeded,
    TransactionCommand,
)
from kraft.coordinator.transactions.transaction import EPOCH_BUMP, ProducerIdAndEpoch
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerEpoch, ProducerId, TopicPartition
from kraft.server.handlers.produce_verification import TransactionSupport
from kraft.server.handlers.producer_ids import init_command
from kraft.wire.schema.init_producer_id import InitProducerIdRequest
from tests.simulation.exactly_once_brokers import OFFSETS, Brokers
from tests.simulation.exactly_once_coordinators import GroupHost
from tests.simulation.exactly_once_history import Invariant, Output, Violation

TIMEOUT_MS: Final = 1_200


class Add(Struct, frozen=True):
    partition: TopicPartition


class Write(Struct, frozen=True):
    place: int
    batch: bytes


class Commit(Struct, frozen=True):
    offsets: CommitTransactionOffsets
    find: Callable[[], GroupHost]


Step = Add | Write | Commit
"""A part of a transaction, which is repeated until it is acknowledged."""


class Producer:
    """A transactional producer from its start to its end."""

    def __init__(
        self,
        random: Random,
        brokers: Brokers,
        name: str,
        transactional_id: str,
        client_version: int,
        ended: Callable[[bool], None],
    ) -> None:
        """`ended` is called at the end of each transaction, with True if it is committed."""
        self._random = random
        self._brokers = brokers
        self._name = name
        self._transactional_id = transactional_id
        self._client_version = client_version
        self._ended = ended
        self.machine = ProducerTransactions(transactional_id, TIMEOUT_MS)
        self.commits = 0
        self.refusals: list[ErrorCode] = []
        """The refusals because of which transactions have failed."""
        self._number = 0
        self._steps: list[Step] = []
        self._sequences: dict[int, int] = {}
        self._waits = False
        """A request is under way."""
        self._attempt = 0
        self._again: Callable[[], None] = lambda: None
        """Sends the request that is under way again."""
        self._leader_epoch = 0
        """Of the latest coordinator: it does not return to an earlier one."""
        self._renews = False
        """An old client needs the next epoch after this transaction."""

    @property
    def bumps(self) -> bool:
        return self._client_version >= EPOCH_BUMP

    @property
    def transactional_id(self) -> str:
        return self._transactional_id

    @property
    def number(self) -> int:
        """The open transaction, or the last one."""
        return self._number

    @property
    def is_ready(self) -> bool:
        return self.machine.state is ProducerTransactionState.READY and not self._waits

    @property
    def is_open(self) -> bool:
        return self.machine.state is ProducerTransactionState.OPEN

    @property
    def has_steps(self) -> bool:
        """True if a part of the open transaction is not acknowledged."""
        return bool(self._steps)

    @property
    def needs_identity(self) -> bool:
        return self.machine.state is ProducerTransactionState.NEW and not self._waits

    @property
    def is_dead(self) -> bool:
        return self.machine.state is ProducerTransactionState.DEAD

    @property
    def identity(self) -> ProducerIdAndEpoch:
        identity = self.machine.identity
        assert identity is not None
        return ProducerIdAndEpoch(identity.producer_id, identity.producer_epoch)

    # --- transactions ------------------------------------------------------------------------------------------------

    def begin(
        self,
        outputs: Mapping[int, Sequence[Output]],
        offsets: Callable[[int, ProducerIdAndEpoch], CommitTransactionOffsets] | None,
        find: Callable[[], GroupHost],
        number: int,
    ) -> None:
        """Begin a transaction with these records for each partition, and these offsets of a group, if any."""
        self.machine.begin()
        self._number = number
        if self.bumps:
            self._brokers.numbers.begin(self.identity, self._transactional_id, number)
        writes = [Write(place, self._batch(place, records)) for place, records in sorted(outputs.items())]
        self._steps = [*writes]
        if offsets is not None:
            commit = Commit(replace(offsets(number, self.identity), adds_partition=self.bumps), find)
            self._steps.insert(self._random.randint(0, len(writes)), commit)
        if not self.bumps:
            self._steps = [step for each in self._steps for step in (Add(self._partition(each)), each)]

    def _partition(self, step: Step) -> TopicPartition:
        match step:
            case Add():
                return step.partition
            case Write():
                return self._brokers.partitions[step.place].name
            case Commit():
                return OFFSETS

    def _batch(self, place: int, outputs: Sequence[Output]) -> bytes:
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(outputs)
        return build_batch(
            [Record(0, self._brokers.network.now_ms, None, output.encode()) for output in outputs],
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=sequence,
            transactional=True,
        )

    def give_up(self) -> None:
        """Stop to wait for a part of the open transaction, and abort it."""
        if self.is_open:
            self._fail(TransactionAborted("given up"))

    def _fail(self, error: Exception) -> None:
        self.machine.failed(error)
        self._stop_waiting()
        self._renews = not self.bumps

    def end(self) -> None:
        """Kill the process."""
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        self._waits, self._attempt = False, self._attempt + 1
        self._close()

    def _close(self) -> None:
        """Until the next request of an old client, nothing of it is on its way but records."""
        if not self.bumps:
            self._brokers.network.close(sender=self._name)

    # --- requests ----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Send the request that is due, or perhaps again the one that is under way."""
        machine = self.machine
        if self._waits:
            lot = self._random.random()
            if lot < 0.05:
                self._attempt += 1
                self._again()
            elif lot < 0.055:
                self.give_up()
            return
        if machine.state is ProducerTransactionState.FAILED:
            machine.abort()
        if machine.state is ProducerTransactionState.OPEN:
            if self._steps:
                self._send(self._send_step)
                return
            machine.commit()
        request = machine.next_request()
        if request is not None:
            command = self._command(request)
            self._send(lambda: self._send_command(command))

    def _send(self, send: Callable[[], None]) -> None:
        self._waits, self._again = True, send
        self._attempt += 1
        send()

    def _answer(self) -> Callable[[object], None]:
        """Return what takes the response to the present attempt."""
        attempt = self._attempt

        def answer(response: object) -> None:
            if self._waits and attempt == self._attempt:
                self._waits = False
                self._close()
                self._take(response)

        return answer

    def _send_command(self, command: TransactionCommand) -> None:
        host = self._brokers.transactions.find(self._leader_epoch)
        self._leader_epoch = host.leader_epoch
        self._brokers.coordinate(host, command, self._number, "" if self.bumps else self._name, self._answer())

    def _send_step(self) -> None:
        self.machine.written()
        match step := self._steps[0]:
            case Add():
                self._send_command(self._adding(step.partition))
            case Write():
                support = TransactionSupport.ADDS if self.bumps else TransactionSupport.VERIFIES
                self._brokers.produce(step.place, step.batch, self._transactional_id, support, self._answer())
            case Commit():
                sender = "" if self.bumps else self._name
                self._brokers.commit_offsets(step.find(), step.offsets, sender, self._answer())

    def _adding(self, partition: TopicPartition) -> TransactionCommand:
        if partition == OFFSETS:
            commit = next(each for each in self._steps if isinstance(each, Commit))
            return AddOffsets(
                transactional_id=self._transactional_id, producer=self.identity, group_id=commit.offsets.group_id
            )
        return AddPartitions(
            transactional_id=self._transactional_id,
            producer=self.identity,
            partitions=frozenset({partition}),
            client_version=0,
        )

    def _command(self, request: CoordinatorRequest) -> InitProducerId | EndTransaction:
        if isinstance(request, InitProducerIdRequest):
            return init_command(request, self._transactional_id, is_temporary=False)
        if request.committed:
            self._brokers.history.fates[self._number].asked_commit = True
        return EndTransaction(
            transactional_id=self._transactional_id,
            producer=ProducerIdAndEpoch(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)),
            commit=request.committed,
            client_version=self._client_version,
        )

    # --- responses ---------------------------------------------------------------------------------------------------

    def _take(self, response: object) -> None:
        if isinstance(response, Refusal) and response.error_code.retriable:
            return
        if self.machine.state is ProducerTransactionState.OPEN:
            self._take_step(response)
        elif isinstance(response, ProducerIdNeeded):
            self._take_need()
        elif isinstance(response, Refusal):
            self.machine.refused(response)
        else:
            assert isinstance(response, ProducerIdAndEpoch)
            self._take_identity(response)

    def _take_step(self, response: object) -> None:
        refusal = response if isinstance(response, Refusal) else None
        if isinstance(response, tuple):
            codes = set(response) - {ErrorCode.NONE}
            refusal = Refusal(codes.pop(), "an offset was refused") if codes else None
        if refusal is not None:
            if refusal.error_code is ErrorCode.INVALID_TXN_STATE:
                # A transaction that the coordinator has ended is known by its epoch.
                raise Violation(Invariant.TOLD_RIGHT, f"{self._number} of {self._name}: {refusal.message}")
            self.refusals.append(refusal.error_code)
            self._fail(refusal)
            return
        done = self._steps.pop(0)
        if not isinstance(done, Add):
            self._brokers.history.stored(self._number, self._partition(done))

    def _take_need(self) -> None:
        """Send the request again with a producer id that nobody else has."""
        request = self.machine.next_request()
        assert request is not None
        command = replace(self._command(request), new_producer_id=self._brokers.new_producer_id())
        self._send(lambda: self._send_command(command))

    def _take_identity(self, identity: ProducerIdAndEpoch) -> None:
        before, known = self.machine.state, self.machine.identity
        self.machine.answered(ProducerIdentity(producer_id=identity.producer_id, producer_epoch=identity.epoch))
        if known is None or identity != ProducerIdAndEpoch(known.producer_id, known.producer_epoch):
            self._sequences.clear()
        if before is ProducerTransactionState.NEW:
            return
        is_commit = before is ProducerTransactionState.COMMITTING
        if is_commit:
            self.commits += 1
            self._brokers.history.acknowledged(self._number, commit=True)
        if self._renews:
            self._renews = False
            self.machine = ProducerTransactions(self._transactional_id, TIMEOUT_MS)
            self.machine.identity = ProducerIdentity(producer_id=identity.producer_id, producer_epoch=identity.epoch)
        self._ended(is_commit)
