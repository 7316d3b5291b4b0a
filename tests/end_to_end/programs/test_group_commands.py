"""`kraft groups`, `kraft clients` and `kraft consume --group` against real nodes, with members that really read."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice, takewhile
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import confluent_kafka
import pytest

from kraft import __version__ as kraft_version
from kraft.client import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from kraft.local.free_ports import ReservedPorts
from kraft.testing import Cluster
from kraft.wire.schema.api_versions import ApiVersionsRequest
from tests.support.command_line import kraft, run_kraft, running
from tests.support.kafka.single_requests import response
from tests.support.waiting import until, until_committed

pytestmark = pytest.mark.timeout(300)

DEADLINE_S = 60

INTERRUPTED_WITHIN_S = 15.0
"""It takes 3 s, and 30 s if the member were closed as at the end of its work."""

RECORDS = 10

LOOKS_MAX = 300
"""Looks of a command that watches, until which it has to show what is waited for."""


@pytest.fixture(scope="module")
def metrics_port() -> Iterator[int]:
    with ReservedPorts(1) as (port,):
        yield port


@pytest.fixture(scope="module")
def cluster(metrics_port: int) -> Iterator[Cluster]:
    overrides = {
        "metrics.address": f"127.0.0.1:{metrics_port}",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.assignment.interval.ms": "0",
        "group.initial.rebalance.delay.ms": "0",
        "group.lag.look.interval.ms": "100",
    }
    with Cluster(1, overrides=overrides) as started:
        yield started


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def name(request: pytest.FixtureRequest, cluster: Cluster, admin: Admin) -> str:
    """The test's own topic, of two partitions with ten records each; its group has the same name."""
    topic: str = request.node.name.translate(str.maketrans("[]", "--"))
    admin.create_topic(topic, 2)
    with Producer(cluster.bootstrap_servers) as producer:
        for partition in range(2):
            values = [b"%d" % number for number in range(RECORDS)]
            producer.produce_many(topic, values, partition=partition).result(DEADLINE_S)
    return topic


@contextmanager
def reading(cluster: Cluster, name: str) -> Iterator[None]:
    """A member of the classic protocol that reads both partitions, commits nothing, and leaves at the end."""
    member = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.kafka_bootstrap_servers,
            "group.id": name,
            "client.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    assigned, ended = threading.Event(), threading.Event()
    member.subscribe([name], on_assign=lambda _, partitions: assigned.set() if len(partitions) == 2 else None)

    def poll() -> None:
        while not ended.is_set():
            member.poll(0.1)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        assert assigned.wait(DEADLINE_S), "the member got no partitions"
        yield
    finally:
        ended.set()
        thread.join(DEADLINE_S)
        member.close()


def described(cluster: Cluster, command: str, name: str) -> Any:
    (group,) = json.loads(kraft(cluster, "groups", command, name, "--output", "json"))
    return group


def committed(admin: Admin, name: str) -> dict[int, int]:
    return {each.partition: found.offset for each, found in admin.list_consumer_group_offsets(name).items()}


def test_a_group_is_described_reset_and_deleted(cluster: Cluster, admin: Admin, name: str) -> None:
    until_committed(admin, name, {TopicPartition(name, 0): OffsetAndMetadata(4, "a note")})
    with reading(cluster, name):
        group = described(cluster, "describe", name)
        first, second = group["partitions"]
        assert (group["type"], first["client_id"], second["client_id"]) == ("classic", "reader", "reader")
        assert (first["current_offset"], first["log_end_offset"], first["lag"]) == (4, RECORDS, RECORDS - 4)
        assert (first["metadata"], first["lag_seconds"] >= 0) == ("a note", True)
        assert (second["current_offset"], second["lag"], second["lag_seconds"]) == (None, None, None)
        (member,) = described(cluster, "members", name)["members"]
        assert member["assignment"] == [{"topic": name, "partition": number} for number in range(2)]
        assert [name, "classic", "consumer", "Stable"] in [
            line.split() for line in kraft(cluster, "groups", "list").splitlines()
        ]
        reset = ("groups", "reset-offsets", name, "--topic", name, "--to-offset", "7", "--execute")
        for command in (reset, ("groups", "delete", name), ("groups", "delete-offsets", name, "--topic", name)):
            refused = run_kraft(cluster, *command)
            assert refused.returncode == 1
            assert "Traceback" not in refused.stderr
        assert "has 1 member (state Stable): stop its consumers first" in run_kraft(cluster, *reset).stderr
    until(lambda: described(cluster, "state", name)["state"] == "Empty", "the group still has members")
    kraft(cluster, *reset[:-1])
    assert committed(admin, name) == {0: 4}
    kraft(cluster, *reset)
    assert committed(admin, name) == {0: 7, 1: 7}
    kraft(cluster, "groups", "delete-offsets", name, "--topic", f"{name}:1")
    assert committed(admin, name) == {0: 7}
    kraft(cluster, "groups", "delete", name)
    assert "GROUP_ID_NOT_FOUND" in run_kraft(cluster, "groups", "describe", name).stderr


def test_offsets_are_reset_by_what_the_brokers_know(cluster: Cluster, admin: Admin, name: str, tmp_path: Path) -> None:
    reset = ("groups", "reset-offsets", name, "--topic", name, "--execute")
    targets: list[tuple[tuple[str, ...], int]] = [
        (("--to-latest",), RECORDS),
        (("--shift-by", "-4"), RECORDS - 4),
        (("--by-duration", "P1D"), 0),
        (("--to-datetime", "2100-01-01T00:00:00.000"), RECORDS),
    ]
    for target, offset in targets:
        kraft(cluster, *reset, *target)
        assert committed(admin, name) == {0: offset, 1: offset}, target
    file = tmp_path / "offsets.csv"
    file.write_text(f"{name},0,2\n{name},1,5\n")
    kraft(cluster, "groups", "reset-offsets", name, "--from-file", str(file), "--execute")
    assert committed(admin, name) == {0: 2, 1: 5}
    exported = kraft(cluster, "groups", "reset-offsets", name, "--all-topics", "--to-current", "--export")
    assert exported == file.read_text()


def test_a_console_consumer_continues_where_its_group_stopped(cluster: Cluster, admin: Admin, name: str) -> None:
    consume = ("consume", name, "--group", name, "--from-beginning", "--timeout-ms", "60000", "--format", "%p %v")
    first = kraft(cluster, *consume, "--max-messages", "7").splitlines()
    assert sum(committed(admin, name).values()) == 7
    rest = kraft(cluster, *consume, "--max-messages", "13").splitlines()
    assert sorted(first + rest) == sorted(f"{partition} {value}" for partition in range(2) for value in range(RECORDS))
    group = described(cluster, "describe", name)
    assert [each["lag"] for each in group["partitions"]] == [0, 0]
    assert (group["type"], group["state"]) == ("consumer", "Empty")


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_commits_what_was_printed_and_leaves_the_group(
    cluster: Cluster, admin: Admin, name: str, tmp_path: Path, number: signal.Signals, exit_code: int
) -> None:
    settings = tmp_path / "consumer.properties"
    settings.write_text(f"group.id={name}\nauto.offset.reset=earliest\nclient.id=console\n")
    consume = ("kraft", "consume", name, "--consumer-config", settings)
    with running(*consume, "--bootstrap-server", cluster.bootstrap_servers) as command:
        lines = [command.stdout.readline() for _ in range(2 * RECORDS)]
        (member,) = described(cluster, "members", name)["members"]
        assert member["client_id"] == "console"
        command.process.send_signal(number)
        assert command.process.wait(DEADLINE_S) == exit_code
    assert sorted(lines) == sorted(b"%d\n" % number for number in range(RECORDS) for _ in range(2))
    assert committed(admin, name) == {0: RECORDS, 1: RECORDS}
    assert described(cluster, "state", name)["members"] == 0


def test_a_signal_ends_the_command_soon_where_no_broker_answers(cluster: Cluster, name: str) -> None:
    consume = ("kraft", "consume", name, "--group", name, "--from-beginning")
    with running(*consume, "--bootstrap-server", cluster.bootstrap_servers) as command:
        command.stdout.readline()
        cluster.node(1).pause()
        try:
            command.process.send_signal(signal.SIGTERM)
            assert command.process.wait(INTERRUPTED_WITHIN_S) == 143
        finally:
            cluster.node(1).resume()


def test_a_member_that_waits_for_one_that_was_killed_says_so(cluster: Cluster, name: str) -> None:
    consume = ("kraft", "consume", name, "--group", name, "--from-beginning")
    with running(*consume, "--bootstrap-server", cluster.bootstrap_servers) as killed:
        killed.stdout.readline()
        killed.process.kill()
        killed.process.wait(DEADLINE_S)
    with running(*consume, "--bootstrap-server", cluster.bootstrap_servers) as waiting:
        said = waiting.stderr.readline().decode()
        assert said.startswith(
            f"kraft: waiting for partitions of group {name!r} that have to be given up by 1 member ("
        )


def test_two_of_three_members_share_two_partitions_and_the_third_takes_over(cluster: Cluster, name: str) -> None:
    settings: dict[str, Any] = {"group_id": name, "auto_offset_reset": "earliest"}
    with ExitStack() as stack:
        members = [stack.enter_context(Consumer(cluster.bootstrap_servers, **settings)) for _ in range(3)]
        for consumer in members:
            consumer.subscribe(name)

        def share(*counts: int) -> bool:
            for consumer in members:
                consumer.poll(100)
            return sorted(len(consumer.assignment()) for consumer in members) == list(counts)

        until(lambda: share(0, 1, 1), lambda: [consumer.assignment() for consumer in members])
        readers = {
            each["partition"]: each["consumer_id"] for each in described(cluster, "describe", name)["partitions"]
        }
        assert len(set(readers.values())) == 2
        lines = kraft(cluster, "groups", "members", name, "--verbose").splitlines()
        assert sorted(line.split()[6] for line in lines[1:]) == ["-", f"{name}:0", f"{name}:1"]
        # A member that leaves makes room for the one that waits.
        members.remove(leaving := next(consumer for consumer in members if consumer.assignment()))
        leaving.close()
        until(lambda: share(1, 1), lambda: [consumer.assignment() for consumer in members])


def burrow(port: int, path: str) -> dict[str, Any]:
    with urlopen(f"http://127.0.0.1:{port}/v3/kafka{path}", timeout=DEADLINE_S) as answer:
        return dict(json.load(answer))


def test_clients_are_shown_with_their_software_and_what_they_ask(cluster: Cluster, name: str) -> None:
    def clients(*options: str) -> Any:
        return json.loads(kraft(cluster, "clients", *options, "--output", "json"))

    with reading(cluster, name):
        found, each_connection = clients("--interval-ms", "1000"), clients("--connections", "--interval-ms", "100")
        table = kraft(cluster, "clients", "--interval-ms", "100").splitlines()
    (reader,) = (each for each in found if each["client_id"] == "reader")
    assert (reader["principal"], reader["listener"], reader["brokers"]) == ("User:ANONYMOUS", "PLAINTEXT", [1])
    assert reader["address"] in ("127.0.0.1", "::1")
    assert reader["software_name"] == "confluent-kafka-python"
    # It tells the version of librdkafka, too.
    assert reader["software_version"].startswith(confluent_kafka.__version__)
    assert 0 < reader["requests_per_second"] <= reader["requests"], "it fetches twice a second"
    assert 0 < reader["received_bytes_per_second"] <= reader["received_bytes"]
    assert 0 < reader["sent_bytes_per_second"] <= reader["sent_bytes"]
    addresses = [each["address"] for each in each_connection if each["client_id"] == "reader"]
    assert len(addresses) == len(set(addresses)) == reader["connections"], "each has its port"
    assert table[0].split()[:6] == ["PRINCIPAL", "CLIENT-ID", "SOFTWARE", "LISTENER", "BROKERS", "ADDRESS"]
    assert any(line.split()[:3] == ["User:ANONYMOUS", "reader", "confluent-kafka-python"] for line in table[1:])
    of_grpc = {each["software_name"]: each for each in found if each["listener"] == "GRPC"}
    assert of_grpc.keys() == {"kraft-cli", "kraft-python"}, "the command itself, and the clients of these tests"
    assert {each["software_version"] for each in of_grpc.values()} == {kraft_version}
    command = of_grpc["kraft-cli"]
    assert (command["principal"], command["client_id"], command["connections"]) == ("User:ANONYMOUS", "kraft", 1)
    assert 0 < command["requests_per_second"] <= command["requests"]
    assert 0 < command["received_bytes"] < command["sent_bytes"] < 100_000


def test_versions_are_those_that_kafkas_clients_are_told(cluster: Cluster) -> None:
    (found,) = json.loads(kraft(cluster, "api-versions", "--output", "json"))
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    told = [
        (each.api_key, each.min_version, each.max_version)
        for each in response(cluster.kafka_bootstrap_servers, request, 4).api_keys
    ]
    assert [(each["key"], each["min_version"], each["max_version"]) for each in found["apis"]] == told
    assert found["apis"][0]["api"] == "Produce"


def check_watched(cluster: Cluster, name: str, commit: Callable[[int, int], None]) -> None:
    """One command shows how the lag of partition 0 grows by what is written, and shrinks by what is committed."""
    watch = ("kraft", "groups", "lag", name, "--watch", "--interval-ms", "100")
    with running(*watch, "--bootstrap-server", cluster.bootstrap_servers) as watching:
        rows = (line.decode().split() for line in watching.stdout)
        shown = (int(row[5]) for row in rows if row[:3] == [name, name, "0"])

        def until_lag_is(lag: int) -> None:
            looks = list(takewhile(lambda each: each != lag, islice(shown, LOOKS_MAX)))
            assert len(looks) < LOOKS_MAX, looks

        until_lag_is(0)
        with Producer(cluster.bootstrap_servers) as producer:
            producer.produce_many(name, [b"more"] * 5, partition=0).result(DEADLINE_S)
        until_lag_is(5)
        commit(RECORDS + 2, RECORDS)
        until_lag_is(3)
        commit(RECORDS + 5, RECORDS)
        until_lag_is(0)


def test_lag_says_how_a_group_does(cluster: Cluster, metrics_port: int, admin: Admin, name: str) -> None:
    partitions = [TopicPartition(name, number) for number in range(2)]

    def lag_of_group() -> dict[str, Any]:
        (found,) = json.loads(kraft(cluster, "groups", "lag", name, "--output", "json"))
        return dict(found)

    def commit(*offsets: int) -> None:
        until_committed(
            admin, name, {each: OffsetAndMetadata(offset) for each, offset in zip(partitions, offsets, strict=True)}
        )

    commit(4, RECORDS)
    # It commits no more for as long as ten looks take.
    until(lambda: lag_of_group()["state"] == "ERR", lambda: f"it has not stopped: {lag_of_group()}", DEADLINE_S)
    stopped = lag_of_group()
    assert stopped["lag"] == RECORDS - 4
    first, second = stopped["partitions"]
    assert (first["state"], first["current_offset"], first["lag"]) == ("STOP", 4, RECORDS - 4)
    assert first["behind_is_at_least"], "the records were there before anybody looked"
    assert first["behind_seconds"] > 0
    assert (second["state"], second["lag"], second["behind_seconds"]) == ("OK", 0, 0)

    table = kraft(cluster, "groups", "lag").splitlines()
    assert table[0].split() == ["GROUP", "STATE", "LAG", "BEHIND", "PARTITIONS", "SEEN"]
    assert [row.split()[:3] for row in table if row.startswith(name)] == [[name, "ERR", "6"]]

    (cluster_id,) = burrow(metrics_port, "")["clusters"]
    assert name in burrow(metrics_port, f"/{cluster_id}/consumer")["consumers"]
    status = burrow(metrics_port, f"/{cluster_id}/consumer/{name}/status")["status"]
    assert (status["status"], status["totallag"], status["maxlag"]["status"]) == ("ERR", RECORDS - 4, "STOP")
    assert burrow(metrics_port, f"/{cluster_id}/topic/{name}")["offsets"] == [RECORDS, RECORDS]

    assert {each["owner"] for each in status["partitions"]} == {""}
    deletion = Request(f"http://127.0.0.1:{metrics_port}/v3/kafka/{cluster_id}/consumer/{name}", method="DELETE")
    with pytest.raises(HTTPError, match="405"):
        urlopen(deletion, timeout=DEADLINE_S)
    assert lag_of_group()["state"] == "ERR", "nothing was deleted"
    with reading(cluster, name):
        lags = burrow(metrics_port, f"/{cluster_id}/consumer/{name}/lag")["status"]["partitions"]
        topics = burrow(metrics_port, f"/{cluster_id}/consumer/{name}")["topics"]
    assert [(each["owner"], each["client_id"]) for each in lags] == [("/127.0.0.1", "reader")] * 2
    assert [(each["owner"], each["client_id"]) for each in topics[name]] == [("/127.0.0.1", "reader")] * 2

    commit(RECORDS, RECORDS)
    until(lambda: lag_of_group()["state"] == "OK", "the group has read everything", DEADLINE_S)
    check_watched(cluster, name, commit)

    refused = run_kraft(cluster, "groups", "lag", "nobody")
    assert refused.returncode == 1
    assert "there is no group 'nobody'" in refused.stderr
