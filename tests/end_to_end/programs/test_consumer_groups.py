"""Groups of consumers of every protocol against real nodes, while members and nodes come, hang and die."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kraft.client import Admin, Consumer, ConsumerRecord, Producer, TopicPartition
from kraft.testing import Cluster
from tests.end_to_end.programs.group_member import member_process, read
from tests.support.waiting import until

TOPIC = "orders"
PARTITIONS = 12
SESSION_S = 6

PROTOCOLS = {
    "consumer": {"group_protocol": "consumer"},
    "eager": {"group_protocol": "classic", "session_timeout_ms": f"{SESSION_S}000"},
    "cooperative": {
        "partition_assignment_strategy": "cooperative-sticky",
        "session_timeout_ms": f"{SESSION_S}000",
    },
}

Place = tuple[int, int]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    overrides = {
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": f"{SESSION_S}000",
        "group.initial.rebalance.delay.ms": "0",
    }
    with Cluster(3, overrides=overrides) as running:
        yield running


class Thread:
    """A member that runs in a thread of the test."""

    def __init__(self, group: Group) -> None:
        self.read: list[Place] = []
        self.done: list[Place] = []
        self._ended = threading.Event()
        self._failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(group,), daemon=True)
        self._thread.start()

    def _run(self, group: Group) -> None:
        try:
            read(group.servers, group.group_id, TOPIC, self._note, self._ended, **group.settings)
        except BaseException as error:
            self._failures.append(error)
            raise

    def _note(self, kind: str, records: list[ConsumerRecord]) -> None:
        (self.read if kind == "read" else self.done).extend((each.partition, each.offset) for each in records)

    def close(self) -> None:
        self._ended.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert self._failures == []


class Group:
    """One group, its members in threads, and one in a process."""

    def __init__(self, servers: str, group_id: str, settings: dict[str, str], directory: Path) -> None:
        self.servers = servers
        self.group_id = group_id
        self.settings = {"metadata_max_age_ms": "1000", "heartbeat_interval_ms": "500", **settings}
        if settings.get("group_protocol") == "consumer":
            del self.settings["heartbeat_interval_ms"]
        self.threads: list[Thread] = []
        self.file = directory / group_id

    def start(self, members: int = 1) -> None:
        self.threads += [Thread(self) for _ in range(members)]

    def noted_by_process(self, kind: str) -> list[Place]:
        if not self.file.exists():
            return []
        # A process that is killed may leave the start of a line.
        lines = [line.split() for line in self.file.read_text().split("\n")[:-1]]
        return [(int(partition), int(offset)) for found, partition, offset in lines if found == kind]

    def read(self) -> set[Place]:
        return {*self.noted_by_process("read"), *(place for each in self.threads for place in each.read)}

    def done(self) -> Counter[Place]:
        return Counter([*self.noted_by_process("done"), *(place for each in self.threads for place in each.done)])


class Topic:
    """What the groups have to read."""

    def __init__(self, cluster: Cluster) -> None:
        self._servers = cluster.bootstrap_servers
        self.ends: Counter[int] = Counter()

    def produce(self, each: int = 20, partitions: int = PARTITIONS) -> None:
        """Store as many more records in each partition."""
        with Producer(self._servers) as producer:
            futures = [
                producer.send(TOPIC, b"x", partition=number) for number in range(partitions) for _ in range(each)
            ]
            for future in futures:
                metadata = future.result(60)
                self.ends[metadata.partition] = max(self.ends[metadata.partition], metadata.offset + 1)

    @property
    def places(self) -> set[Place]:
        return {(number, offset) for number, end in self.ends.items() for offset in range(end)}

    def until_read(self, groups: list[Group]) -> None:
        def missing() -> dict[str, int]:
            return {each.group_id: len(self.places - each.read()) for each in groups}

        until(lambda: not any(missing().values()), lambda: f"missing: {missing()}", deadline_s=120)


def until_members(admin: Admin, groups: list[Group], count: int) -> None:
    """Wait until as many members of each group have partitions, and together all of them."""

    def shares() -> dict[str, list[int]]:
        described = admin.describe_consumer_groups([each.group_id for each in groups])
        return {each.group_id: [len(member.assignment) for member in each.members] for each in described}

    until(
        lambda: all(len(each) == count and 0 not in each and sum(each) >= PARTITIONS for each in shares().values()),
        lambda: f"members have {shares()}",
        deadline_s=120,
    )


@pytest.mark.parametrize(("commits_first", "again"), [(True, []), (False, [b"1", b"2"])], ids=["before", "after"])
def test_a_commit_before_the_work_gives_at_most_once_and_after_it_at_least_once(
    cluster: Cluster, *, commits_first: bool, again: list[bytes]
) -> None:
    """The work fails, and another member of the group continues."""
    topic = f"work-{commits_first}"
    with Admin(cluster.bootstrap_servers) as admin, Producer(cluster.bootstrap_servers) as producer:
        admin.create_topic(topic, 1, 3)
        producer.produce_many(topic, [b"1", b"2"]).result(60)
        assert worked_on(cluster, topic, 2, fails=True, commits_first=commits_first) == [b"1", b"2"]
        producer.produce_many(topic, [b"3"]).result(60)
    count = len(again) + 1
    assert worked_on(cluster, topic, count, fails=False, commits_first=commits_first) == [*again, b"3"]


def worked_on(cluster: Cluster, topic: str, count: int, *, fails: bool, commits_first: bool) -> list[bytes | None]:
    """Read as many records in a group; a work that fails is not committed, unless that was done before it."""
    read: list[bytes | None] = []
    with Consumer(
        cluster.bootstrap_servers, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([topic])

        def have_come() -> bool:
            read.extend(each.value for each in consumer.poll(100))
            return len(read) >= count

        until(have_come, lambda: f"only {read} have come")
        if commits_first or not fails:
            consumer.commit()
    return read


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_each_record_is_read_and_none_is_committed_twice_whatever_happens_to_members_and_coordinators(
    cluster: Cluster, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        admin = stack.enter_context(Admin(cluster.bootstrap_servers))
        admin.create_topic(TOPIC, PARTITIONS, 3)
        topic = Topic(cluster)
        groups = [Group(cluster.bootstrap_servers, name, each, tmp_path) for name, each in PROTOCOLS.items()]
        topic.produce()
        for group in groups:
            group.start()
        topic.until_read(groups)

        processes = [
            stack.enter_context(member_process(group.servers, group.group_id, TOPIC, group.file, **group.settings))
            for group in groups
        ]
        for group in groups:
            group.start(2)
        topic.produce()
        until_members(admin, groups, 4)
        topic.produce()
        topic.until_read(groups)

        # Paused beyond the session, resumed, and killed; meanwhile a member leaves, and the topic grows.
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        topic.produce()
        topic.until_read(groups)
        until_members(admin, groups, 3)
        for process in processes:
            process.send_signal(signal.SIGCONT)
        for group in groups:
            group.threads[0].close()
        topic.produce()
        admin.create_partitions(TOPIC, PARTITIONS + 2)
        topic.produce(partitions=PARTITIONS + 2)
        topic.until_read(groups)
        until_members(admin, groups, 3)
        for process in processes:
            process.kill()
        topic.produce(partitions=PARTITIONS + 2)
        topic.until_read(groups)

        (described,) = admin.describe_consumer_groups(["consumer"])
        cluster.node(described.coordinator.node_id).kill()
        topic.produce(partitions=PARTITIONS + 2)
        topic.until_read(groups)
        for group in groups:
            for thread in group.threads:
                thread.close()
        twice = {group.group_id: [place for place, count in group.done().items() if count > 1] for group in groups}
        assert twice == {group.group_id: [] for group in groups}
        assert all(group.read() == topic.places for group in groups)
        places = [TopicPartition(TOPIC, number) for number in topic.ends]
        for group in groups:
            with Consumer(cluster.bootstrap_servers, group_id=group.group_id) as consumer:
                committed = consumer.committed(places)
            assert {place.partition: found and found.offset for place, found in committed.items()} == topic.ends
