"""Replicas move between the log directories of a broker, requested by clients and tools of Kafka, under load."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import kafka
import pytest
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError

from kraft.client import Admin
from kraft.model.configs import ConfigSource
from kraft.moves.throttles import DIRECTORIES_RATE
from kraft.testing import Cluster
from tests.soak import replica_move_runs
from tests.support.command_line import run_kraft
from tests.support.kafka.kafka_jars import kafka_jars, run_kafka_tool
from tests.support.kafka.kafka_numbered_loads import LibrdkafkaLoad, compare, read_numbers
from tests.support.waiting import until

# Fetching the jars may come first, once.
pytestmark = pytest.mark.timeout(300)

LARGE_BYTES: Final = 64 << 20
"""Large enough that the move can be seen and interrupted."""
MESSAGE_BYTES: Final = 512 << 10
THROTTLED_BYTES: Final = 16 << 20
DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Held:
    """Return the replica in a log directory, by its name."""

    directory: str
    is_future: bool
    lag: int


class Site:
    """Three brokers, of which the first has two log directories, `a` and `b`, and leads."""

    def __init__(self, cluster: Cluster, admin: KafkaAdminClient, directories: list[Path]) -> None:
        self.cluster = cluster
        self.admin = admin
        self.directories = {path.name: path for path in directories}

    def create(self, topic: str) -> None:
        self.create_on([1, 2, 3], topic)
        until(lambda: len(self.held(topic)) == 1, f"{topic} is there")

    def create_on(self, brokers: list[int], topic: str) -> None:
        # The client asks again after NOT_CONTROLLER, when the old controller's decision may have been committed.
        with suppress(TopicAlreadyExistsError):
            self.admin.create_topics([NewTopic(topic, replica_assignments={0: brokers})])

    def create_large(self, topic: str) -> None:
        self.create(topic)
        producer = confluent_kafka.Producer({"bootstrap.servers": self.cluster.kafka_bootstrap_servers})
        for _ in range(LARGE_BYTES // MESSAGE_BYTES):
            producer.produce(topic, bytes(MESSAGE_BYTES), partition=0)
        assert producer.flush(DEADLINE_S) == 0

    def held(self, topic: str) -> list[Held]:
        """Return the log directories that broker 1 reports."""
        (broker,) = self.admin.describe_log_dirs({topic: [0]}, brokers=[1])
        return [
            Held(Path(directory["log_dir"]).name, each["is_future_key"], each["offset_lag"])
            for directory in broker["log_dirs"]
            for found in directory["topics"]
            for each in found["partitions"]
        ]

    def elsewhere(self, topic: str) -> str:
        (held,) = self.held(topic)
        return "b" if held.directory == "a" else "a"

    def move(self, topic: str, name: str) -> None:
        asked = {kafka.TopicPartitionReplica(topic, 0, 1): str(self.directories[name])}
        (error,) = self.admin.alter_replica_log_dirs(asked).values()
        assert error is kafka.errors.NoError

    def until_moved(self, topic: str, name: str) -> list[Held]:
        """Wait for the end of a move; return the states that were reported meanwhile."""
        reported: list[Held] = []

        def is_there() -> bool:
            held = self.held(topic)
            reported.extend(held)
            return held == [Held(name, False, 0)]

        until(is_there, lambda: f"{topic} is in {name}, and not {reported[-2:]}", DEADLINE_S)
        return reported

    def files(self, node_id: int, topic: str) -> bytes:
        """Return the bytes of all segments of a replica."""
        logs = (self.cluster.directory).glob(f"node-{node_id}*/**/{topic}-0/*.log")
        return b"".join(path.read_bytes() for path in sorted(logs, key=lambda path: path.name))

    def replicas(self) -> list[str]:
        """Return the names of the replicas of all brokers, without those of internal topics and deleted ones."""
        places = [*self.directories.values(), *(self.cluster.directory / f"node-{number}" for number in (2, 3))]
        return [name for place in places for name in os.listdir(place) if re.fullmatch(r"[a-z]+-0", name)]

    def leftovers(self) -> list[str]:
        return [
            path.name
            for directory in self.directories.values()
            for path in directory.iterdir()
            if path.name.endswith(("-future", "-moved", "-stray"))
        ]


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("moves")
    directories = [directory / "node-1" / name for name in ("a", "b")]
    with Cluster(
        3,
        directory,
        overrides={"log.segment.bytes": str(16 << 20)},
        node_overrides={1: {"log.dirs": ",".join(map(str, directories))}},
    ) as cluster:
        admin = KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap_servers.split(","))
        yield Site(cluster, admin, directories)
        admin.close()


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    """The site, without a topic before and after each test."""
    yield shared_site
    with Admin(shared_site.cluster.bootstrap_servers) as admin:
        admin.delete_topics([topic for topic in admin.list_topics() if not topic.startswith("__")])
    until(lambda: not shared_site.replicas(), lambda: f"{shared_site.replicas()} are not deleted")


def check(site: Site, load: LibrdkafkaLoad) -> None:
    """Check that no record is lost or duplicated, and the moved replica equals the others."""
    load.stop()
    numbers = read_numbers(site.cluster.kafka_bootstrap_servers, "numbers", 0)
    found = compare(load.client, 0, load.sent[0], numbers)
    print(found)
    assert found.is_exact, str(found)
    until(lambda: site.files(1, "numbers") == site.files(2, "numbers") != b"", "the replicas are alike")


def test_a_leaders_replica_moves_under_load_and_describe_log_dirs_shows_it(site: Site) -> None:
    site.create("numbers")
    site.create_large("large")
    with LibrdkafkaLoad(site.cluster.kafka_bootstrap_servers, "numbers", [0]) as load:
        load.wait_for_acknowledgements(100, 0)
        target = site.elsewhere("large")
        began_s = time.monotonic()
        site.move("large", target)
        answer = site.until_moved("large", target)
        took_s = time.monotonic() - began_s
        future = [each for each in answer if each.is_future]
        print(f"{LARGE_BYTES >> 20} MiB in {took_s:.2f} s, future replica seen {len(future)} times")
        assert future
        assert {each.directory for each in future} == {target}
        assert max(each.lag for each in future) > 0
        for _ in range(4):
            moved_s = time.monotonic()
            target = site.elsewhere("numbers")
            site.move("numbers", target)
            site.until_moved("numbers", target)
            load.wait_for_acknowledgements(50, moved_s)
        print(f"longest wait for an acknowledgement {load.gap_s(began_s):.3f} s")
        check(site, load)
    until(lambda: site.leftovers() == [], "nothing is left behind")
    assert site.files(1, "large") == site.files(2, "large")


@contextmanager
def copying_slowly(site: Site) -> Iterator[None]:
    """Let broker 1 take two seconds for a large topic, so that it is killed before the copy is over."""
    rate = {DIRECTORIES_RATE: str(LARGE_BYTES // 2)}
    with Admin(site.cluster.bootstrap_servers) as admin:
        admin.alter_broker_configs(1, rate)

        def has_rate() -> bool:
            return rate.items() <= {each.name: each.value for each in admin.describe_broker_configs(1)}.items()

        until(has_rate, "broker 1 knows the rate")
        yield
        admin.alter_broker_configs(1, delete=list(rate))


@pytest.mark.slow
def test_a_broker_that_is_killed_amid_moves_comes_back_with_all_and_moves_on(site: Site) -> None:
    site.create("numbers")
    site.create_large("large")
    with LibrdkafkaLoad(site.cluster.kafka_bootstrap_servers, "numbers", [0]) as load, copying_slowly(site):
        load.wait_for_acknowledgements(100, 0)
        for _ in range(2):
            targets = {topic: site.elsewhere(topic) for topic in ("numbers", "large")}
            for topic, target in targets.items():
                site.move(topic, target)
            assert any(each.is_future and each.lag > 0 for each in site.held("large")), "it is being copied"
            site.cluster.node(1).kill()
            killed_s = time.monotonic()
            load.wait_for_acknowledgements(50, killed_s)
            site.cluster.node(1).start()
            site.cluster.wait_ready()
            for topic, target in targets.items():
                site.until_moved(topic, target)
        check(site, load)
    until(lambda: site.leftovers() == [], "nothing is left behind")
    until(lambda: site.files(1, "large") == site.files(2, "large"), "the replicas are alike")


@pytest.mark.slow
def test_a_lone_replica_that_moves_loses_nothing_whenever_its_broker_is_killed() -> None:
    verdict = replica_move_runs.run(times=3, seed=1)
    assert verdict.is_exact, str(verdict)
    assert verdict.moves > 0


def test_what_cannot_be_is_refused(site: Site) -> None:
    site.create("numbers")

    def refused(topic: str, broker: int, directory: str) -> Any:
        (error,) = site.admin.alter_replica_log_dirs(
            {kafka.TopicPartitionReplica(topic, 0, broker): directory}
        ).values()
        return error

    assert refused("numbers", 1, "/nowhere") is kafka.errors.LogDirNotFoundError
    assert refused("nobody", 1, str(site.directories["a"])) is kafka.errors.UnknownTopicOrPartitionError
    site.create_on([2, 3], "others")
    target = site.elsewhere("numbers")
    until(
        lambda: refused("others", 1, str(site.directories[target])) is kafka.errors.ReplicaNotAvailableError,
        "it is not there",
    )
    # The requested directory is remembered, although the other one has more space.
    site.admin.alter_partition_reassignments({kafka.TopicPartition("others", 0): [1, 2]})
    until(lambda: site.held("others") == [Held(target, False, 0)], "it is where it was wanted")


@pytest.mark.slow
def test_kafka_reassign_partitions_moves_a_replica(site: Site, tmp_path: Path) -> None:
    jars = kafka_jars()
    site.create("numbers")
    with LibrdkafkaLoad(site.cluster.kafka_bootstrap_servers, "numbers", [0]) as load:
        load.wait_for_acknowledgements(100, 0)
        target = site.elsewhere("numbers")
        wanted = {
            "topic": "numbers",
            "partition": 0,
            "replicas": [1, 2, 3],
            "log_dirs": [str(site.directories[target]), "any", "any"],
        }
        file = tmp_path / "reassignment.json"
        file.write_text(json.dumps({"version": 1, "partitions": [wanted]}))

        def reassign(*arguments: str) -> str:
            finished = run_kafka_tool(
                jars,
                "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
                "--bootstrap-server",
                site.cluster.kafka_bootstrap_servers,
                "--reassignment-json-file",
                file,
                *arguments,
            )
            assert finished.code == 0, finished.output + finished.errors
            return finished.output

        executed = reassign("--execute")
        assert f"Successfully started moving log directory to {site.directories[target]}" in executed, executed
        site.until_moved("numbers", target)
        verified = reassign("--verify", "--preserve-throttles")
        assert "Reassignment of replica numbers-0-1 completed successfully." in verified, verified
        check(site, load)


# --- throttled moves to other brokers ------------------------------------------------------------------------------

Reassign = Callable[..., tuple[int, str]]
"""Runs a reassignment tool with these arguments; returns its exit code, and all that it printed."""


def kafkas_tool(site: Site) -> Reassign:
    jars = kafka_jars()

    def reassign(*arguments: str) -> tuple[int, str]:
        tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
        servers = ("--bootstrap-server", site.cluster.kafka_bootstrap_servers)
        finished = run_kafka_tool(jars, tool, *servers, *arguments)
        return finished.code, finished.output + finished.errors

    return reassign


def our_tool(site: Site) -> Reassign:
    def reassign(*arguments: str) -> tuple[int, str]:
        finished = run_kraft(site.cluster, "topics", "reassign", *arguments)
        return finished.returncode, finished.stdout + finished.stderr

    return reassign


def throttles(admin: Admin, topic: str) -> dict[str, str]:
    """Return the throttles that are set on the topic and on brokers, by key; of a broker with its id."""
    found = dict(admin.describe_topics([topic])[0].configs)
    for broker in (1, 2, 3):
        found |= {
            f"{broker} {each.name}": each.value or ""
            for each in admin.describe_broker_configs(broker)
            if each.config_source == ConfigSource.DYNAMIC_BROKER_CONFIG
        }
    return {key: value for key, value in found.items() if "throttled" in key or "replica.alter" in key}


def until_throttles(admin: Admin, topic: str, expected: dict[str, str]) -> None:
    """Wait until the brokers that are asked know it: the tool that changed them has asked one of them."""
    until(lambda: throttles(admin, topic) == expected, lambda: throttles(admin, topic))


@pytest.mark.slow
@pytest.mark.parametrize("tool", [kafkas_tool, our_tool])
def test_moves_are_throttled_and_unthrottled(site: Site, tmp_path: Path, tool: Callable[[Site], Reassign]) -> None:
    site.create_on([1, 2], "large")
    producer = confluent_kafka.Producer({"bootstrap.servers": site.cluster.kafka_bootstrap_servers})
    for _ in range(THROTTLED_BYTES // MESSAGE_BYTES):
        producer.produce("large", bytes(MESSAGE_BYTES), partition=0)
    assert producer.flush(DEADLINE_S) == 0
    file = tmp_path / "reassignment.json"
    until(lambda: len(site.held("large")) == 1, "it is there")
    target = str(site.directories[site.elsewhere("large")])
    wanted = {"topic": "large", "partition": 0, "replicas": [1, 3], "log_dirs": [target, "any"]}
    file.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    reassign = tool(site)

    def on_file(*arguments: str) -> tuple[int, str]:
        return reassign("--reassignment-json-file", str(file), *arguments)

    def execute(*arguments: str) -> None:
        rate = arguments[0]
        code, output = on_file("--execute", "--throttle", rate, "--replica-alter-log-dirs-throttle", *arguments)
        assert code == 0, output
        assert f"The inter-broker throttle limit was set to {rate} B/s" in output
        assert f"The replica-alter-dir throttle limit was set to {rate} B/s" in output
        assert "Successfully started partition reassignment for large-0" in output
        assert f"Successfully started moving log directory to {target} for replica large-0 with broker 1" in output

    def expected(rate: str) -> dict[str, str]:
        names = ("leader.replication.throttled", "follower.replication.throttled")
        rates = {f"{broker} {name}.rate": rate for broker in (1, 2, 3) for name in names}
        lists = {f"{names[0]}.replicas": "0:1,0:2", f"{names[1]}.replicas": "0:3"}
        return {**lists, **rates, "1 replica.alter.log.dirs.io.max.bytes.per.second": rate}

    with Admin(site.cluster.bootstrap_servers) as admin:
        # It would take minutes.
        execute("50000")
        until_throttles(admin, "large", expected("50000"))
        assert "large-0: replicas: 1,3,2. adding: 3. removing: 2." in reassign("--list")[1]
        code, output = on_file("--execute", "--throttle", "70000")
        assert (code, "Use --additional to override this" in output) == (1, True)
        code, output = on_file("--verify")
        assert (code, "Reassignment of partition large-0 is still in progress." in output) == (0, True), output
        assert "Reassignment of replica large-0-1 is still in progress." in output
        until_throttles(admin, "large", expected("50000"))
        code, output = on_file("--cancel")
        assert (code, "Successfully cancelled partition reassignment for: large-0" in output) == (0, True), output
        until_throttles(admin, "large", {})
        execute("50000")
        execute("1000000000", "--additional")
        until_throttles(admin, "large", expected("1000000000"))
        until(lambda: not admin.list_partition_reassignments(), "the move is over", DEADLINE_S)
        until(lambda: not any(each.is_future for each in site.held("large")), "the copy is over", DEADLINE_S)
        code, output = on_file("--verify")
        assert (code, "Reassignment of partition large-0 is completed." in output) == (0, True), output
        assert "Reassignment of replica large-0-1 completed successfully." in output
        assert "Clearing broker-level throttles on brokers 1,2,3" in output
        assert "Clearing topic-level throttles on topic large" in output
        until_throttles(admin, "large", {})
