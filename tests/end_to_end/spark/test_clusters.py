"""The cluster of files that tests use answers as a real one does: each test runs on both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kraft.client import Admin, Producer, TopicPartition, WantedColumns
from kraft.testing import Cluster as RealCluster
from spark_connector import kraft_cluster, kraft_reads
from spark_connector.cluster import Cluster, ClusterError, Missing, OffsetOutOfRange, ReadStalled
from spark_connector.connector import Connector
from tests.support.arrow_columns import offsets_of
from tests.support.file_cluster import ConnectedFileCluster, FileCluster
from tests.support.waiting import until

COLUMNS = WantedColumns()
RECORDS = 20
FIRST_MS = 1_700_000_000_000


class World(ABC):
    """A cluster, and what tests do to it."""

    connected: Cluster

    @abstractmethod
    def create(self, topic: str, partitions: int) -> None:
        """Create a topic, or add partitions to it until it has so many."""

    @abstractmethod
    def delete(self, topic: str) -> None: ...

    @abstractmethod
    def append(self, topic: str, partition: int, count: int) -> None:
        """Append records of one second each."""

    @abstractmethod
    def delete_records_before(self, topic: str, partition: int, offset: int) -> None: ...

    @abstractmethod
    def committed(self, group_id: str) -> dict[TopicPartition, int]: ...

    def read(self, partition: TopicPartition, start: int, end: int) -> list[int]:
        chunks = self.connected.read(partition, start, end, COLUMNS)
        return [offset for chunk in chunks for offset in offsets_of(chunk)]


class Files(World):
    def __init__(self, directory: Path) -> None:
        self._files = FileCluster(directory)
        self.connected = self._files([])

    def create(self, topic: str, partitions: int) -> None:
        self._files.create_topic(topic, partitions=partitions)

    def delete(self, topic: str) -> None:
        self._files.delete_topic(topic)

    def append(self, topic: str, partition: int, count: int) -> None:
        for number in range(count):
            self._files.append(topic, partition, ["v"], timestamp_ms=FIRST_MS + 1000 * number)

    def delete_records_before(self, topic: str, partition: int, offset: int) -> None:
        self._files.delete_records_before(topic, partition, offset)

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        return self._files.committed(group_id)


class Nodes(World):
    def __init__(self, running: RealCluster) -> None:
        self._servers = running.bootstrap_servers
        self.connected = Connector((("isolation.level", "read_committed"),))(self._servers.split(","))
        self._admin = Admin(self._servers)

    def create(self, topic: str, partitions: int) -> None:
        if topic in self._admin.list_topics():
            self._admin.create_partitions(topic, partitions)
        else:
            # Its records are older than the default retention, and each deletion applies retention to all topics.
            self._admin.create_topic(topic, partitions, 1, {"retention.ms": "-1"})
        until(lambda: len(self._partitions(topic)) == partitions, f"{topic} has not {partitions} partitions")

    def _partitions(self, topic: str) -> tuple[int, ...]:
        found = self.connected.topics([topic])
        return found[topic].partitions if topic in found else ()

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])
        until(lambda: not self.connected.topics([topic]), f"{topic} is still there")

    def append(self, topic: str, partition: int, count: int) -> None:
        with Producer(self._servers) as producer:
            for number in range(count):
                producer.send(topic, b"v", partition=partition, timestamp_ms=FIRST_MS + 1000 * number)
            producer.flush()

    def delete_records_before(self, topic: str, partition: int, offset: int) -> None:
        self._admin.delete_records({TopicPartition(topic, partition): offset})

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        offsets = self._admin.list_consumer_group_offsets(group_id)
        return {partition: each.offset for partition, each in offsets.items()}

    def close(self) -> None:
        self._admin.close()
        self.connected.close()


@pytest.fixture(scope="module")
def running() -> Iterator[RealCluster]:
    with RealCluster(nodes=1) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["files", "nodes"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    if request.param == "files":
        yield Files(tmp_path_factory.mktemp("files"))
        return
    nodes = Nodes(request.getfixturevalue("running"))
    try:
        yield nodes
    finally:
        nodes.close()


@pytest.fixture
def topic(world: World, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own: offsets 5 to 19 in partition 0, and an empty partition 1."""
    name = str(request.node.originalname).removeprefix("test_")
    world.create(name, 2)
    world.append(name, 0, RECORDS)
    world.delete_records_before(name, 0, 5)
    return name


def test_a_range_holds_exactly_its_records(world: World, topic: str) -> None:
    assert world.read(TopicPartition(topic, 0), 7, 19) == list(range(7, 19))
    assert world.read(TopicPartition(topic, 0), 7, 7) == []


def test_the_end_of_the_log_is_waited_at(world: World, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough for an answer, and no longer: what is read here never comes.
    monkeypatch.setattr(kraft_reads, "STALL_MS", 1_000)
    places = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert world.connected.latest_offsets(places) == {places[0]: RECORDS, places[1]: 0}
    chunks = world.connected.read(places[0], 18, RECORDS + 1, COLUMNS)
    assert offsets_of(next(chunks)) == [18, 19], "what is there comes before"
    with pytest.raises(ReadStalled, match=str(places[0])):
        next(chunks)
    for place, end in zip(places, (RECORDS, 0), strict=True):
        with pytest.raises(ReadStalled, match=str(place)):
            world.read(place, end, end + 5)


def test_a_record_that_comes_while_the_end_is_waited_at_is_read(
    world: World, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kraft_reads, "STALL_MS", 60_000)
    monkeypatch.setattr(ConnectedFileCluster, "stall_s", 60.0)
    with ThreadPoolExecutor(1) as other:
        reading = other.submit(world.read, TopicPartition(topic, 0), RECORDS - 1, RECORDS + 1)
        world.append(topic, 0, 1)
        assert reading.result(60) == [RECORDS - 1, RECORDS]


def test_only_an_offset_above_the_end_or_below_the_start_is_out_of_range(world: World, topic: str) -> None:
    place = TopicPartition(topic, 0)
    assert world.connected.earliest_offsets([place]) == {place: 5}
    for start in (4, RECORDS + 1):
        with pytest.raises(OffsetOutOfRange):
            world.read(place, start, RECORDS + 5)
    assert world.read(place, 5, 6) == [5]
    with pytest.raises(OffsetOutOfRange):
        world.read(TopicPartition(topic, 1), 1, 2)


def test_partitions_that_are_added_are_found_and_read_at_once(world: World, topic: str) -> None:
    before = world.connected.topics([topic])[topic]
    world.create(topic, 4)
    world.append(topic, 3, 3)
    after = world.connected.topics([topic])[topic]
    assert (before.partitions, after.partitions) == ((0, 1), (0, 1, 2, 3))
    assert after.topic_id == before.topic_id
    assert world.read(TopicPartition(topic, 3), 0, 3) == [0, 1, 2]
    assert world.connected.latest_offsets([TopicPartition(topic, 3)]) == {TopicPartition(topic, 3): 3}


def test_a_topic_that_is_created_again_has_another_id(world: World, topic: str) -> None:
    before = world.connected.topics([topic, "absent"])
    world.delete(topic)
    assert world.connected.topics([topic]) == {}
    world.create(topic, 1)
    world.append(topic, 0, 2)
    after = world.connected.topics(None)
    assert before[topic].topic_id != after[topic].topic_id
    assert world.read(TopicPartition(topic, 0), 0, 2) == [0, 1]


@pytest.mark.slow
def test_a_topic_that_was_deleted_is_missing(world: World, topic: str) -> None:
    place = TopicPartition(topic, 0)
    world.connected.latest_offsets([place])
    world.delete(topic)
    with pytest.raises(Missing, match=topic):
        world.connected.latest_offsets([place])


def test_a_time_is_that_of_the_first_record_which_is_not_older(world: World, topic: str) -> None:
    place = TopicPartition(topic, 0)
    wanted = {0: 5, FIRST_MS + 5_001: 6, FIRST_MS + 19_000: 19, FIRST_MS + 19_001: None}
    assert {time_ms: world.connected.offsets_at({place: time_ms})[place] for time_ms in wanted} == wanted


def test_the_size_of_records_is_estimated_from_those_that_are_there(world: World, topic: str) -> None:
    place = TopicPartition(topic, 0)
    assert world.connected.record_bytes(place, 5, RECORDS) == 1.0
    assert world.connected.record_bytes(TopicPartition(topic, 1), 0, 0) is None


def test_the_address_of_a_kafka_listener_is_recognised(running: RealCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kraft_cluster, "FIRST_CONTACT_TIMEOUT_MS", 1_000)
    address = running.kafka_bootstrap_servers
    connected = Connector(())([address])
    with pytest.raises(ClusterError) as refused:
        connected.topics(["orders"])
    assert f"{address}: it does not speak Kraft's gRPC client protocol" in str(refused.value)
    assert "use the address of a GRPC listener" in str(refused.value)
    connected.close()


def test_offsets_are_committed_for_a_group(world: World, topic: str) -> None:
    committed = {TopicPartition(topic, 0): 7, TopicPartition(topic, 1): 0}
    world.connected.commit_offsets("billing", committed)
    assert world.committed("billing") == committed
