"""Asks the coordinators of transactions whether partitions belong to a producer's transaction, or adds them (KIP-890).

Requests to one broker carry all transactions that wait for it, and there is one under way at a time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kraft.coordinator.group_partition import partition_of
from kraft.coordinator.transactions.added_partitions import partitions_of, topics_of
from kraft.coordinator.transactions.refusals import answered, id_error
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.metadata.image import CurrentImage
from kraft.metadata.topic_names import TRANSACTIONS_TOPIC
from kraft.model.callbacks import Fatal
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.ids import BrokerId, TopicPartition
from kraft.rpc.peers import Unreachable
from kraft.server.loop.background import BackgroundTasks
from kraft.wire.schema.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)

TRANSACTIONS_PER_REQUEST: Final = 500

LAST_TRANSACTION_S_MAX: Final = 0.5
"""How long the end of the producer's last transaction is waited for. Kafka waits 0.1 s."""

LAST_TRANSACTION_POLL_S: Final = 0.005

Ask = Callable[[BrokerId, AddPartitionsToTxnRequest], Awaitable[AddPartitionsToTxnResponse]]
"""Sends a request to a broker. Raises Unreachable or Refusal."""


Refused = Mapping[TopicPartition, Refusal]


class _WaitingVerification(NamedTuple):
    transaction: AddPartitionsToTxnTransaction
    result: asyncio.Future[Refused]


class TransactionVerifier:
    def __init__(self, image: CurrentImage, ask: Ask, fatal: Fatal) -> None:
        self._image = image
        self._ask = ask
        self._queues: defaultdict[BrokerId, deque[_WaitingVerification]] = defaultdict(deque)
        self._asking: set[BrokerId] = set()
        self._tasks = BackgroundTasks(fatal)
        self._is_closed = False

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Refused:
        """Return what the coordinator refuses. With `adds`, the other partitions are in the transaction from now on.

        The codes are the coordinator's; COORDINATOR_NOT_AVAILABLE if it is unknown or does not answer. The markers of
        the producer's last transaction are waited for a short time, so that few producers have to retry.
        """
        if (refusal := id_error(transactional_id)) is not None:
            return dict.fromkeys(partitions, refusal)
        asked = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=not adds,
            topics=topics_of(partitions),
        )
        loop = asyncio.get_running_loop()
        until_s = loop.time() + LAST_TRANSACTION_S_MAX
        while True:
            refused = await self._refused(asked)
            codes = {each.error_code for each in refused.values()}
            if ErrorCode.CONCURRENT_TRANSACTIONS not in codes or loop.time() >= until_s:
                return refused
            await asyncio.sleep(LAST_TRANSACTION_POLL_S)

    async def _refused(self, asked: AddPartitionsToTxnTransaction) -> Refused:
        coordinator = self._coordinator(asked.transactional_id)
        if coordinator is None or self._is_closed:
            problem = "this broker is stopping" if self._is_closed else f"{TRANSACTIONS_TOPIC} has no leader for the id"
            return _unavailable(asked, problem)
        waiting = _WaitingVerification(asked, asyncio.get_running_loop().create_future())
        self._queues[coordinator].append(waiting)
        if coordinator not in self._asking:
            self._asking.add(coordinator)
            self._tasks.start(self._ask_for_all(coordinator), "verification of transactions")
        return await waiting.result

    async def verify_one(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: TopicPartition, *, adds: bool
    ) -> None:
        """Verify or add one partition. Raises Refusal."""
        refused = await self.verify(transactional_id, producer_id, producer_epoch, (partition,), adds=adds)
        if refused:
            raise refused[partition]

    def _coordinator(self, transactional_id: str) -> BrokerId | None:
        topic = self._image().topic(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        state = topic.partitions[partition_of(transactional_id, len(topic.partitions))]
        return state.leader if state.has_leader else None

    async def _ask_for_all(self, coordinator: BrokerId) -> None:
        """Ask for what waits for this broker, a request at a time, until nothing does."""
        queue, taken = self._queues[coordinator], list[_WaitingVerification]()
        try:
            while queue:
                taken = [queue.popleft() for _ in range(min(len(queue), TRANSACTIONS_PER_REQUEST))]
                _answer(taken, await self._results(coordinator, taken))
        finally:
            self._asking.discard(coordinator)
            _stop(taken)

    async def _results(self, coordinator: BrokerId, taken: Sequence[_WaitingVerification]) -> list[Refused]:
        transactions = tuple(waiting.transaction for waiting in taken)
        try:
            response = await self._ask(coordinator, AddPartitionsToTxnRequest(transactions=transactions))
        except (Unreachable, Refusal) as error:
            return [_unavailable(each, f"broker {coordinator}: {error}") for each in transactions]
        return list(map(_refused, transactions, response.results_by_transaction))

    async def close(self) -> None:
        """End. Everything that waits is refused."""
        self._is_closed = True
        await self._tasks.close()
        for queue in self._queues.values():
            _stop(queue)


def _stop(asked: Collection[_WaitingVerification]) -> None:
    _answer(asked, [_unavailable(waiting.transaction, "this broker is stopping") for waiting in asked])


def _unavailable(asked: AddPartitionsToTxnTransaction, reason: str) -> Refused:
    return dict.fromkeys(partitions_of(asked.topics), Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason))


def _answer(asked: Iterable[_WaitingVerification], results: Iterable[Refused]) -> None:
    for waiting, result in zip(asked, results, strict=True):
        # A producer may have disconnected.
        if not waiting.result.done():
            waiting.result.set_result(result)


def _refused(asked: AddPartitionsToTxnTransaction, result: AddPartitionsToTxnResult) -> Refused:
    producer = ProducerIdAndEpoch.of(asked.producer_id, asked.producer_epoch)
    codes = (each.partition_error_code for topic in result.topic_results for each in topic.results_by_partition)
    return {
        partition: answered(error_code(code), asked.transactional_id, producer, partition)
        for partition, code in zip(partitions_of(asked.topics), codes, strict=True)
        if code != ErrorCode.NONE
    }
