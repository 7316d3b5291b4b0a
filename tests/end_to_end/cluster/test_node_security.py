"""Authentication between the nodes of a real cluster: only its secret or its certificates give access."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from kraft.client import Admin, Consumer, ErrorCode, KraftError, Producer, Refusal
from kraft.local import cluster_files
from kraft.local.cluster_files import HOST, NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.local.node_process import NodeProcess
from kraft.quorum.pb import raft_pb2
from kraft.rpc.pb import admin_pb2, controller_pb2, identity_pb2, replication_pb2
from kraft.server.config.loading import load
from kraft.server.config.values import CONTROLLER, GRPC
from kraft.testing import Cluster
from tests.end_to_end.cluster.local_forwarder import forwarded
from tests.soak import garbage_runs
from tests.support.certificates import Authority
from tests.support.command_line import PROGRAMS, run
from tests.support.error_lines import replace, the_one_line
from tests.support.records import create_topic, once_each, publish, read_all
from tests.support.waiting import until

DEADLINE_S = 30.0
FRAMES = 2_000
"""Invalid frames; `make soak` sends ten times as many."""
SECRET = "b7Jq1h0s5oQ8nGdYw3v2uK6rTzXcVbNm"
NEW_SECRET = "0Wd4fXk9sLqZ7vTj2hRy8cNbMgPa5eUi"
SECRET_FILE = "cluster.secret.file"


def secret_file(directory: Path, secret: str = SECRET) -> Path:
    path = directory / "secret"
    path.touch(mode=0o600)
    path.write_text(secret)
    return path


def events(node: NodeProcess, event: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in node.log_path.read_text().splitlines() if line.startswith("{"))
    return [line for line in lines if line["event"] == event]


def voters_of(cluster: Cluster) -> str:
    addresses = []
    for node in cluster.nodes:
        listener = load(node.config_path).listener(CONTROLLER)
        assert listener is not None
        addresses.append(f"{node.node_id}@{listener.host}:{listener.port}")
    return ",".join(addresses)


@contextmanager
def intruder(cluster: Cluster, directory: Path, node_id: int, **settings: str) -> Iterator[NodeProcess]:
    """A node that is not part of the cluster but behaves as if it were; a voter if it has a voter's id."""
    with ReservedPorts(1) as (port,):
        voters, taken = voters_of(cluster).split(","), node_id <= len(cluster.nodes)
        if taken:
            voters[node_id - 1] = f"{node_id}@{HOST}:{port}"
        named = {key.replace("_", "."): value for key, value in settings.items()}
        plan = NodePlan(
            node_id=node_id,
            grpc_port=None if taken else port,
            controller_port=port if taken else None,
            settings={"controller.quorum.voters": ",".join(voters), **named},
        )
        cluster_files.write(directory, [plan], cluster.cluster_id)
        node = NodeProcess(directory, plan, launch=PROGRAMS.launch)
        node.start()
        try:
            yield node
        finally:
            node.kill()


def wait_for_refusal(cluster: Cluster, reason: str) -> dict[str, Any]:
    """Return the log line of a node that refused a caller."""
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        for node in cluster.nodes:
            for line in events(node, "peer refused"):
                if reason in line["reason"]:
                    return line
        time.sleep(0.05)
    raise TimeoutError(f"nobody refused anybody with {reason!r}")


def wait_for_events(node: NodeProcess, event: str) -> list[dict[str, Any]]:
    deadline_s = time.monotonic() + DEADLINE_S
    while not (found := events(node, event)):
        assert time.monotonic() < deadline_s, f"nothing is told of {event!r}"
        time.sleep(0.05)
    return found


def assert_unhurt(cluster: Cluster, topic: str) -> None:
    """Check that metadata is committed, records are replicated to three, and no other node was accepted."""
    create_topic(cluster.bootstrap_servers, topic, partitions=3)
    publish(cluster.bootstrap_servers, topic, range(100))
    assert read_all(cluster.bootstrap_servers, topic) == once_each(100)
    with Admin(cluster.bootstrap_servers) as admin:

        def are_the_three() -> bool:
            return sorted(broker.node_id for broker in admin.describe_cluster().brokers) == [1, 2, 3]

        # One that was starved is fenced, and comes back.
        until(are_the_three, "the brokers are not those of the cluster")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Each node has a file of its own with the secret."""
    files = {number: secret_file(tmp_path_factory.mktemp(f"node-{number}")) for number in (1, 2, 3)}
    with Cluster(3, node_overrides={number: {SECRET_FILE: str(file)} for number, file in files.items()}) as running:
        yield running


def test_a_cluster_with_a_secret_works_and_takes_a_node_back_that_was_killed(cluster: Cluster) -> None:
    assert_unhurt(cluster, "before")
    cluster.node(2).kill()
    cluster.node(2).start()
    cluster.wait_ready()
    assert_unhurt(cluster, "after")


def test_a_broker_with_another_secret_does_not_get_in(cluster: Cluster, tmp_path: Path) -> None:
    other = secret_file(tmp_path, SECRET[::-1])
    with intruder(cluster, tmp_path, 4, cluster_secret_file=str(other)) as stranger:
        line = wait_for_refusal(cluster, "its cluster secret differs: set cluster.secret.file")
        assert line["peer"].startswith(f"{HOST}:")
        assert_unhurt(cluster, "another-secret")
        assert events(stranger, "broker registered") == []


def how_calls_end(port: int, methods: list[str]) -> set[str]:
    """Call as a stranger through a forwarded port of this machine; return how each call ends."""

    async def call() -> set[str]:
        ends = set()
        async with forwarded(port) as open_port, grpc.aio.insecure_channel(f"{HOST}:{open_port}") as channel:
            for method in methods:
                calling: Any = channel.stream_stream(method)
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await calling(timeout=DEADLINE_S).read()
                ends.add(f"{refused.value.code().name}: {refused.value.details()}")
        return ends

    return asyncio.run(call())


def methods_of(*files: Any) -> list[str]:
    services = [service for file in files for service in file.DESCRIPTOR.services_by_name.values()]
    return [f"/{service.full_name}/{method.name}" for service in services for method in service.methods]


def port_of(node: NodeProcess, name: str) -> int:
    listener = load(node.config_path).listener(name)
    assert listener is not None, f"no {name} there"
    return listener.port


NOT_INTRODUCED = {"UNAUTHENTICATED: it sent no proof of the cluster secret: set cluster.secret.file on every node"}


def test_a_stranger_behind_a_local_proxy_is_refused_every_method_that_is_for_nodes(cluster: Cluster) -> None:
    for_nodes = methods_of(raft_pb2, controller_pb2, admin_pb2, identity_pb2)
    # Only brokers serve them, for their clients.
    for_nodes = [each for each in for_nodes if not each.endswith(("LogDirs", "DescribeClients", "ApiVersions"))]
    assert how_calls_end(port_of(cluster.node(1), CONTROLLER), for_nodes) == NOT_INTRODUCED
    assert how_calls_end(port_of(cluster.node(1), GRPC), methods_of(replication_pb2)) == NOT_INTRODUCED
    wait_for_refusal(cluster, "it sent no proof of the cluster secret: set cluster.secret.file")
    assert_unhurt(cluster, "no-secret")


def test_a_single_node_that_formatted_itself_refuses_strangers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    alone = Cluster(1, tmp_path)
    node = alone.node(1)
    without_secret(node.config_path)
    shutil.rmtree(tmp_path / "node-1")
    with alone:
        assert how_calls_end(port_of(node, CONTROLLER), methods_of(controller_pb2)) == NOT_INTRODUCED
        assert how_calls_end(port_of(node, GRPC), methods_of(replication_pb2)) == NOT_INTRODUCED
        create_topic(alone.bootstrap_servers, "alone", partitions=1, replication_factor=1)
        (kept,) = events(node, "cluster secret kept in memory")
        assert "other nodes need cluster.secret.file" in kept["reason"]


@pytest.mark.parametrize("is_formatted_before", [False, True])
def test_nodes_of_one_machine_find_their_secret_without_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_formatted_before: bool
) -> None:
    """Nodes start as in the README, and as nodes that were formatted before there was such a secret."""
    state = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    running = Cluster(3, tmp_path / "cluster")
    for node in running.nodes:
        without_secret(node.config_path)
        if not is_formatted_before:
            shutil.rmtree(running.directory / f"node-{node.node_id}")
            logged = run("storage", "format", "-c", node.config_path).stdout
            assert f"{state}/kraft/{running.cluster_id}.secret: cluster secret " in logged
            assert ("already exists" in logged) == (node.node_id > 1)
    with running:
        assert_unhurt(running, "as-in-the-readme")
        (secret,) = (state / "kraft").iterdir()
        assert (secret.name, secret.stat().st_mode & 0o777) == (f"{running.cluster_id}.secret", 0o600)
        made = [node for node in running.nodes if events(node, "cluster secret created")]
        assert len(made) == is_formatted_before


def test_a_node_that_finds_no_place_for_the_secret_says_what_to_do(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    without_secret(config)
    replace(config, "controller.quorum.voters=", f"controller.quorum.voters=2@{HOST}:9,")
    for command in ("storage", "format"), ("server", "start"):
        logged = the_one_line(run(*command, "-c", config))
        assert (
            "no place for the secret that the nodes of this machine share (/dev/null/kraft: Not a directory): create"
            in logged
        )
        assert "openssl rand -base64 32 > FILE) and set cluster.secret.file=FILE on every node" in logged


def without_secret(config: Path) -> None:
    lines = config.read_text().splitlines(keepends=True)
    config.write_text("".join(line for line in lines if not line.startswith("cluster.secret.file=")))


def test_a_second_process_with_a_voters_id_does_not_get_in(cluster: Cluster, tmp_path: Path) -> None:
    known = secret_file(tmp_path)
    with intruder(cluster, tmp_path, 3, cluster_secret_file=str(known)):
        wait_for_refusal(cluster, "node.id 3 is in use by another running process: give each node its own node.id")
        assert_unhurt(cluster, "second-process")


class Load:
    """A producer with acks=all, a consumer in a group and an operator, until they are stopped."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._servers, self._topic = cluster.bootstrap_servers, topic
        self._is_over, self._is_produced = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._administer, self._consume)]
        self.failures: list[str] = []
        self.acknowledged = 0
        self.consumed: Counter[bytes | None] = Counter()

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(2 * DEADLINE_S)
            assert not thread.is_alive()

    def _produce(self) -> None:
        with Producer(self._servers, acks="all") as producer:
            while not self._is_over.is_set():
                sent = [producer.send(self._topic, b"%d" % (self.acknowledged + each)) for each in range(20)]
                with self._noted():
                    for each in sent:
                        each.result(DEADLINE_S)
                self.acknowledged += len(sent)
        self._is_produced.set()

    def _consume(self) -> None:
        with Consumer(self._servers, group_id=self._topic, auto_offset_reset="earliest") as consumer:
            consumer.subscribe(self._topic)
            while not self._is_produced.is_set():
                self._consume_some(consumer)
            deadline_s = time.monotonic() + DEADLINE_S
            while len(self.consumed) < self.acknowledged and time.monotonic() < deadline_s:
                self._consume_some(consumer)

    def _consume_some(self, consumer: Consumer) -> None:
        with self._noted():
            self.consumed.update(record.value for record in consumer.poll(200))
            consumer.commit()

    def _administer(self) -> None:
        number = 0
        with Admin(self._servers) as admin:
            while not self._is_over.is_set():
                with self._noted():
                    self._create(admin, f"{self._topic}-{number}")
                    admin.describe_log_directories()
                number += 1
                # Each is a topic of three replicas more.
                time.sleep(0.2)

    def _create(self, admin: Admin, topic: str) -> None:
        try:
            admin.create_topic(topic, 3, 3)
        except Refusal as refusal:
            # On a slow machine the response may be too late, and the request is repeated.
            if refusal.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except KraftError as error:
            self.failures.append(f"{type(error).__name__}: {error}")


@pytest.mark.slow
def test_a_secret_is_renewed_under_load_without_a_restart_and_without_a_failed_request(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The last test of this cluster, which has another secret afterwards."""
    create_topic(cluster.bootstrap_servers, "renewed", partitions=3)
    refused = [len(events(node, "peer refused")) for node in cluster.nodes]
    with Load(cluster, "renewed") as load:
        for step, lines in enumerate(((SECRET, NEW_SECRET), (NEW_SECRET, SECRET), (NEW_SECRET,)), start=1):
            # Each node notices it at a time of its own, within two seconds.
            for node in cluster.nodes:
                secret_file_of(node).write_text("\n".join(lines))
            for node in cluster.nodes:
                until(partial(has_renewed, node, step), f"node {node.node_id} does not notice step {step}")
    assert load.failures == []
    assert load.consumed == Counter(b"%d" % number for number in range(load.acknowledged))
    assert [len(events(node, "peer refused")) for node in cluster.nodes] == refused
    for node in cluster.nodes:
        text = node.log_path.read_text()
        assert (SECRET in text, NEW_SECRET in text) == (False, False)
    other = secret_file(tmp_path)
    with intruder(cluster, tmp_path, 4, cluster_secret_file=str(other)) as stranger:
        # The nodes log a reason once a minute, and this one was logged in a test before.
        (waiting,) = wait_for_events(stranger, "registration waiting for controller")
        assert "its cluster secret differs" in waiting["reason"]
        assert events(stranger, "broker registered") == []
    cluster.node(2).kill()
    cluster.node(2).start()
    cluster.wait_ready()
    assert_unhurt(cluster, "renewed-and-restarted")


def secret_file_of(node: NodeProcess) -> Path:
    found = load(node.config_path).security.secret_file
    assert found is not None
    return found


def has_renewed(node: NodeProcess, times: int) -> bool:
    return len(events(node, "cluster secrets renewed")) == times


@pytest.mark.slow
def test_a_cluster_with_certificates_works_and_keeps_those_without_out(tmp_path: Path) -> None:
    stores = Authority(tmp_path / "own").certify("node")
    with Cluster(3, overrides=stores.settings) as running:
        assert_unhurt(running, "certified")
        with intruder(running, tmp_path / "intruder", 4) as stranger:
            (waiting,) = wait_for_events(stranger, "registration waiting for controller")
            assert "it closed the connection during the handshake; it may expect TLS" in waiting["reason"]
            assert_unhurt(running, "still-certified")
            assert events(stranger, "broker registered") == []


def test_a_voter_with_a_certificate_of_another_authority_is_named_by_both_sides(tmp_path: Path) -> None:
    """gRPC does not show on a listener whose handshake failed; but a voter also dials those that dial it."""
    own, other = Authority(tmp_path / "own"), Authority(tmp_path / "other")
    stores, others = own.certify("node"), other.certify("node")
    both = tmp_path / "both.pem"
    both.write_bytes(stores.truststore.read_bytes() + others.truststore.read_bytes())
    wrong = {"ssl.keystore.location": str(others.keystore), "ssl.truststore.location": str(both)}
    cluster = Cluster(3, tmp_path / "cluster", overrides=stores.settings, node_overrides={3: wrong})
    cluster.start()
    try:
        ours = wait_for_events(cluster.node(1), "raft handshake failed")
        theirs = wait_for_events(cluster.node(3), "raft handshake failed")
    finally:
        cluster.kill()
    addresses = [voter.partition("@")[2] for voter in voters_of(cluster).split(",")]
    (line,) = ours
    assert (line["level"], line["peer"], line["address"]) == ("warning", 3, addresses[2])
    assert "certificate is not trusted by ssl.truststore.location (unable to get local issuer" in line["reason"]
    assert {line["peer"]: line["address"] for line in theirs}.items() <= {1: addresses[0], 2: addresses[1]}.items()
    assert "it may not trust this node's certificate: compare ssl.truststore.location there" in theirs[0]["reason"]


def test_a_node_whose_certificate_nobody_would_accept_does_not_start(config: Path, tmp_path: Path) -> None:
    stores, others = Authority(tmp_path / "own").certify("node"), Authority(tmp_path / "other").certify("node")
    settings = {**stores.settings, "ssl.keystore.location": str(others.keystore)}
    config.write_text(config.read_text() + "".join(f"{key}={value}\n" for key, value in settings.items()))
    logged = the_one_line(run("server", "start", "-c", config))
    assert f"no node that trusts {stores.truststore} would accept it: unable to get local issuer" in logged


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    with ReservedPorts(2) as (grpc_port, controller_port):
        plan = NodePlan(node_id=1, grpc_port=grpc_port, controller_port=controller_port)
        cluster_files.write(tmp_path, [plan], "kJ2Yk0mVT0ma0wV2Yk0mVQ")
        yield cluster_files.config_file(tmp_path, 1)


def test_controllers_that_are_open_to_other_machines_do_not_start_without_a_secret_or_certificates(
    config: Path,
) -> None:
    without_secret(config)
    replace(config, f"CONTROLLER://{HOST}", "CONTROLLER://0.0.0.0")
    logged = the_one_line(run("server", "start", "-c", config))
    assert "is open to other machines, so anybody there could join the quorum: set cluster.secret.file" in logged


def test_a_secret_that_others_can_read_stops_the_node_before_it_starts(config: Path, tmp_path: Path) -> None:
    secret = secret_file(tmp_path)
    secret.chmod(0o644)
    config.write_text(f"{config.read_text()}cluster.secret.file={secret}\n")
    logged = the_one_line(run("server", "start", "-c", config))
    assert f"{secret} can be read by others (mode 0644): chmod 600 {secret}" in logged
    assert SECRET not in logged


@pytest.mark.slow
@pytest.mark.parametrize("is_introduced", [False, True])
def test_garbage_at_the_ports_is_not_executed_and_hurts_nobody(is_introduced: bool) -> None:
    outcome = garbage_runs.run(FRAMES, is_introduced=is_introduced, tell=lambda _: None)
    print(outcome)
    assert outcome.sent >= FRAMES
    assert not outcome.executed
    assert outcome.topics_unexpected == []
    assert outcome.brokers == 1
    assert outcome.resident_growth <= 2 * garbage_runs.REQUEST_BYTES_MAX
    assert outcome.tracebacks == []
    assert outcome.log_bytes < 100_000
    assert outcome.calls["INVALID_ARGUMENT"] > 0 if is_introduced else outcome.calls["UNAUTHENTICATED"] > 0
