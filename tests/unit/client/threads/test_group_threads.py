"""The synchronous consumer in a group, in real time: callbacks run in the thread that polls."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any, ClassVar

import pytest

from kraft.client import ClientClosed, Consumer, ConsumerRecord, OffsetAndMetadata, TopicPartition
from kraft.client.cluster.network import Network
from kraft.client.threads import loop_thread
from kraft.client.threads.loop_thread import CallingThread, shared_loop
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.fake_groups import FakeGroups
from tests.support.waiting import until
from tests.unit.client.clients import fill
from tests.unit.client.members import GROUP, RECORDS, place


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    # On the loop that the clients use, because its events and timers belong to one loop.
    async def with_orders() -> FakeCluster:
        cluster = FakeCluster()
        place(cluster, "orders", 1)
        fill(cluster, "orders", RECORDS)
        cluster.groups = FakeGroups(cluster)
        return cluster

    async def close() -> None:
        assert made.groups is not None
        made.groups.close()

    made = shared_loop().run(with_orders)
    yield made
    shared_loop().run(close)


def member_of(cluster: FakeCluster, **settings: Any) -> Consumer:
    given = {"group_id": GROUP, "auto_offset_reset": "earliest", **settings}
    return Consumer(cluster.bootstrap_servers, network=Network(connect=lambda: cluster), **given)


def committed(cluster: FakeCluster) -> int | None:
    assert cluster.groups is not None
    return cluster.groups.committed(GROUP, "orders")


def read(consumer: Consumer, count: int) -> list[int]:
    offsets: list[int] = []
    while len(offsets) < count:
        offsets += [record.offset for record in consumer.poll(10_000)]
    return offsets


def test_callbacks_run_in_the_thread_that_polls_and_use_the_consumer(cluster: FakeCluster) -> None:
    calls: list[tuple[str, int, list[TopicPartition]]] = []

    with member_of(cluster, enable_auto_commit=False) as consumer:

        def on_assigned(partitions: list[TopicPartition]) -> None:
            calls.append(("assigned", threading.get_ident(), partitions))
            consumer.seek(partitions[0], 5)

        def on_revoked(partitions: list[TopicPartition]) -> None:
            calls.append(("revoked", threading.get_ident(), partitions))
            consumer.commit()

        consumer.subscribe("orders", on_assigned=on_assigned, on_revoked=on_revoked)
        assert read(consumer, 15) == list(range(5, RECORDS))
        assert (consumer.subscription(), consumer.paused(), consumer.lag(tp("orders"))) == (["orders"], [], 0)
    assert calls == [(event, threading.get_ident(), [tp("orders")]) for event in ("assigned", "revoked")]
    assert committed(cluster) == RECORDS


def test_a_callback_that_fails_fails_the_poll_and_not_the_rebalance(cluster: FakeCluster) -> None:
    with member_of(cluster) as consumer:

        def on_assigned(_: list[TopicPartition]) -> None:
            raise ZeroDivisionError

        consumer.subscribe("orders", on_assigned=on_assigned)
        with pytest.raises(ZeroDivisionError):
            consumer.poll(60_000)
        assert len(read(consumer, RECORDS)) == RECORDS


def test_an_interrupted_callback_interrupts_the_poll(cluster: FakeCluster) -> None:
    with member_of(cluster) as consumer:
        interrupts = [KeyboardInterrupt()]

        def on_assigned(_: list[TopicPartition]) -> None:
            if interrupts:
                raise interrupts.pop()

        consumer.subscribe("orders", on_assigned=on_assigned)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(60_000)
        assert len(read(consumer, RECORDS)) == RECORDS, "the callback has run again"


def test_an_iteration_ends_after_its_timeout_and_goes_on_where_it_was_left(cluster: FakeCluster) -> None:
    with member_of(cluster, consumer_timeout_ms=100) as consumer:
        consumer.subscribe("orders")
        seen: list[int] = []
        while len(seen) < 7:
            # Joining may take longer than the timeout of an iteration.
            for record in consumer:
                seen.append(record.offset)
                if len(seen) == 7:
                    break
        assert consumer.position(tp("orders")) == 7
        seen += [record.offset for record in consumer]
        with pytest.raises(StopIteration):
            next(consumer)
    assert seen == list(range(RECORDS))
    assert committed(cluster) == RECORDS


def test_offsets_are_committed_and_looked_up(cluster: FakeCluster) -> None:
    with member_of(cluster, enable_auto_commit=False) as consumer:
        consumer.subscribe(["orders"])
        read(consumer, RECORDS)
        done = threading.Event()
        consumer.commit_async({tp("orders"): 3}, lambda _, error: done.set() if error is None else None)
        assert done.wait(60)
        assert consumer.committed([tp("orders")]) == {tp("orders"): OffsetAndMetadata(3)}
        consumer.seek_to_timestamp(95)
        assert consumer.position(tp("orders")) == 10
        consumer.unsubscribe()
        assert consumer.assignment() == []
    with pytest.raises(ClientClosed):
        consumer.poll()


def test_a_callback_that_is_called_within_another_runs_in_the_inner_one() -> None:
    caller = CallingThread(shared_loop())
    order: list[str] = []

    async def call_back(name: str) -> None:
        order.append(f"{name} began")
        await (outer if name == "outer" else inner)(name)
        order.append(f"{name} ended")

    def run_inner(_: str) -> None:
        caller.run(lambda: call_back("inner"))

    outer, inner = caller.callback(run_inner), caller.callback(order.append)
    caller.run(lambda: call_back("outer"))
    assert order == ["outer began", "inner began", "inner", "inner ended", "outer ended"]


class InterruptedQueue(SimpleQueue[Any]):
    """The caller is interrupted when what it waits for has come."""

    interrupts: ClassVar[list[BaseException]] = []

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        item = super().get(block, timeout)
        if item is None and self.interrupts:
            raise self.interrupts.pop()
        return item


@pytest.fixture
def interrupts(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Errors, such as KeyboardInterrupt, to be raised by the next calls, which have ended on the clients' loop."""
    monkeypatch.setattr(loop_thread, "SimpleQueue", InterruptedQueue)
    found: list[BaseException] = []
    monkeypatch.setattr(InterruptedQueue, "interrupts", found)
    return found


def test_records_of_an_interrupted_poll_are_returned_by_the_next_one(
    cluster: FakeCluster, interrupts: list[BaseException]
) -> None:
    with member_of(cluster) as consumer:
        consumer.subscribe("orders")
        assert [record.offset for record in read_some(consumer, 4)] == [0, 1, 2, 3]
        for _ in range(2):
            interrupts.append(KeyboardInterrupt())
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(60_000, 5)
            assert consumer.position(tp("orders")) == 4
        assert [record.offset for record in read_some(consumer, 5)] == [4, 5, 6, 7, 8]
    assert committed(cluster) == 9


def test_records_of_an_interrupted_poll_are_not_committed_on_close(
    cluster: FakeCluster, interrupts: list[BaseException]
) -> None:
    consumer = member_of(cluster)
    consumer.subscribe("orders")
    read_some(consumer, 4)
    interrupts.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        consumer.poll_batches(60_000)
    consumer.close()
    assert committed(cluster) == 4


@pytest.mark.parametrize("more", [0, 2])
def test_an_interrupted_iteration_goes_on_with_the_next_record_or_is_committed_to_there(
    cluster: FakeCluster, interrupts: list[BaseException], more: int
) -> None:
    consumer = member_of(cluster, max_poll_records=4)
    consumer.subscribe("orders")
    offsets = [next(consumer).offset for _ in range(4)]
    interrupts.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        next(consumer)
    offsets += [next(consumer).offset for _ in range(more)]
    consumer.close()
    assert offsets == list(range(4 + more))
    assert committed(cluster) == 4 + more


def test_an_interrupt_between_polls_takes_nothing_back(cluster: FakeCluster, interrupts: list[BaseException]) -> None:
    with member_of(cluster) as consumer:
        consumer.subscribe("orders")
        assert len(read_some(consumer, RECORDS)) == RECORDS
        interrupts.append(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(0)
        assert consumer.poll(0) == []
    assert committed(cluster) == RECORDS


def read_some(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """The records of one poll."""
    while not (records := consumer.poll(10_000, count)):
        pass
    return records


def test_a_consumer_that_is_dropped_is_closed_but_not_in_a_forked_process(cluster: FakeCluster) -> None:
    consumer = member_of(cluster)
    consumer.subscribe("orders", on_revoked=print)
    assert consumer.poll(30_000)
    child = os.fork()
    if not child:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            # The parent's consumer goes on.
            del consumer
        os._exit(len(warned))
    assert os.waitpid(child, 0)[1] == 0
    assert consumer.assignment()
    assert cluster.closed == 0
    with pytest.warns(ResourceWarning, match="a consumer was dropped without a close"):
        del consumer
    until(lambda: cluster.closed == 1, "the connections are open")
