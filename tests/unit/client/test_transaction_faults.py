"""Transactions under faults that a seed chooses: what is reported as committed is read once, and nothing else is."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from kraft.client.aio.producer import Producer
from kraft.client.model.errors import TransactionAborted, TransactionConflict, TransactionTimeout
from kraft.model.errors import ErrorCode
from tests.support.client.fake_cluster import FakeCluster
from tests.support.client.fake_transactions import FakeTransactions
from tests.unit.client.transactions import cluster_with, committed, producer_of

PARTITIONS = 3
TRANSACTIONS = 12

REFUSALS = [
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
]


class Faults:
    """Does something to the cluster now and then, until it is stopped, and then repairs it."""

    def __init__(self, cluster: FakeCluster, transactions: FakeTransactions, chances: random.Random) -> None:
        self._cluster = cluster
        self._transactions = transactions
        self._chances = chances

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._chances.expovariate(0.7))
            self._chances.choice([self._lose, self._refuse, self._move, self._hold, self._hang, self._shrink])()

    def repair(self) -> None:
        for broker in self._cluster.brokers.values():
            broker.hangs = False
            broker.loses_answers = broker.loses_requests = 0
            broker.lost_answers.clear()
        for partition in self._cluster.topics["orders"]:
            partition.refusals.clear()
            partition.size_max = 1 << 20
        self._transactions.write_markers()

    def _broker(self) -> int:
        return self._chances.choice(list(self._cluster.brokers))

    def _lose(self) -> None:
        broker = self._cluster.brokers[self._broker()]
        match self._chances.randrange(3):
            case 0:
                broker.loses_answers += 1
            case 1:
                broker.loses_requests += 1
            case _:
                broker.lost_answers[self._chances.choice(["end_txn", "init_producer_id"])] += 1

    def _refuse(self) -> None:
        partition = self._chances.choice(self._cluster.topics["orders"])
        partition.refusals.append(self._chances.choice(REFUSALS))

    def _move(self) -> None:
        self._cluster.move_leader("orders", self._chances.randrange(PARTITIONS), self._broker())
        self._transactions.coordinator_id = self._broker()

    def _hold(self) -> None:
        if self._transactions.holds_markers:
            self._transactions.write_markers()
        self._transactions.holds_markers = not self._transactions.holds_markers

    def _hang(self) -> None:
        broker = self._cluster.brokers[self._broker()]
        broker.hangs = not broker.hangs

    def _shrink(self) -> None:
        partition = self._chances.choice(self._cluster.topics["orders"])
        partition.size_max = self._chances.choice([120, 1 << 20])


async def transact(producer: Producer, value: bytes, chances: random.Random) -> int:
    """Run one transaction with records of this value. Return how many are committed."""
    sent = 0
    try:
        async with producer.transaction(timeout_ms=chances.choice([2_000, 60_000])):
            for _ in range(chances.randrange(20)):
                await producer.send("orders", value, partition=chances.randrange(PARTITIONS))
                sent += 1
            await asyncio.sleep(chances.choice([0, 0, 1, 15]))
            if chances.random() < 0.2:
                raise ZeroDivisionError
    except (ZeroDivisionError, TransactionAborted, TransactionTimeout):
        return sent if await has_committed(producer) else 0
    return sent


async def has_committed(producer: Producer) -> bool:
    """Find out whether the last transaction, which ended with an error, is committed. Abort it otherwise."""
    for end in (producer.commit_transaction, producer.abort_transaction):
        while True:
            try:
                await end()
            except TransactionTimeout:
                continue
            except (TransactionAborted, TransactionConflict):
                break
            return end == producer.commit_transaction
    return False


@pytest.mark.parametrize("seed", range(12))
async def test_what_is_reported_as_committed_is_read_once_and_nothing_else(seed: int) -> None:
    chances = random.Random(seed)
    settings: dict[str, Any] = {"transaction_timeout_ms": 20_000, "request_timeout_ms": 3_000}
    async with cluster_with("orders", partitions=PARTITIONS) as (cluster, transactions):
        faults = Faults(cluster, transactions, chances)
        task = asyncio.create_task(faults.run())
        expected: Counter[bytes | None] = Counter()
        try:
            async with producer_of(cluster, **settings) as producer:
                await producer.init_transactions(timeout_ms=600_000)
                for number in range(TRANSACTIONS):
                    value = b"%d" % number
                    expected[value] = await transact(producer, value, chances)
        finally:
            task.cancel()
        faults.repair()
        assert Counter(await committed(cluster)) == +expected
