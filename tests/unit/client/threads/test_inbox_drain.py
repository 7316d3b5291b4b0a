"""Records of many threads on their way into batches: none keeps those of the others waiting."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

import pytest

import kraft.client.threads.inbox
from kraft.client import BufferExhausted, ClientClosed, Producer, aio
from kraft.client.cluster import metadata_cache
from kraft.client.cluster.network import Network
from kraft.client.model.values import ColumnsToSend, RecordMetadata
from kraft.client.threads.inbox import Inbox, RecordSpan
from kraft.client.threads.inbox_drain import RUNS_AT_ONCE, InboxDrain
from kraft.client.threads.loop_thread import shared_loop
from kraft.model.errors import Refusal
from tests.support.client.fake_cluster import FakeCluster
from tests.support.client.fake_partition import FakePartition
from tests.support.waiting import until


@pytest.fixture
def cluster() -> FakeCluster:
    # Made on the loop that the clients use, as its events belong to one loop.
    async def make() -> FakeCluster:
        return FakeCluster()

    return shared_loop().run(make)


def producer_of(cluster: FakeCluster, **settings: Any) -> Producer:
    return Producer(cluster.bootstrap_servers, network=Network(connect=lambda: cluster), **settings)


@pytest.mark.parametrize("call", [Producer.flush, lambda producer: producer.produce_many("orders", [b"x"]).result(60)])
def test_a_call_waits_for_the_records_before_it_and_not_for_those_that_threads_go_on_to_send(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, call: Callable[[Producer], object]
) -> None:
    cluster.create("orders")
    take, is_over = Inbox.take, threading.Event()

    def take_and_send(inbox: Inbox) -> list[RecordSpan]:
        """As if a thread always sent another record before the inbox was empty."""
        taken = take(inbox)
        if not is_over.is_set():
            producer.send("orders", b"x")
        return taken

    with producer_of(cluster) as producer:
        calling = threading.Thread(target=call, args=(producer,), daemon=True)
        monkeypatch.setattr(Inbox, "take", take_and_send)
        producer.send("orders", b"x")
        calling.start()
        calling.join(20)
        is_over.set()
        assert not calling.is_alive()


def test_records_go_past_those_of_a_topic_that_is_looked_up(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_cache, "MISSING_TOPIC_GRACE_MS", 60_000)
    cluster.create("orders")
    cluster.create("late")
    cluster.hidden_topics.add("late")
    with producer_of(cluster, max_block_ms=600_000) as producer:
        late = [producer.send("late", b"%d" % number, partition=0) for number in range(3)]
        for _ in range(3):
            assert producer.send("orders", b"x").result(30).offset >= 0
            late.append(producer.send("late", b"%d" % len(late), partition=0))
        assert producer.produce_many("orders", [b"x"]).result(30).records == 1
        assert not any(future.done() for future in late)
        assert not producer.flush(timeout_ms=1), "its record is not even in a batch"
        cluster.hidden_topics.clear()
        assert producer.flush()
        assert [future.result(0).offset for future in late] == list(range(6))
    assert cluster.values("late") == [b"%d" % number for number in range(6)]


def test_other_tasks_of_the_event_loop_have_their_turn_while_many_records_are_queued(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create("orders", partitions=2)
    submit, gate = aio.Producer.submit, threading.Event()
    turns = [0]

    async def counted(producer: aio.Producer, *arguments: Any) -> None:
        turns[-1] += 1
        await submit(producer, *arguments)

    async def take_turns(futures: list[Future[RecordMetadata]]) -> None:
        """As the heartbeats of a group's member do, which use the same event loop."""
        while sum(turns) < len(futures):
            turns.append(0)
            await asyncio.sleep(0)

    # No batch is full, or sent before the flush, so nothing else gives others a turn.
    with producer_of(cluster, linger_ms=60_000, batch_size=1_000_000) as producer:
        producer.send("orders", b"x")
        producer.flush()
        monkeypatch.setattr(aio.Producer, "submit", counted)
        shared_loop().call_soon(lambda: gate.wait(60))
        futures = [producer.send("orders", b"x", partition=number % 2) for number in range(2_000)]
        turning = shared_loop().start(lambda: take_turns(futures))
        gate.set()
        turning.result(60)
        assert max(turns) <= RUNS_AT_ONCE
        assert producer.flush(60_000)
        assert [future.result(0).partition for future in futures] == [0, 1] * 1_000


@pytest.mark.parametrize("is_known", [True, False])
def test_records_go_past_those_of_a_partition_that_is_waited_for(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    monkeypatch.setattr(metadata_cache, "MISSING_TOPIC_GRACE_MS", 60_000)
    cluster.create("orders")
    with producer_of(cluster) as producer:
        if is_known:
            producer.send("orders", b"x").result(30)
        late = [producer.send("orders", b"%d" % number, partition=1) for number in range(3)]
        for partition in (0, None, 0):
            assert producer.send("orders", b"x", partition=partition).result(30).partition == 0
            late.append(producer.send("orders", b"%d" % len(late), partition=1))
        assert producer.produce_many("orders", [b"x"]).result(30).records == 1
        assert producer.produce_many("orders", [b"x"], partition=0).result(30).records == 1
        columns = ColumnsToSend(values=[b"x", b"y"], partitions=[0, None])
        assert producer.send_columns("orders", columns).result(30).records == 2
        assert not any(future.done() for future in late)
        assert not producer.flush(timeout_ms=1), "its record is not even in a batch"
        cluster.topics["orders"].append(FakePartition(leader_id=1))
        assert producer.produce_many("orders", [b"6"], partition=1).result(30).records == 1
        assert [future.result(0).offset for future in late] == list(range(6))
    assert cluster.values("orders", 1) == [b"%d" % number for number in range(7)]


@pytest.mark.parametrize("call", [lambda producer: producer.flush(60_000), Producer.close])
def test_a_call_waits_for_records_whose_topic_and_then_their_partition_are_looked_up(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, call: Callable[[Producer], object]
) -> None:
    monkeypatch.setattr(metadata_cache, "MISSING_TOPIC_GRACE_MS", 60_000)
    cluster.create("orders")
    cluster.hidden_topics.add("orders")
    with producer_of(cluster) as producer:
        future = producer.send("orders", b"x", partition=1)
        calling = _waiting_call(monkeypatch, call, producer)
        monkeypatch.setattr(metadata_cache, "MISSING_TOPIC_GRACE_MS", 500)
        cluster.hidden_topics.clear()
        calling.join(60)
        assert future.done()
        with pytest.raises(Refusal, match="topic 'orders' has partitions 0 to 0, not 1"):
            future.result(0)


def test_records_are_stored_in_order_if_their_topic_and_then_their_partition_are_looked_up(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_cache, "MISSING_TOPIC_GRACE_MS", 60_000)
    cluster.create("orders")
    cluster.hidden_topics.add("orders")
    with producer_of(cluster) as producer:
        futures = [producer.send("orders", b"%d" % number, partition=1) for number in range(3)]

        def produce(producer: Producer) -> None:
            producer.produce_many("orders", [b"3"], partition=1).result(60)

        calling = _waiting_call(monkeypatch, produce, producer)
        cluster.hidden_topics.clear()
        until(lambda: ("orders", 1) in producer._drain._parked, "the partition is not looked up")
        cluster.topics["orders"].append(FakePartition(leader_id=1))
        calling.join(60)
        assert [future.result(60).offset for future in futures] == [0, 1, 2]
    assert cluster.values("orders", 1) == [b"0", b"1", b"2", b"3"]


def _waiting_call(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[Producer], object], producer: Producer
) -> threading.Thread:
    """Start a thread whose call waits for what is in the inbox, and return it once it does."""
    wait_for_inbox, waits = InboxDrain.wait, threading.Event()

    async def wait_and_tell(drain: InboxDrain, *arguments: Any, **others: Any) -> bool:
        # Nothing else runs on the event loop before the call waits.
        waits.set()
        return await wait_for_inbox(drain, *arguments, **others)

    monkeypatch.setattr(InboxDrain, "wait", wait_and_tell)
    calling = threading.Thread(target=call, args=(producer,), daemon=True)
    calling.start()
    assert waits.wait(60)
    return calling


def test_records_of_a_partition_that_never_comes_fail_and_later_ones_of_a_new_one_do_not(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metadata_cache, "MISSING_TOPIC_GRACE_MS", 200)
    cluster.create("orders")
    with producer_of(cluster) as producer:
        futures = [producer.send("orders", b"x", partition=7) for _ in range(3)]
        for future in futures:
            with pytest.raises(Refusal, match="topic 'orders' has partitions 0 to 0, not 7"):
                future.result(30)
        assert producer.flush(60_000)
        assert len([each for each in caplog.records if "not 7" in each.message]) == 1
        cluster.topics["orders"] += [FakePartition(leader_id=1) for _ in range(7)]

        def is_stored() -> bool:
            return producer.send("orders", b"x", partition=7).exception(30) is None

        until(is_stored, "the new partition is not found")
        assert (producer._inbox._parked, producer._drain._lookups) == (0, {})


def test_records_of_a_topic_keep_their_order_if_it_is_found_while_others_wait_for_memory(cluster: FakeCluster) -> None:
    cluster.create("orders", leader_id=1)
    cluster.create("late", leader_id=2)
    cluster.hidden_topics.add("late")
    gate = threading.Event()
    with producer_of(cluster, buffer_memory=1_000, batch_size=1_000, request_timeout_ms=1_000) as producer:
        producer.send("orders", b"x").result(30)
        producer.send("late", b"0", partition=0)
        cluster.brokers[1].hangs = True
        producer.send("orders", b"x" * 900)
        # Both are taken together, so that the second is next while the first waits.
        shared_loop().call_soon(lambda: gate.wait(60))
        waiting = producer.send("orders", b"x" * 900)
        last = producer.send("late", b"1", partition=0)
        gate.set()
        cluster.hidden_topics.clear()
        until(lambda: "late" in producer._drain._found, "the topic is not found")
        assert not waiting.done()
        cluster.brokers[1].hangs = False
        assert last.result(30).offset == 1
    assert cluster.values("late") == [b"0", b"1"]


def test_bytes_that_are_not_in_batches_yet_are_limited_too(cluster: FakeCluster) -> None:
    cluster.create("orders")
    producer = producer_of(cluster, buffer_memory=100_000, batch_size=10_000, max_block_ms=200)
    producer.send("orders", b"x").result(30)
    for broker in cluster.brokers.values():
        broker.hangs = True
    sent: list[Future[RecordMetadata]] = []
    with pytest.raises(BufferExhausted, match=r"buffer\.memory=100000"):
        sent.extend(producer.send("orders", b"x" * 9_000) for _ in range(100))
    producer.close(timeout_ms=0)
    assert {type(future.exception(30)) for future in sent} <= {ClientClosed, BufferExhausted}


def test_room_is_given_back_whatever_becomes_of_the_records(cluster: FakeCluster) -> None:
    cluster.create("orders")
    with producer_of(cluster, buffer_memory=10_000, batch_size=5_000, max_request_size=8_000) as producer:
        for _ in range(20):
            futures = [producer.send("orders", b"x" * size) for size in (20_000, 3_000)]
            assert wait(futures, 30).not_done == set()
        inbox = producer._inbox
        assert (inbox._large_bytes, inbox._parked, inbox._is_crowded) == (0, 0, False)


def test_records_that_were_sent_together_wait_for_memory_together(cluster: FakeCluster) -> None:
    cluster.create("orders", partitions=2)
    gate = threading.Event()
    producer = producer_of(cluster, buffer_memory=2_000, batch_size=1_000, max_block_ms=1_000)
    producer.send("orders", b"x", partition=0).result(30)
    for broker in cluster.brokers.values():
        broker.hangs = True
    # Nothing leaves the inbox before the gate opens.
    shared_loop().call_soon(lambda: gate.wait(60))
    futures = [producer.send("orders", b"x" * 900, partition=number % 2) for number in range(100)]
    gate.set()
    # One after the other they would wait for 97 s.
    refused = [each for each in futures[3:] if isinstance(each.exception(30), BufferExhausted)]
    assert refused
    producer.close(timeout_ms=0)


def test_an_interrupted_send_does_not_keep_later_records_waiting(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create("orders")
    with producer_of(cluster) as producer:
        producer.send("orders", b"x").result(30)
        producer.flush()
        calls = [KeyboardInterrupt()]

        def interrupted(callback: Callable[[], object]) -> None:
            if calls:
                raise calls.pop()
            shared_loop().loop.call_soon_threadsafe(callback)

        monkeypatch.setattr(producer._thread, "call_soon", interrupted)
        with pytest.raises(KeyboardInterrupt):
            [producer.send("orders", b"x") for _ in iter(lambda: calls, [])]
        assert producer.send("orders", b"x").result(30).offset > 0
        monkeypatch.undo()


def test_a_forked_process_is_refused_every_record(cluster: FakeCluster) -> None:
    cluster.create("orders")
    with producer_of(cluster) as producer:
        producer.send("orders", b"x").result(30)
        child = os.fork()
        if child == 0:
            os._exit(sum(_is_accepted(producer) for _ in range(3)))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _is_accepted(producer: Producer) -> bool:
    try:
        producer.send("orders", b"x")
    except ClientClosed:
        return False
    return True


def test_a_callback_may_send_although_the_inbox_is_full(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kraft.client.threads.inbox, "INBOX_RECORDS_MAX", 0)
    cluster.create("orders")
    sent: Future[list[Future[RecordMetadata]]] = Future()
    with producer_of(cluster, max_block_ms=60_000) as producer:
        shared_loop().call_soon(lambda: sent.set_result([producer.send("orders", b"x") for _ in range(3)]))
        assert [future.result(30).offset for future in sent.result(30)] == [0, 1, 2]


@pytest.mark.parametrize(
    "call",
    [
        Producer.flush,
        Producer.close,
        lambda producer: producer.partitions_for("orders"),
        lambda producer: producer.produce_many("orders", [b"x"]),
        lambda producer: producer.send("orders", b"x").result(30),
        lambda producer: producer.send("orders", b"x").exception(),
    ],
)
def test_a_callback_that_would_wait_for_its_own_thread_is_told(
    cluster: FakeCluster, call: Callable[[Producer], object]
) -> None:
    cluster.create("orders")
    raised: Future[BaseException | None] = Future()

    def called(_: object) -> None:
        try:
            call(producer)
        except RuntimeError as error:
            raised.set_result(error)
        else:
            raised.set_result(None)

    gate = threading.Event()
    with producer_of(cluster) as producer:
        # The record is not stored before it has its callback, which would be called in this thread.
        shared_loop().call_soon(lambda: gate.wait(60))
        producer.send("orders", b"x").add_done_callback(called)
        gate.set()
        assert "make this call in another thread" in str(raised.result(20))
        assert producer.send("orders", b"x").result(30).offset > 0


def test_a_callback_that_exits_ends_neither_the_event_loop_nor_the_results_of_other_records(
    cluster: FakeCluster,
) -> None:
    cluster.create("orders")

    def leave(_: object) -> None:
        raise SystemExit

    with producer_of(cluster, linger_ms=10_000) as producer:
        futures = [producer.send("orders", b"x") for _ in range(4)]
        for future in futures:
            future.add_done_callback(leave)
        assert producer.flush(60_000)
        assert [future.result(30).offset for future in futures] == [0, 1, 2, 3]
        producer.send("orders", b"x")
        assert producer.flush(60_000)


def test_a_name_that_no_request_can_hold_fails_alone(cluster: FakeCluster) -> None:
    cluster.create("orders")
    with producer_of(cluster) as producer:
        assert isinstance(producer.send("\ud800", b"x").exception(30), UnicodeEncodeError)
        assert producer.send("orders", b"x").result(30).offset == 0


def test_an_unlimited_wait_for_room_is_no_error(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kraft.client.threads.inbox, "INBOX_RECORDS_MAX", 1)
    cluster.create("orders")
    gate = threading.Event()
    with producer_of(cluster, max_block_ms=(1 << 63) - 1) as producer:
        shared_loop().call_soon(lambda: gate.wait(60))
        futures: list[Future[RecordMetadata]] = []
        sending = threading.Thread(target=lambda: futures.extend(producer.send("orders", b"x") for _ in range(3)))
        sending.start()
        gate.set()
        sending.join(30)
        assert [future.result(30).offset for future in futures] == [0, 1, 2]


def test_a_producer_that_is_dropped_stores_what_was_sent_and_closes_its_connections(cluster: FakeCluster) -> None:
    cluster.create("orders")
    producer = producer_of(cluster, linger_ms=60_000)
    future = producer.send("orders", b"x")
    with pytest.warns(ResourceWarning, match="without a close"):
        del producer
    assert future.result(30).offset == 0
    until(lambda: cluster.closed == 1, "the connections are open")


def test_a_close_that_is_interrupted_closes_all_the_same(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.create("orders")
    producer = producer_of(cluster)
    producer.send("orders", b"x").result(30)
    for broker in cluster.brokers.values():
        broker.hangs = True
    late = producer.send("late", b"x")

    def interrupted(future: Future[object], timeout: float | None = None) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            producer.close()
    assert isinstance(late.exception(30), ClientClosed)
    until(lambda: cluster.closed == 1, "the connections are open")
