"""Asks the coordinators of transactions whether partitions belong to a producer's transaction, or adds them (KIP-890).

Requests to one broker carry all transactions that wait for it, and there is one under way at a time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kraft.coordinator.group_partition import partition_of
from kraft.coordinator.transactions.refusals import id_error
from kraft.metadata.image import MetadataImage
from kraft.metadata.topic_names import TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, TopicPartition
from kraft.model.partitions import PartitionName
from kraft.model.transaction_partitions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TransactionToVerify,
    VerifiedTransaction,
)
from kraft.rpc.peers import Unreachable
from kraft.server.loop import background

TRANSACTIONS_PER_REQUEST: Final = 500

LAST_TRANSACTION_S_MAX: Final = 0.5
"""How long the end of the producer's last transaction is waited for. Kafka waits 0.1 s."""

LAST_TRANSACTION_POLL_S: Final = 0.005

Ask = Callable[[BrokerId, AddPartitionsToTxnRequest], Awaitable[AddPartitionsToTxnResponse]]
"""Sends a request to a broker. Raises Unreachable or Refusal."""


class _Waiting(NamedTuple):
    transaction: TransactionToVerify
    result: asyncio.Future[VerifiedTransaction]


class TransactionVerifier:
    def __init__(self, image: Callable[[], MetadataImage], ask: Ask, fatal: Callable[[str], None]) -> None:
        self._image = image
        self._ask = ask
        self._fatal = fatal
        self._queues: defaultdict[BrokerId, deque[_Waiting]] = defaultdict(deque)
        self._asking: set[BrokerId] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, Refusal]:
        """Return what the coordinator refuses. With `adds`, the other partitions are in the transaction from now on.

        The codes are the coordinator's; COORDINATOR_NOT_AVAILABLE if it is unknown or does not answer. The markers of
        the producer's last transaction are waited for a short time, so that few producers have to retry.
        """
        if (refusal := id_error(transactional_id)) is not None:
            return dict.fromkeys(partitions, refusal)
        asked = TransactionToVerify(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=not adds,
            partitions=tuple(PartitionName(topic=each.topic, partition=each.partition) for each in partitions),
        )
        loop = asyncio.get_running_loop()
        until_s = loop.time() + LAST_TRANSACTION_S_MAX
        while True:
            result = await self._verified(asked)
            if result.error_code is not ErrorCode.CONCURRENT_TRANSACTIONS or loop.time() >= until_s:
                return _refused(partitions, result)
            await asyncio.sleep(LAST_TRANSACTION_POLL_S)

    async def _verified(self, asked: TransactionToVerify) -> VerifiedTransaction:
        coordinator = self._coordinator(asked.transactional_id)
        if coordinator is None or self._is_closed:
            problem = "this broker is stopping" if self._is_closed else f"{TRANSACTIONS_TOPIC} has no leader for the id"
            return VerifiedTransaction(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message=problem)
        waiting = _Waiting(asked, asyncio.get_running_loop().create_future())
        self._queues[coordinator].append(waiting)
        if coordinator not in self._asking:
            self._asking.add(coordinator)
            task = background.start(self._ask_for_all(coordinator), "verification of transactions", self._fatal)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
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
        queue, taken = self._queues[coordinator], list[_Waiting]()
        try:
            while queue:
                taken = [queue.popleft() for _ in range(min(len(queue), TRANSACTIONS_PER_REQUEST))]
                _answer(taken, await self._results(coordinator, taken))
        finally:
            self._asking.discard(coordinator)
            _stop(taken)

    async def _results(self, coordinator: BrokerId, taken: Sequence[_Waiting]) -> Sequence[VerifiedTransaction]:
        request = AddPartitionsToTxnRequest(transactions=tuple(waiting.transaction for waiting in taken))
        try:
            return (await self._ask(coordinator, request)).transactions
        except (Unreachable, Refusal) as error:
            return [_failed(f"broker {coordinator}: {error}")] * len(taken)

    async def close(self) -> None:
        """End. Everything that waits is refused."""
        self._is_closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for queue in self._queues.values():
            _stop(queue)


def _stop(asked: Collection[_Waiting]) -> None:
    _answer(asked, [_failed("this broker is stopping")] * len(asked))


def _failed(reason: str) -> VerifiedTransaction:
    return VerifiedTransaction(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message=reason)


def _answer(asked: Iterable[_Waiting], results: Iterable[VerifiedTransaction]) -> None:
    for waiting, result in zip(asked, results, strict=True):
        # A producer may have disconnected.
        if not waiting.result.done():
            waiting.result.set_result(result)


def _refused(partitions: Sequence[TopicPartition], result: VerifiedTransaction) -> Mapping[TopicPartition, Refusal]:
    if result.error_code is not ErrorCode.NONE:
        return dict.fromkeys(partitions, Refusal(result.error_code, result.error_message))
    return {
        partition: Refusal(code, f"{partition} is not part of the transaction")
        for partition, code in zip(partitions, result.partition_error_codes, strict=True)
        if code is not ErrorCode.NONE
    }
