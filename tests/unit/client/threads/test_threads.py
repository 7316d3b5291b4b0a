"""The synchronous face: the same clients from ordinary threads, in real time."""

from __future__ import annotations

import ast
import inspect
import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest

import kraft.client.threads.inbox
from kraft.client import (
    Admin,
    ClientClosed,
    Consumer,
    Delivery,
    InvalidSetting,
    Producer,
    RecordTooLarge,
    Refusal,
    aio,
    decode_columns,
)
from kraft.client.aio.admin import Admin as AsyncAdmin
from kraft.client.cluster import metadata_cache
from kraft.client.cluster.metadata_cache import MetadataCache
from kraft.client.cluster.network import Network
from kraft.client.threads.loop_thread import LoopThread, shared_loop
from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponseTopic
from kraft.wire.schema.metadata import MetadataResponseTopic
from tests.support.client.fake_cluster import FakeCluster, tp


@pytest.fixture
def cluster() -> FakeCluster:
    # Made on the loop that the clients use, as its events belong to one loop.
    async def make() -> FakeCluster:
        return FakeCluster()

    return shared_loop().run(make)


def settings_for(cluster: FakeCluster) -> dict[str, Any]:
    return {"bootstrap_servers": cluster.bootstrap_servers, "network": Network(connect=lambda: cluster)}


def test_records_go_out_and_come_back(cluster: FakeCluster) -> None:
    cluster.create("orders")
    with Producer(**settings_for(cluster)) as producer:
        futures = [producer.send("orders", b"%d" % number) for number in range(100)]
        assert [future.result(10).offset for future in futures] == list(range(100))
        assert producer.partitions_for("orders") == [0]
    with Consumer(**settings_for(cluster), auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders")])
        values: list[bytes | None] = []
        while len(values) < 100:
            values += [record.value for record in consumer.poll(10_000)]
        assert values == [b"%d" % number for number in range(100)]
        assert consumer.position(tp("orders")) == 100
        assert consumer.assignment() == [tp("orders")]


def test_many_threads_may_send_at_once(cluster: FakeCluster) -> None:
    cluster.create("orders", partitions=3)
    with Producer(**settings_for(cluster)) as producer:
        futures = []

        def send(thread: int) -> None:
            futures.extend([producer.send("orders", b"%d" % thread, partition=thread) for _ in range(200)])

        threads = [threading.Thread(target=send, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert producer.flush(10_000)
        assert len(wait(futures, timeout=10).done) == 600
    assert [len(cluster.values("orders", number)) for number in range(3)] == [200, 200, 200]


def test_many_records_at_once_keep_their_place_behind_single_ones(cluster: FakeCluster) -> None:
    cluster.create("orders")
    with Producer(**settings_for(cluster)) as producer:
        single = producer.send("orders", b"first")
        delivery: Delivery = producer.produce_many("orders", [b"second", b"third"]).result(10)
        assert single.result(10).offset == 0
    assert (delivery.records, delivery.end_offsets) == (2, {tp("orders"): 3})


def test_what_is_wrong_with_a_record_is_in_its_future(cluster: FakeCluster) -> None:
    cluster.create("orders")
    with Producer(**settings_for(cluster)) as producer:
        too_large = producer.send("orders", b"x" * (2 << 20))
        fine = producer.send("orders", b"x")
        assert isinstance(too_large.exception(10), RecordTooLarge)
        assert fine.result(10).offset == 0
        with pytest.raises(TypeError, match="key must be bytes"):
            producer.send("orders", b"a", key="text")  # type: ignore[arg-type]  # The mistake under test.


def test_a_record_that_only_the_topic_refuses_fails_alone(cluster: FakeCluster) -> None:
    cluster.create("orders")[0].size_max = 500
    with Producer(**settings_for(cluster), linger_ms=10_000) as producer:
        futures = [producer.send("orders", b"x" * (600 if number == 7 else 9)) for number in range(20)]
        producer.flush(10_000)
    assert isinstance(futures.pop(7).exception(10), Refusal)
    assert [future.result(10).offset for future in futures] == list(range(19))


def test_records_of_one_partition_keep_their_order_with_and_without_keys(cluster: FakeCluster) -> None:
    cluster.create("orders")
    keys = [None, b"a", b"b", None, b"c", None]
    with Producer(**settings_for(cluster), linger_ms=10_000) as producer:
        futures = [producer.send("orders", b"%d" % number, key=keys[number % 6]) for number in range(60)]
        producer.flush(10_000)
        assert [future.result(10).offset for future in futures] == list(range(60))
        many = producer.produce_many("orders", [b"%d" % number for number in range(60, 66)], keys)
        producer.flush(10_000)
        assert many.result(10).records == 6
    assert cluster.values("orders") == [b"%d" % number for number in range(66)]


def test_closing_stores_what_was_sent(cluster: FakeCluster) -> None:
    cluster.create("orders")
    producer = Producer(**settings_for(cluster), linger_ms=10_000)
    futures = [producer.send("orders", b"x") for _ in range(10)]
    producer.close()
    producer.close()
    assert [future.result(0).offset for future in futures] == list(range(10))
    with pytest.raises(ClientClosed):
        producer.send("orders", b"late")


def test_closing_at_once_tells_everybody_who_waits(cluster: FakeCluster) -> None:
    cluster.create("orders")
    for broker in cluster.brokers.values():
        broker.hangs = True
    producer = Producer(**settings_for(cluster))
    futures = [producer.send("orders", b"x") for _ in range(50)]
    producer.close(timeout_ms=0)
    for future in futures:
        assert isinstance(future.exception(10), ClientClosed)


def test_a_close_with_a_timeout_stores_what_was_sent(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_cache, "MISSING_TOPIC_GRACE_MS", 60_000)
    cluster.create("orders")
    cluster.hidden_topics.add("orders")
    known = FakeCluster.topic_metadata
    lookups: list[str] = []

    def known_at_last(self: FakeCluster, name: str) -> DescribeTopicPartitionsResponseTopic:
        lookups.append(name)
        if len(lookups) == 4:
            self.hidden_topics.clear()
        return known(self, name)

    monkeypatch.setattr(FakeCluster, "topic_metadata", known_at_last)
    producer = Producer(**settings_for(cluster), linger_ms=10_000)
    futures = [producer.send("orders", b"x") for _ in range(10)]
    producer.close(timeout_ms=60_000)
    assert [future.result(0).offset for future in futures] == list(range(10))


def test_a_future_cannot_be_cancelled_and_the_records_behind_it_are_sent(cluster: FakeCluster) -> None:
    cluster.create("orders")
    gate = threading.Event()
    with Producer(**settings_for(cluster)) as producer:
        # Nothing leaves the inbox before the gate opens.
        shared_loop().call_soon(lambda: gate.wait(60))
        futures = [producer.send("orders", b"x" * (2 << 20)), producer.send("orders", b"x")]
        assert not any(future.cancel() for future in futures)
        gate.set()
        assert isinstance(futures[0].exception(10), RecordTooLarge)
        assert futures[1].result(10).offset == 0
        assert producer.send("orders", b"x").result(10).offset == 1


def test_a_send_that_waits_for_room_while_the_producer_is_closed_says_so(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kraft.client.threads.inbox, "INBOX_RECORDS_MAX", 1)
    gate = threading.Event()
    producer = Producer(**settings_for(cluster), max_block_ms=90_000)
    shared_loop().call_soon(lambda: gate.wait(60))
    first = producer.send("orders", b"x")
    with ThreadPoolExecutor(2) as threads:
        second = threads.submit(producer.send, "orders", b"x")
        closing = threads.submit(producer.close, 0)
        assert isinstance(second.exception(30), ClientClosed)
        gate.set()
        closing.result(30)
    assert first.done()


def test_records_of_a_missing_topic_share_one_look_up(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_cache, "MISSING_TOPIC_GRACE_MS", 100)
    find = MetadataCache.topic
    lookups: list[str] = []

    async def counted(self: MetadataCache, name: str, timeout_ms: int) -> MetadataResponseTopic:
        lookups.append(name)
        return await find(self, name, timeout_ms)

    monkeypatch.setattr(MetadataCache, "topic", counted)
    cluster.create("orders")
    gate = threading.Event()
    with Producer(**settings_for(cluster)) as producer:
        # No look-up begins before all records are in the inbox.
        shared_loop().call_soon(lambda: gate.wait(60))
        missing = [producer.send("ordres", b"x") for _ in range(20)]
        stored = producer.send("orders", b"x")
        gate.set()
        refusals = [future.exception(60) for future in missing]
        assert all(isinstance(refusal, Refusal) for refusal in refusals)
        last = refusals[-1]
        assert last is not None
        assert len(list(walk_tb(last.__traceback__))) < 10, "the frames of the records before it are not kept"
        assert stored.result(60).offset == 0
        assert lookups == ["ordres", "orders"]
        cluster.create("ordres")
        assert producer.send("ordres", b"x").result(60).offset == 0, "a later record is looked up again"


def test_a_missing_topic_is_logged_once_for_senders_that_read_no_future(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metadata_cache, "MISSING_TOPIC_GRACE_MS", 100)
    with Producer(**settings_for(cluster)) as producer:
        for _ in range(3):
            producer.send("ordres", b"x")
            producer.flush()
    assert [each.message for each in caplog.records] == [
        "records not sent: UNKNOWN_TOPIC_OR_PARTITION: topic 'ordres' does not exist"
    ]


def test_an_exception_inside_the_block_does_not_wait_for_the_brokers(cluster: FakeCluster) -> None:
    cluster.create("orders")
    for broker in cluster.brokers.values():
        broker.hangs = True

    def send_and_fail() -> None:
        with Producer(**settings_for(cluster)) as producer:
            producer.send("orders", b"x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        send_and_fail()


def test_a_range_is_read_as_columns_and_as_batches(cluster: FakeCluster) -> None:
    cluster.create("orders")
    with Producer(**settings_for(cluster), batch_size=500) as producer:
        producer.produce_many("orders", [b"%d" % number for number in range(200)]).result(10)
    with Consumer(**settings_for(cluster), max_partition_fetch_bytes=600) as consumer:
        columns = list(consumer.read_columns(tp("orders"), 30, 170))
        offsets = [offset for part in columns for offset in part.columns.offsets]
        assert offsets == list(range(30, 170))
        again = [
            offset
            for batch in consumer.read_batches(tp("orders"), 30, 170)
            for part in decode_columns(tp("orders"), batch, 30, 170)
            for offset in part.columns.offsets
        ]
        assert again == offsets
        # A reader that stops early leaves nothing running.
        reading = consumer.read_columns(tp("orders"), 0, 200)
        next(reading)
        reading.close()  # type: ignore[attr-defined]  # Declared as an iterator, made as a generator.
        with pytest.raises(Refusal, match="received nothing from offset 200"):
            list(consumer.read_columns(tp("orders"), 190, 300, timeout_ms=100))


def test_topics_are_managed(cluster: FakeCluster) -> None:
    with Admin(**settings_for(cluster)) as admin:
        admin.create_topic("orders", 2)
        assert admin.list_topics() == ["orders"]
        assert admin.describe_topics(["orders"])[0].topic == "orders"
        assert admin.describe_quorum().leader_id == 2
        assert admin.describe_cluster().cluster_id == "fake"
        admin.delete_topics(["orders"])
        assert admin.list_topics() == []


def test_a_generator_among_the_arguments_runs_in_the_thread_of_its_caller(cluster: FakeCluster) -> None:
    cluster.create("orders")
    with Admin(**settings_for(cluster)) as admin:
        # On the thread of the event loop, waiting for another answer would never end.
        names = (name for _ in range(1) for name in admin.list_topics())
        (described,) = admin.describe_topics(names)
        assert described.topic == "orders"


def test_the_admin_for_threads_has_every_method_of_the_asynchronous_one() -> None:
    public = {name for name in dir(AsyncAdmin) if not name.startswith("_")}
    assert {name for name in dir(Admin) if not name.startswith("_")} == public
    assert (Admin.fence_broker.__doc__ or "").startswith("Set the operator fence")


@pytest.mark.parametrize(("client", "rows_min"), [(Admin, 45), (Consumer, 23), (Producer, 6)])
def test_a_method_that_is_made_from_one_of_the_asynchronous_client_has_its_name(client: type, rows_min: int) -> None:
    made = {name: inspect.unwrap(row) for name, row in vars(client).items() if hasattr(row, "__wrapped__")}
    # Its decorator is contextlib's.
    made.pop("transaction", None)
    asynchronous = getattr(aio, client.__name__)
    assert {name: getattr(asynchronous, name) for name in made} == made
    assert len(made) >= rows_min


def test_a_wrong_setting_fails_at_construction() -> None:
    with pytest.raises(InvalidSetting, match="did you mean"):
        Producer("localhost:9094", lingerms=1)


def test_names_have_types_for_programs_that_import_them() -> None:
    # At run time they are imported at first use; for mypy the same has to be imported before.
    tree = ast.parse(Path(kraft.client.__file__).read_text())
    (block,) = (each for each in tree.body if isinstance(each, ast.If))
    typed = {
        each.module: tuple(sorted(alias.name for alias in each.names))
        for each in block.body
        if isinstance(each, ast.ImportFrom)
    }
    assert typed == {module: tuple(sorted(names)) for module, names in kraft.client._HOMES.items()}


def test_every_name_that_the_package_offers_is_there() -> None:
    for name in kraft.client.__all__:
        assert getattr(kraft.client, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Cluster'"):
        _ = kraft.client.Cluster


def test_clients_share_one_thread() -> None:
    assert shared_loop() is shared_loop()


def test_a_forked_process_has_a_loop_of_its_own_and_refuses_clients_of_its_parent(cluster: FakeCluster) -> None:
    cluster.create("orders")
    admin = Admin(**settings_for(cluster))
    admin.list_topics()
    child = os.fork()
    if child == 0:
        os._exit(_outcome_in_child(admin))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    admin.close()


def _outcome_in_child(admin: Admin) -> int:
    """0 when all is as it should be."""
    try:
        admin.list_topics()
    except ClientClosed:
        pass
    else:
        return 1

    async def three() -> int:
        return 3

    return 0 if shared_loop().run(three) == 3 and isinstance(shared_loop(), LoopThread) else 2
