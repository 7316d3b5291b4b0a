"""Verification of the transactions that a produce request writes to, before its records are appended (KIP-890).

Only a producer's first batch of a transaction in a partition needs one: then the coordinator is asked whether the
partition is in the transaction, or adds it, as the producer's version demands. The error codes are those that Kafka
gives to producers of each version.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import Final, NamedTuple

from kraft.log.append_work import CLIENT, TRANSACTIONAL_CLIENT, AppendOrigin
from kraft.log.format.record_batch import BatchHeader, read_header
from kraft.log.transactions.verification import NOT_REQUIRED, VerificationGuard
from kraft.metadata.topic_names import check_not_internal
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.produce import ProducePartition, ProduceRequest
from kraft.server.handlers.long_produces import PackedEntries
from kraft.server.loop.turns import Turns
from kraft.server.replica.partitions import Partitions


class TransactionSupport(IntEnum):
    """A producer's support of transactions, by the version of its request."""

    VERIFIES = 0
    """It adds partitions to transactions itself. Before version 11 of Produce."""

    ABORTABLE = 1
    """The same, and it understands TRANSACTION_ABORTABLE. Version 11."""

    ADDS = 2
    """The leader adds the partitions to which it produces. Since version 12, and over gRPC."""


Verify = Callable[..., Awaitable[Mapping[TopicPartition, Refusal]]]
"""`TransactionVerifier.verify`"""

Origins = Mapping[TopicPartition, AppendOrigin | Refusal]
"""Origin of the records for each partition that was verified, or why they are refused."""

BEGUN_AT_ONCE: Final = 500
"""Verifications begun before other tasks have their turn."""

NO_ORIGINS: Final[Origins] = {}


class _Producer(NamedTuple):
    producer_id: int
    epoch: int


_ByProducer = defaultdict[_Producer, dict[TopicPartition, VerificationGuard]]


class Unverified(NamedTuple):
    """Partitions of a request that have to be verified, with their guards."""

    transactional_id: str
    by_producer: Mapping[_Producer, Mapping[TopicPartition, VerificationGuard]]
    support: TransactionSupport


class ProduceVerification:
    def __init__(self, partitions: Partitions, verify: Verify, *, is_enabled: bool) -> None:
        """If it is not enabled, partitions are only added, for the producers that leave it to the leader."""
        self._partitions = partitions
        self._verify = verify
        self._is_enabled = is_enabled

    def begin(self, request: ProduceRequest, support: TransactionSupport) -> Unverified | None:
        """Begin the verifications that a request needs; None if it needs none."""
        by_producer: _ByProducer = defaultdict(dict)
        for wanted in request.partitions:
            self._begin_one(wanted, support, by_producer)
        return Unverified(request.transactional_id, by_producer, support) if by_producer else None

    async def verify_in_turns(self, request: ProduceRequest, support: TransactionSupport) -> Origins:
        """Do the same as `begin` and `finish`, for a request with so many entries that `begin` would take long."""
        turns, by_producer = Turns(BEGUN_AT_ONCE), _ByProducer(dict)
        for wanted in request.partitions:
            self._begin_one(wanted, support, by_producer)
            await turns.done()
        return await self.finish(Unverified(request.transactional_id, by_producer, support))

    def _begin_one(self, wanted: ProducePartition, support: TransactionSupport, by_producer: _ByProducer) -> None:
        header = _transactional_header(wanted)
        if header is not None and (guard := self._guard(wanted, header, support)) is not None:
            producer = _Producer(header.producer_id, header.producer_epoch)
            by_producer[producer][TopicPartition(wanted.topic, wanted.partition)] = guard

    def _guard(
        self, wanted: ProducePartition, header: BatchHeader, support: TransactionSupport
    ) -> VerificationGuard | None:
        """Return the guard of a verification; None if none is needed, or the append will be refused anyway."""
        try:
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
            partition.as_leader()
            check_not_internal(wanted.topic)
        except Refusal:
            return None
        adds = support is TransactionSupport.ADDS
        if not self._is_enabled and not adds:
            return NOT_REQUIRED
        return partition.log.transactions.begin_verification(
            header.producer_id, header.producer_epoch, header.base_sequence, begins_at_zero=adds
        )

    async def finish(self, unverified: Unverified) -> Origins:
        """Ask the coordinator. Ends with an answer for each partition."""
        answers = await asyncio.gather(
            *(self._verified(unverified, producer, guards) for producer, guards in unverified.by_producer.items())
        )
        return {partition: origin for answer in answers for partition, origin in answer.items()}

    async def _verified(
        self, unverified: Unverified, producer: _Producer, guards: Mapping[TopicPartition, VerificationGuard]
    ) -> Origins:
        origins: dict[TopicPartition, AppendOrigin | Refusal] = {
            partition: AppendOrigin(guard=guard, is_verified_again=True) for partition, guard in guards.items()
        }
        asked = [partition for partition, guard in guards.items() if guard is not NOT_REQUIRED]
        if asked:
            refused = await self._verify(
                unverified.transactional_id,
                producer.producer_id,
                producer.epoch,
                asked,
                adds=unverified.support is TransactionSupport.ADDS,
            )
            for partition, refusal in refused.items():
                origins[partition] = answer = for_producer(refusal, unverified.support)
                self._note_refused(partition, producer, guards[partition], answer)
        return origins

    def _note_refused(
        self, name: TopicPartition, producer: _Producer, guard: VerificationGuard, refusal: Refusal
    ) -> None:
        # Without the partition, its verifications are gone.
        with suppress(Refusal):
            partition = self._partitions.by_name(name.topic, name.partition)
            partition.log.transactions.verification_refused(producer.producer_id, guard, refusal)


def origin_of(origins: Origins, request: ProduceRequest, wanted: ProducePartition) -> AppendOrigin:
    """Return the origin of a request's records for a partition. Raises the Refusal of its verification."""
    if not request.transactional_id:
        return CLIENT
    origin = origins.get(TopicPartition(wanted.topic, wanted.partition), TRANSACTIONAL_CLIENT)
    if isinstance(origin, Refusal):
        raise origin
    return origin


def _transactional_header(wanted: ProducePartition) -> BatchHeader | None:
    """Return the header of the first batch if it is transactional, otherwise None.

    Of a producer's records with several batches, all are refused when they are appended.
    """
    try:
        header = read_header(wanted.records)
    except InvalidBatch:
        return None
    return header if header.is_transactional else None


_RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
"""Errors that producers may not retry, although the same request may succeed soon."""


def for_producer(refusal: Refusal, support: TransactionSupport) -> Refusal:
    """Return the refusal with the code that a producer of this version expects, as in Kafka."""
    code = refusal.error_code
    if code in _RETRIED or (code is ErrorCode.CONCURRENT_TRANSACTIONS and support is not TransactionSupport.ADDS):
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    elif code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.TRANSACTION_ABORTABLE and support is TransactionSupport.VERIFIES:
        code = ErrorCode.INVALID_TXN_STATE
    return Refusal(code, f"the transaction could not be verified: {refusal.message}")


def copied(partitions: list[ProducePartition]) -> list[ProducePartition]:
    """Return the same, with copies of the records."""
    if isinstance(partitions, PackedEntries):
        return partitions
    return [
        ProducePartition(topic=each.topic, partition=each.partition, records=bytes(each.records)) for each in partitions
    ]
