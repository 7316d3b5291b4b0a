"""Clients that log in at the GRPC listeners of real nodes, inside TLS."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraft.client import (
    Admin,
    AuthenticationFailed,
    Consumer,
    ErrorCode,
    KraftError,
    NoBrokerReachable,
    Producer,
    Refusal,
    TopicPartition,
)
from kraft.client.bulk import closed_listeners, fetch_socket
from kraft.local.free_ports import ReservedPorts
from kraft.local.node_process import NodeProcess
from kraft.testing import Cluster
from tests.support.certificates import Authority
from tests.support.closed_clusters import PASSWORD, ClosedCluster, add_user, closed_cluster, login_settings
from tests.support.command_line import run
from tests.support.waiting import until

TOPIC = "orders"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClosedCluster]:
    with closed_cluster(tmp_path_factory.mktemp("closed")) as running:
        with Admin(running.bootstrap_servers, **running.settings()) as admin:
            admin.create_topic(TOPIC, 3, 3, {"min.insync.replicas": "3"})
        yield running


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_clients_produce_consume_in_a_group_and_administer(closed: ClosedCluster, mechanism: str) -> None:
    settings = closed.settings(mechanism=mechanism)
    topic = f"topic-{mechanism}"
    with Admin(closed.bootstrap_servers, **settings) as admin:
        admin.create_topic(topic, 3, 3, {"min.insync.replicas": "3"})
        assert sorted(broker.node_id for broker in admin.describe_cluster().brokers) == [1, 2, 3]
        # Each broker asks the others.
        assert sorted(admin.describe_log_directories()) == [1, 2, 3]
    values = {b"%d" % number for number in range(300)}
    with Producer(closed.bootstrap_servers, **settings) as producer:
        for sent in [producer.send(topic, value) for value in values]:
            sent.result(30)
    assert _read_in_group(closed, topic, settings, len(values)) == values


def _read_in_group(closed: ClosedCluster, topic: str, settings: dict[str, Any], count: int) -> set[bytes]:
    read: set[bytes] = set()
    group: dict[str, Any] = {"group_id": f"group-of-{topic}", "auto_offset_reset": "earliest"}
    with Consumer(closed.bootstrap_servers, **settings, **group) as consumer:
        consumer.subscribe(topic)
        deadline_s = time.monotonic() + 60
        while len(read) < count and time.monotonic() < deadline_s:
            read |= {record.value or b"" for record in consumer.poll(500)}
    return read


def test_transactions_are_committed_by_brokers_that_call_each_other(closed: ClosedCluster) -> None:
    settings = closed.settings()
    with Producer(closed.bootstrap_servers, transactional_id="closed", **settings) as producer:
        for number, commits in enumerate((True, False, True)):
            producer.begin_transaction()
            for partition in range(3):
                producer.send(TOPIC, b"transaction %d" % number, partition=partition)
            if commits:
                producer.commit_transaction()
            else:
                producer.flush()
                producer.abort_transaction()
    with Consumer(closed.bootstrap_servers, isolation_level="read_committed", **settings) as consumer:
        places = [TopicPartition(TOPIC, number) for number in range(3)]
        ends = consumer.end_offsets(places)
        found = [
            value
            for place in places
            for part in consumer.read_columns(place, 0, ends[place], timeout_ms=20_000)
            for value in part.columns.values
        ]
    assert {value for value in found if value and value.startswith(b"transaction")} == {
        b"transaction 0",
        b"transaction 2",
    }


def test_a_client_without_credentials_is_told_what_to_set(closed: ClosedCluster) -> None:
    tls_only: dict[str, Any] = {"security_protocol": "SSL", "ssl_ca_location": str(closed.stores.truststore)}
    began_s = time.monotonic()
    with Admin(closed.bootstrap_servers, **tls_only) as admin, pytest.raises(Refusal) as refused:
        admin.list_topics()
    assert time.monotonic() - began_s < 20
    assert refused.value.error_code == ErrorCode.ILLEGAL_SASL_STATE
    for word in ("requires a login", "SASL_SSL", "sasl.mechanism", "SCRAM-SHA-512", "sasl.jaas.config"):
        assert word in str(refused.value)
    began_s = time.monotonic()
    with (
        Admin(closed.bootstrap_servers) as admin,
        pytest.raises(AuthenticationFailed, match="it has TLS: set security"),
    ):
        admin.list_topics()
    assert time.monotonic() - began_s < 20


@pytest.mark.parametrize("login", [{"password": "wrong"}, {"user": "nobody"}])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_wrong_credentials_are_one_error_that_does_not_tell_which_users_exist(
    closed: ClosedCluster, login: dict[str, str], mechanism: str
) -> None:
    settings = closed.settings(mechanism=mechanism, **login)
    with Admin(closed.bootstrap_servers, **settings) as admin, pytest.raises(Refusal) as refused:
        admin.list_topics()
    assert refused.value.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    reason = {
        "PLAIN": "Authentication failed: Invalid username or password",
        "SCRAM-SHA-256": "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        "SCRAM-SHA-256",
    }[mechanism]
    assert str(refused.value).replace("nobody", "alice") == (
        f"SASL_AUTHENTICATION_FAILED: {closed.bootstrap_servers.split(',')[0]} refused user 'alice': {reason}: check "
        "user and password in sasl.jaas.config, or sasl.username and sasl.password; an administrator whose login works "
        "sets another one with kraft users set-password alice; if none does, SECURITY.md says what to do"
    )
    with (
        Producer(closed.bootstrap_servers, max_block_ms=5_000, **settings) as producer,
        pytest.raises(KraftError, match="SASL_AUTHENTICATION_FAILED"),
    ):
        producer.send(TOPIC, b"x").result(30)
    for node in closed.cluster.nodes:
        assert PASSWORD not in node.log_path.read_text()


def test_every_command_takes_a_file_with_credentials(closed: ClosedCluster, tmp_path: Path) -> None:
    config = closed.command_config(tmp_path / "client.properties")
    how = ("--bootstrap-server", closed.bootstrap_servers, "--command-config", config)
    commands: list[tuple[str, ...]] = [
        ("topics", "create", "by-command", "--partitions", "1"),
        ("topics", "list"),
        ("topics", "describe", "by-command"),
        ("configs", "describe", "--topic", "by-command"),
        ("groups", "list"),
        ("users", "list"),
        ("brokers", "list"),
        ("quorum", "describe"),
        ("features", "describe"),
        ("transactions", "list"),
        ("cluster", "health"),
    ]
    for command in commands:
        done = run(*command, *how)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    done = run("produce", "by-command", *how, stdin=b"hello\n")
    assert done.returncode == 0, done.stderr
    done = run("consume", "by-command", "--from-beginning", "--max-messages", "1", *how)
    assert done.stdout == "hello\n", done.stderr
    done = run(
        "consume", "by-command", "--from-beginning", "--max-messages", "1", *how[:2], "--consumer-config", config
    )
    assert done.stdout == "hello\n", done.stderr


def test_a_command_without_credentials_says_in_a_line_what_is_missing_and_where_it_goes(
    closed: ClosedCluster, tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"security.protocol=SSL\nssl.ca.location={closed.stores.truststore}\n")
    how = ("--bootstrap-server", closed.bootstrap_servers, "--command-config", config)
    done = run("topics", "list", *how)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "requires a login" in line
    assert "sasl.jaas.config" in line
    done = run("topics", "list", *how[:2])
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert "it has TLS: set security.protocol to SSL" in first
    assert "--command-config FILE" in second
    config.write_text("security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\nsasl.username=alice\n")
    done = run("topics", "list", *how)
    assert done.returncode == 2
    assert "needs a user and a password" in done.stderr


def test_a_user_that_is_deleted_ends_its_clients(closed: ClosedCluster) -> None:
    closed.add_user("bob")
    bob, alice = closed.settings(user="bob"), closed.settings()
    # Each broker knows a new user a moment later.
    until(lambda: _may_log_in(closed, bob), "bob cannot log in")
    with Producer(closed.bootstrap_servers, **bob) as producer:
        producer.send(TOPIC, b"of bob").result(30)
        closed.delete_user("bob")
        # Long before delivery.timeout.ms, which is two minutes.
        until(lambda: _is_refused(producer), "bob still writes")
    with pytest.raises(Refusal, match="SASL_AUTHENTICATION_FAILED"), Admin(closed.bootstrap_servers, **bob) as admin:
        admin.list_topics()
    with Producer(closed.bootstrap_servers, **alice) as producer:
        producer.send(TOPIC, b"of alice").result(30)


def _may_log_in(closed: ClosedCluster, settings: dict[str, Any]) -> bool:
    try:
        for address in closed.bootstrap_servers.split(","):
            with Admin(address, **settings) as admin:
                admin.list_topics()
    except Refusal:
        return False
    return True


def _is_refused(producer: Producer) -> bool:
    try:
        producer.send(TOPIC, b"of bob").result(30)
    except AuthenticationFailed:
        return True
    return False


class _Load:
    """A producer and a consumer that run until they are stopped, and note every failure."""

    def __init__(self, closed: ClosedCluster, topic: str) -> None:
        self._closed, self._topic = closed, topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.failures: list[str] = []
        self.sent: set[bytes] = set()

    def __enter__(self) -> _Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        settings: dict[str, Any] = self._closed.settings()
        with (
            Producer(self._closed.bootstrap_servers, **settings) as producer,
            Admin(self._closed.bootstrap_servers, **settings) as admin,
        ):
            number = 0
            while not self._stopping.is_set():
                sent = [producer.send(self._topic, b"%d" % (number + each)) for each in range(20)]
                try:
                    for each, future in enumerate(sent):
                        future.result(60)
                        self.sent.add(b"%d" % (number + each))
                    admin.describe_topics([self._topic])
                except KraftError as error:
                    self.failures.append(f"{type(error).__name__}: {error}")
                number += len(sent)
                time.sleep(0.02)


@pytest.mark.slow
def test_sessions_that_expire_under_load_cost_no_request(tmp_path: Path) -> None:
    with closed_cluster(tmp_path, overrides={"connections.max.reauth.ms": "1500"}) as closed:
        settings = closed.settings()
        with Admin(closed.bootstrap_servers, **settings) as admin:
            admin.create_topic(TOPIC, 3, 3, {"min.insync.replicas": "2"})
        with _Load(closed, TOPIC) as load:
            # The time of three sessions.
            time.sleep(5)
        assert load.failures == []
        assert _read_in_group(closed, TOPIC, settings, len(load.sent)) == load.sent


@pytest.mark.slow
def test_nodes_that_restart_under_load_cost_no_request(closed: ClosedCluster) -> None:
    settings = closed.settings()
    with Admin(closed.bootstrap_servers, **settings) as admin:
        admin.create_topic("restarts", 3, 3, {"min.insync.replicas": "2"})
    with _Load(closed, "restarts") as load:
        for node in closed.cluster.nodes[:2]:
            time.sleep(1)
            _restart(closed, node)
        time.sleep(1)
    assert load.failures == []
    assert _read_in_group(closed, "restarts", settings, len(load.sent)) == load.sent


def _restart(closed: ClosedCluster, node: NodeProcess) -> None:
    node.terminate()
    node.start()
    closed.cluster.wait_ready()


def test_certificates_are_renewed_without_a_restart_and_clients_with_another_ca_are_refused(tmp_path: Path) -> None:
    with closed_cluster(tmp_path / "first", nodes=1, certificate_days=1) as closed:
        settings = closed.settings()
        config = closed.command_config(tmp_path / "client.properties")
        ran = run("health", "--bootstrap-server", closed.bootstrap_servers, "--command-config", config)
        assert ran.returncode == 3, ran.stdout
        assert ran.stdout.startswith(
            "degraded: the certificate of the GRPC listener of broker 1 expires within a day: "
        )
        with Admin(closed.bootstrap_servers, **settings) as admin:
            admin.list_topics()
            other = Authority(tmp_path / "second", "other").certify("node")
            before = _certificate(closed)
            closed.stores.keystore.write_bytes(other.keystore.read_bytes())
            until(lambda: _certificate(closed) != before, "the certificate is not renewed")
            # An open connection goes on.
            admin.list_topics()
        # Both are good for a day.
        reminders = closed.cluster.node(1).log_path.read_text().count('"certificate about to expire"')
        assert reminders >= 1
        with (
            Admin(closed.bootstrap_servers, **settings) as admin,
            pytest.raises(AuthenticationFailed, match="its certificate is not trusted"),
        ):
            admin.list_topics()
        renewed = {**settings, "ssl.truststore.location": str(other.truststore)}
        with Admin(closed.bootstrap_servers, **renewed) as admin:
            admin.list_topics()


def _certificate(closed: ClosedCluster) -> bytes:
    host, port = closed.bootstrap_servers.split(",")[0].split(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with socket.create_connection((host, int(port)), 10) as connected, context.wrap_socket(connected) as secure:
        return secure.getpeercert(binary_form=True) or b""


def test_a_certificate_of_a_client_is_its_login(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "clients", "clients")
    trusted = tmp_path / "trusted.pem"
    overrides = {
        "listener.security.protocol.map": "GRPC:SSL",
        "listener.name.grpc.ssl.client.auth": "required",
        "listener.name.grpc.ssl.truststore.location": str(trusted),
    }
    nodes = Authority(tmp_path, "authority").certify("node")
    trusted.write_bytes(authority.certificate.read_bytes() + nodes.truststore.read_bytes())
    settings = {
        **overrides,
        "ssl.keystore.location": str(nodes.keystore),
        "ssl.truststore.location": str(trusted),
    }
    with Cluster(2, overrides=settings) as cluster:
        alice = authority.certify("alice")
        tls: dict[str, Any] = {"security_protocol": "SSL", "ssl_ca_location": str(nodes.truststore)}
        with Admin(cluster.bootstrap_servers, ssl_keystore_location=str(alice.keystore), **tls) as admin:
            admin.create_topic(TOPIC, 1, 2)
        stranger = Authority(tmp_path / "strangers", "strangers").certify("mallory")
        with (
            Admin(cluster.bootstrap_servers, **tls) as admin,
            pytest.raises(AuthenticationFailed, match="it requires a certificate of its clients"),
        ):
            admin.list_topics()
        tls |= {"ssl_keystore_location": str(stranger.keystore)}
        with (
            Admin(cluster.bootstrap_servers, default_api_timeout_ms=2_000, **tls) as admin,
            pytest.raises(NoBrokerReachable, match=r"may not accept the certificate of ssl\.keystore\.location"),
        ):
            admin.list_topics()


def test_a_stranger_who_tries_again_and_again_does_not_fill_the_log(closed: ClosedCluster) -> None:
    settings = closed.settings(user="carol", password="also wrong")
    for _ in range(10):
        with Admin(closed.bootstrap_servers, **settings) as admin, pytest.raises(Refusal):
            admin.list_topics()
    for node in closed.cluster.nodes:
        lines = [json.loads(line) for line in node.log_path.read_text().splitlines() if line.startswith("{")]
        refused = [line for line in lines if line["event"] == "peer refused" and "'carol'" in line["reason"]]
        # Each minute begins anew.
        assert len(refused) <= 2
        assert "also wrong" not in str(lines)


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Logins at listeners of Kafka's protocol."""
    log_in, found = closed_listeners.log_in, list[object]()

    def counted(*given: Any) -> float | None:
        found.append(given[0])
        return log_in(*given)

    monkeypatch.setattr(fetch_socket, "log_in", counted)
    return found


def _read_in_bulk(bootstrap_servers: str, settings: dict[str, Any], caplog: pytest.LogCaptureFixture) -> int:
    """Write records, and return how many are read by one bulk read, that needs nothing of gRPC."""
    with Admin(bootstrap_servers, **settings) as admin:
        admin.create_topic("bulk", 1, 1)
    with Producer(bootstrap_servers, **settings) as producer:
        for sent in [producer.send("bulk", b"x" * 1_000) for _ in range(5_000)]:
            sent.result(30)
    with caplog.at_level("DEBUG", "kraft.client"), Consumer(bootstrap_servers, **settings) as consumer:
        count = sum(chunk.columns.record_count for chunk in consumer.read_arrow(TopicPartition("bulk", 0), 0, 5_000))
    assert "direct fetch" not in caplog.text
    return count


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_bulk_reads_log_in_at_the_listener_of_kafkas_protocol(
    mechanism: str, logins: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    overrides = {
        "listener.security.protocol.map": "GRPC:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": mechanism,
    }
    with Cluster(1, overrides=overrides) as cluster:
        add_user(cluster, "alice")
        settings = login_settings("SASL_PLAINTEXT", mechanism=mechanism)
        assert _read_in_bulk(cluster.bootstrap_servers, settings, caplog) == 5_000
    assert len(logins) == 1


def test_bulk_reads_are_inside_tls(
    closed: ClosedCluster, logins: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    assert _read_in_bulk(closed.bootstrap_servers, closed.settings(), caplog) == 5_000
    assert len(logins) == 1


@pytest.mark.slow
def test_a_node_in_the_background_is_waited_for_where_clients_have_to_log_in(tmp_path: Path) -> None:
    stores = Authority(tmp_path).certify("node", "DNS:localhost")
    with ReservedPorts(2) as (grpc_port, controller_port):
        file = tmp_path / "server.properties"
        file.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@localhost:{controller_port}\nlog.dirs={tmp_path}/data/node-1\n"
            f"listeners=GRPC://localhost:{grpc_port},CONTROLLER://localhost:{controller_port}\n"
            "listener.security.protocol.map=GRPC:SASL_SSL\nsasl.enabled.mechanisms=SCRAM-SHA-512\n"
            f"ssl.keystore.location={stores.keystore}\n"
        )
        done = run("server", "start", "-c", file, "--daemon")
        try:
            assert done.returncode == 0, done.stderr
            assert "is in service" in done.stdout or "started" in done.stdout
        finally:
            stopped = run("server", "stop", "-c", file)
        assert stopped.returncode == 0, stopped.stderr
