"""Requests of transactional producers to their coordinator, of brokers that verify them, and queries about them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from itertools import islice
from typing import Final

from kraft.coordinator.transactions.added_partitions import partitions_of, results_of
from kraft.coordinator.transactions.commands import (
    AddOffsets,
    AddPartitions,
    CommitTransactions,
    EndTransaction,
    TransactionToCommit,
    VerifiedPartitions,
    VerifyPartitions,
)
from kraft.coordinator.transactions.queries import ListFilters, describe_transaction
from kraft.coordinator.transactions.transaction import EPOCH_BUMP, ProducerIdAndEpoch
from kraft.metadata.image import CurrentImage
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.callbacks import Callback, NowMs
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition, numbers_by_topic
from kraft.model.name_regex import NameRegex, regex_error
from kraft.model.producer_transactions import (
    ProducerTransaction,
    ProducerTransactionsRequest,
    ProducerTransactionsResponse,
)
from kraft.model.request_context import RequestContext
from kraft.model.transactions import (
    CommitTransactionsRequest,
    CommitTransactionsResponse,
)
from kraft.server.coordinator.transaction_coordinators import TransactionCoordinators
from kraft.server.loop.threads import in_thread
from kraft.server.loop.turns import Turns
from kraft.wire.schema import describe_transactions as describing
from kraft.wire.schema import list_transactions as listing
from kraft.wire.schema.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kraft.wire.schema.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)
from kraft.wire.schema.end_txn import EndTxnRequest, EndTxnResponse

TRANSACTIONS_AT_ONCE: Final = 500
"""Transactions looked at before other tasks have their turn."""

PATTERN_S_MAX: Final = 5.0
"""CPU time of one request with a pattern. A usual one takes 150 ms for 100,000 ids."""

PATTERN_PIECE_S: Final = 0.05
"""CPU time after which others have their turn in the thread that matches ids."""

BROKERS_ADD_FROM: Final = 4
"""First version of AddPartitionsToTxn that only brokers send (KIP-890)."""

END_BUMPS_FROM: Final = 5
"""First version of EndTxn whose producers expect another epoch after each transaction (KIP-890)."""

VERIFIED_AT_ONCE: Final = 100
"""Transactions of a request from a broker that are decided before other tasks have their turn."""


class TransactionsHandler:
    def __init__(
        self,
        coordinators: TransactionCoordinators,
        image: CurrentImage,
        create_offsets_topic: Callback,
        wall_ms: NowMs,
        executor: Executor,
    ) -> None:
        """`create_offsets_topic` begins to create `__consumer_offsets`; `executor` matches ids."""
        self._coordinators = coordinators
        self._image = image
        self._create_offsets_topic = create_offsets_topic
        self._wall_ms = wall_ms
        self._executor = executor

    # --- producers -----------------------------------------------------------------------------------------------

    async def add_partitions(
        self, request: AddPartitionsToTxnRequest, context: RequestContext
    ) -> AddPartitionsToTxnResponse:
        """Add partitions to a producer's transaction, after a short wait if its last one is being completed.

        Versions of brokers, which use gRPC here, are refused to every producer. Raises Refusal.
        """
        if context.version >= BROKERS_ADD_FROM:
            raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only brokers of the cluster may send this version")
        topics = request.v3_and_below_topics
        command = AddPartitions(
            transactional_id=request.v3_and_below_transactional_id,
            producer=ProducerIdAndEpoch.of(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            partitions=frozenset(partitions_of(topics)),
            client_version=0,
        )
        codes = await self._coordinators.after_last(command.transactional_id, lambda: self._add(command))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results_of(topics, codes))

    async def _add(self, command: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        """Add partitions to a transaction: all, or none if one of them does not exist. Raises Refusal."""
        image = self._image()
        unknown = {each for each in command.partitions if image.partition(each) is None}
        if unknown:
            return {
                each: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if each in unknown else ErrorCode.OPERATION_NOT_ATTEMPTED
                for each in command.partitions
            }
        await self._coordinators.decide(command)
        return dict.fromkeys(command.partitions, ErrorCode.NONE)

    async def add_offsets(self, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
        """Add the partition of a group's offsets to a transaction, after the same wait. Raises Refusal."""
        command = AddOffsets(
            transactional_id=request.transactional_id,
            producer=ProducerIdAndEpoch.of(request.producer_id, request.producer_epoch),
            group_id=request.group_id,
        )
        try:
            await self._coordinators.after_last(command.transactional_id, lambda: self._coordinators.decide(command))
        except Refusal:
            if self._image().topic(OFFSETS_TOPIC) is None:
                self._create_offsets_topic()
            raise
        return AddOffsetsToTxnResponse(error_code=ErrorCode.NONE)

    async def end(self, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
        """Commit or abort a transaction; return the identity for the next one. Raises Refusal."""
        after: ProducerIdAndEpoch = await self._coordinators.decide(
            EndTransaction(
                transactional_id=request.transactional_id,
                producer=ProducerIdAndEpoch.of(request.producer_id, request.producer_epoch),
                commit=request.committed,
                client_version=EPOCH_BUMP if context.version >= END_BUMPS_FROM else 0,
            )
        )
        return EndTxnResponse(error_code=ErrorCode.NONE, producer_id=after.producer_id, producer_epoch=after.epoch)

    async def commit_transactions(self, request: CommitTransactionsRequest) -> CommitTransactionsResponse:
        """Commit open transactions, all or none, once for each sequence. Raises Refusal."""
        response: CommitTransactionsResponse = await self._coordinators.decide(commit_command(request))
        return response

    # --- brokers -------------------------------------------------------------------------------------------------

    async def add_partitions_of_brokers(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        """Add partitions to transactions, or verify them, before their leaders append (KIP-890)."""
        asked, results = iter(request.transactions), list[AddPartitionsToTxnResult]()
        while piece := tuple(islice(asked, VERIFIED_AT_ONCE)):
            # Not one after the other: each may wait for the commit of its partitions.
            results += await asyncio.gather(*map(self._verified, piece))
        return AddPartitionsToTxnResponse(results_by_transaction=tuple(results))

    async def _verified(self, asked: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        partitions = frozenset(partitions_of(asked.topics))
        producer = ProducerIdAndEpoch.of(asked.producer_id, asked.producer_epoch)
        codes: Mapping[TopicPartition, ErrorCode]
        try:
            if asked.verify_only:
                verified: VerifiedPartitions = await self._coordinators.decide(
                    VerifyPartitions(transactional_id=asked.transactional_id, producer=producer, partitions=partitions)
                )
                codes = verified.errors
            else:
                codes = await self._add(
                    AddPartitions(
                        transactional_id=asked.transactional_id,
                        producer=producer,
                        partitions=partitions,
                        client_version=EPOCH_BUMP,
                    )
                )
        except Refusal as refusal:
            codes = dict.fromkeys(partitions, refusal.error_code)
        return AddPartitionsToTxnResult(
            transactional_id=asked.transactional_id, topic_results=results_of(asked.topics, codes)
        )

    # --- queries -------------------------------------------------------------------------------------------------

    async def list_transactions(self, request: listing.ListTransactionsRequest) -> listing.ListTransactionsResponse:
        """Return the transactional ids coordinated here. Raises Refusal: COORDINATOR_LOAD_IN_PROGRESS,
        INVALID_REGULAR_EXPRESSION."""
        filters = ListFilters(
            states=frozenset(request.state_filters),
            producer_ids=frozenset(request.producer_id_filters),
            duration_ms=request.duration_filter,
        )
        pattern = _pattern(request.transactional_id_pattern or "")
        turns, found, now_ms = Turns(TRANSACTIONS_AT_ONCE), list[listing.TransactionState](), self._wall_ms()
        for shard in tuple(self._coordinators.all_committed()):
            for transactional_id, transaction in shard.transactions.by_id.items():
                if filters.accept(transactional_id, transaction, now_ms):
                    found.append(
                        listing.TransactionState(
                            transactional_id=transactional_id,
                            producer_id=transaction.producer.producer_id,
                            transaction_state=transaction.state.kafka_name,
                        )
                    )
                await turns.done()
        if pattern is not None:
            found = await self._matching(pattern, found)
        return listing.ListTransactionsResponse(
            error_code=ErrorCode.NONE,
            unknown_state_filters=tuple(filters.unknown_states()),
            transaction_states=tuple(found),
        )

    async def of_producer(self, request: ProducerTransactionsRequest) -> ProducerTransactionsResponse:
        """Return the transactions of a producer id, and where they were looked for. Raises Refusal
        COORDINATOR_LOAD_IN_PROGRESS."""
        turns, found = Turns(TRANSACTIONS_AT_ONCE), []
        # At one moment: the states of these partitions are those of these leader epochs.
        shards = tuple(self._coordinators.all_committed())
        for shard in shards:
            for transactional_id, transaction in shard.transactions.by_id.items():
                if transaction.producer.producer_id == request.producer_id:
                    found.append(
                        ProducerTransaction(
                            transactional_id=transactional_id,
                            state=transaction.state.kafka_name,
                            producer_epoch=transaction.producer.epoch,
                            partitions=tuple(sorted(transaction.partitions)),
                        )
                    )
                await turns.done()
        return ProducerTransactionsResponse(
            transactions=tuple(found), coordinated=tuple(shard.partition for shard in shards)
        )

    async def _matching(
        self, pattern: NameRegex, listed: Iterable[listing.TransactionState]
    ) -> list[listing.TransactionState]:
        """Return those whose ids match. Raises Refusal INVALID_REGULAR_EXPRESSION if that takes too long."""
        left, matching, taken_s = deque(listed), list[listing.TransactionState](), 0.0
        while left:
            taken_s += await in_thread(self._executor, _match_for_a_while, pattern, left, matching)
            if left and taken_s > PATTERN_S_MAX:
                message = "to match the transactional ids by this pattern takes too long: use a shorter or simpler one"
                raise Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
        return matching

    async def describe(
        self, request: describing.DescribeTransactionsRequest
    ) -> describing.DescribeTransactionsResponse:
        """Return each transactional id once, or its error: a response is not larger than the state here."""
        turns, described = Turns(TRANSACTIONS_AT_ONCE), []
        for transactional_id in dict.fromkeys(request.transactional_ids):
            described.append(self._described(transactional_id))
            partitions = sum(len(topic.partitions) for topic in described[-1].topics)
            await turns.done_with_id(transactional_id, partitions)
        return describing.DescribeTransactionsResponse(transaction_states=tuple(described))

    def _described(self, transactional_id: str) -> describing.TransactionState:
        try:
            transaction = describe_transaction(self._coordinators.committed(transactional_id), transactional_id)
        except Refusal as refusal:
            return refused_transaction(transactional_id, refusal)
        return describing.TransactionState(
            error_code=ErrorCode.NONE,
            transactional_id=transactional_id,
            transaction_state=transaction.state.kafka_name,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.start_ms,
            producer_id=transaction.producer.producer_id,
            producer_epoch=transaction.producer.epoch,
            topics=_topics(transaction.partitions),
        )


def refused_transaction(transactional_id: str, refusal: Refusal) -> describing.TransactionState:
    return describing.TransactionState(
        error_code=refusal.error_code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )


def commit_command(request: CommitTransactionsRequest) -> CommitTransactions:
    named = (
        TransactionToCommit(
            transactional_id=each.transactional_id,
            producer=ProducerIdAndEpoch.of(each.producer_id, each.producer_epoch),
        )
        for each in request.transactions
    )
    return CommitTransactions(
        transactional_id=request.transactional_id, sequence=request.sequence, transactions=tuple(named)
    )


def _pattern(pattern: str) -> NameRegex | None:
    if not pattern:
        return None
    if (problem := regex_error(pattern)) is not None:
        raise Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, problem)
    return NameRegex(pattern)


def _match_for_a_while(
    pattern: NameRegex, left: deque[listing.TransactionState], matching: list[listing.TransactionState]
) -> float:
    """Take from the first of `left` those that match; return the CPU time that it took. Runs in a thread."""
    began_s, taken_s = time.thread_time(), 0.0
    while left and taken_s <= PATTERN_PIECE_S:
        each = left.popleft()
        if pattern.matches(each.transactional_id):
            matching.append(each)
        taken_s = time.thread_time() - began_s
    return taken_s


def _topics(partitions: Iterable[TopicPartition]) -> tuple[describing.TopicData, ...]:
    numbers = numbers_by_topic(sorted(partitions))
    return tuple(describing.TopicData(topic=topic, partitions=tuple(found)) for topic, found in numbers.items())
