"""Kafka's clients over TLS at three real nodes, which fetch replicas from each other over TLS, too."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient

from kraft.client import Admin
from kraft.local.cluster_files import HOST
from tests.support.certificates import Authority, Stores
from tests.support.kafka.kafka_programs import console_consumer, console_producer, kcat
from tests.support.kafka.logged_in_clients import assert_our_clients_work
from tests.support.kafka.tls_cluster import (
    LOGIN,
    MUTUAL,
    TLS,
    TlsCluster,
    of_java,
    of_librdkafka,
    of_python,
    tls_cluster,
)
from tests.support.waiting import until, until_every_broker_knows

DEADLINE_S = 60
VALUES = [b"one", b"two", b"three"]

each_listener = pytest.mark.parametrize("listener", [TLS, MUTUAL, LOGIN])


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    with tls_cluster(tmp_path_factory.mktemp("cluster"), 3) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: TlsCluster, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name[:200].replace("[", "-").replace("]", "")
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(name, 1, 3, configs={"min.insync.replicas": "3"})
    until_every_broker_knows(cluster.bootstrap_servers, name)
    return name


def _shown(cluster: TlsCluster, listener: str) -> Stores | None:
    return cluster.client if listener == MUTUAL else None


def _produce(settings: dict[str, Any], topic: str, values: list[bytes]) -> None:
    producer = confluent_kafka.Producer({**settings, "acks": "all"})
    errors: list[Any] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert errors == [None] * len(values)


def _consume(settings: dict[str, Any], topic: str, count: int) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    messages: list[confluent_kafka.Message] = []
    until_s = time.monotonic() + DEADLINE_S
    while len(messages) < count and time.monotonic() < until_s:
        messages += consumer.consume(count, 1.0)
    consumer.close()
    return [message.value() for message in messages]


# --- clients -----------------------------------------------------------------------------------------------------


@each_listener
def test_confluents_client(cluster: TlsCluster, topic: str, listener: str) -> None:
    settings = of_librdkafka(cluster, listener, _shown(cluster, listener))
    _produce(settings, topic, VALUES)
    assert _consume(settings, topic, len(VALUES)) == VALUES
    assert topic in AdminClient(settings).list_topics(timeout=DEADLINE_S).topics


@each_listener
def test_our_clients(cluster: TlsCluster, topic: str, listener: str) -> None:
    assert_our_clients_work(of_librdkafka(cluster, listener, _shown(cluster, listener)), topic)


@each_listener
def test_kafka_python(cluster: TlsCluster, topic: str, listener: str) -> None:
    settings = of_python(cluster, listener, _shown(cluster, listener))
    producer = kafka.KafkaProducer(**settings, acks="all")
    for value in VALUES:
        producer.send(topic, value).get(DEADLINE_S)
    producer.close(timeout=DEADLINE_S)
    consumer = kafka.KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
    assert [next(consumer).value for _ in VALUES] == VALUES
    consumer.close()


@each_listener
def test_kcat(cluster: TlsCluster, topic: str, listener: str) -> None:
    settings = of_librdkafka(cluster, listener, _shown(cluster, listener))
    if listener == LOGIN:
        # Not SCRAM: Debian's librdkafka is older than 2.6.1, and sends a nonce that Kafka 4 refuses as well.
        settings["sasl.mechanism"] = "PLAIN"
    servers = settings.pop("bootstrap.servers")
    options = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
    kcat(servers, *options, "-P", "-t", topic, given=b"\n".join(VALUES))
    assert kcat(servers, *options, "-C", "-t", topic, "-e", "-q").split() == VALUES


@pytest.mark.slow
@each_listener
def test_javas_consoles(cluster: TlsCluster, topic: str, listener: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    settings = of_java(cluster, listener, _shown(cluster, listener))
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    servers = cluster.servers(listener)
    console_producer(servers, topic, b"\n".join(VALUES), "--command-config", str(file))
    consumed = console_consumer(servers, topic, 0, len(VALUES), "--command-config", str(file))
    assert consumed.split() == VALUES


@pytest.mark.slow
def test_large_messages_go_both_ways(cluster: TlsCluster, topic: str) -> None:
    settings = of_librdkafka(cluster, TLS)
    values = [bytes((number,)) * 900_000 for number in range(40)]
    _produce(settings, topic, values)
    assert _consume({**settings, "fetch.message.max.bytes": 1 << 20}, topic, len(values)) == values


def test_nodes_fetch_replicas_over_tls(cluster: TlsCluster, topic: str) -> None:
    _produce(of_librdkafka(cluster, TLS), topic, VALUES)
    for node in cluster.local.nodes.values():
        log = node.log_path.read_text()
        assert "replica connection opened" in log
        assert "replica fetches sent over gRPC" not in log


# --- who is refused ----------------------------------------------------------------------------------------------


def _errors(settings: dict[str, Any], count: int = 1) -> list[str]:
    """Return what the client says while it cannot connect."""
    errors: list[str] = []
    producer = confluent_kafka.Producer({**settings, "error_cb": lambda error: errors.append(str(error))})
    until(lambda: producer.poll(0.1) == 0 and len(errors) >= count, lambda: f"errors, not {errors}", DEADLINE_S)
    with pytest.raises(confluent_kafka.KafkaException):
        producer.list_topics(timeout=0.5)
    return errors


def _logged(cluster: TlsCluster, text: str) -> None:
    nodes = cluster.local.nodes.values()
    until(lambda: any(text in node.log_path.read_text() for node in nodes), f"a line with {text!r}", DEADLINE_S)


def test_a_client_without_certificate_is_refused_where_one_is_required(cluster: TlsCluster) -> None:
    _errors(of_librdkafka(cluster, MUTUAL))
    _logged(cluster, "it showed no certificate, which ssl.client.auth=required asks for")


def test_a_client_with_a_foreign_certificate_is_refused(cluster: TlsCluster, tmp_path: Path) -> None:
    foreign = Authority(tmp_path, "foreign").certify("mallory")
    _errors(of_librdkafka(cluster, MUTUAL, foreign))
    _logged(cluster, "its certificate is not accepted: unable to get local issuer certificate")


def test_a_client_with_an_expired_certificate_is_refused(cluster: TlsCluster) -> None:
    _errors(of_librdkafka(cluster, MUTUAL, cluster.authority.certify("late", days=-1)))
    _logged(cluster, "its certificate is not accepted: certificate has expired")


def test_a_client_that_does_not_trust_the_node_does_not_connect(cluster: TlsCluster, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other").certificate
    assert "certificate verify failed" in _errors({**of_librdkafka(cluster, TLS), "ssl.ca.location": str(other)})[0]
    _logged(cluster, "it does not trust the certificate of this listener")


def test_a_client_without_tls_is_told_apart(cluster: TlsCluster) -> None:
    _errors({"bootstrap.servers": cluster.servers(TLS), "security.protocol": "PLAINTEXT"})
    _logged(cluster, "the client does not use TLS: set security.protocol=SSL")


@pytest.mark.parametrize(
    ("option", "is_served"), [("-tls1", False), ("-tls1_1", False), ("-tls1_2", True), ("-tls1_3", True)]
)
def test_nothing_older_than_tls_1_2_is_spoken(cluster: TlsCluster, option: str, is_served: bool) -> None:
    command = ["openssl", "s_client", option, "-cipher", "ALL:@SECLEVEL=0", "-connect", f"{HOST}:{cluster.port(TLS)}"]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=DEADLINE_S, check=False)
    assert (b"BEGIN CERTIFICATE" in done.stdout) is is_served
    assert (done.returncode == 0) is is_served


def test_a_client_cannot_renegotiate(cluster: TlsCluster) -> None:
    command = ["openssl", "s_client", "-tls1_2", "-connect", f"{HOST}:{cluster.port(TLS)}"]
    done = subprocess.run(command, input=b"R\n", capture_output=True, timeout=DEADLINE_S, check=False)
    assert b"no renegotiation" in done.stderr


# --- strangers ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_garbage_and_half_handshakes_leave_others_served(cluster: TlsCluster, topic: str) -> None:
    hello = _client_hello()
    opened = []
    for number in range(100):
        stranger = socket.create_connection((HOST, cluster.port(TLS)), timeout=DEADLINE_S)
        opened.append(stranger)
        match number % 5:
            case 0:
                stranger.sendall(b"\x16\x03\x01\xff\xff" + bytes(100))
            case 1:
                stranger.sendall(hello[: len(hello) // 2])
            case 2:
                stranger.sendall(hello)
            case 3:
                stranger.sendall(hello + b"\x17\x03\x03\x00\x10" + bytes(16))
            case _:
                stranger.sendall(hello[:3])
                stranger.close()
    _produce(of_librdkafka(cluster, TLS), topic, VALUES)
    # Whoever broke the protocol is gone already, and the others within the time for a handshake.
    for stranger in opened:
        if stranger.fileno() >= 0:
            _read_to_the_end(stranger)
    assert _consume(of_librdkafka(cluster, TLS), topic, len(VALUES)) == VALUES
    for node in cluster.local.nodes.values():
        assert "Traceback" not in node.log_path.read_text()


def _client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    begun = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        begun.do_handshake()
    return outgoing.read()


def _read_to_the_end(stranger: socket.socket) -> None:
    try:
        while stranger.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    finally:
        stranger.close()


# --- renewal -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_certificates_are_renewed_under_load_without_a_failed_request(cluster: TlsCluster, topic: str) -> None:
    failures: list[object] = []
    is_over = threading.Event()

    def note(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    def connect_and_produce() -> None:
        while not is_over.is_set():
            try:
                _produce(of_librdkafka(cluster, TLS), topic, VALUES)
            except AssertionError as error:
                failures.append(error)

    def produce_all_the_time() -> None:
        settings = of_librdkafka(cluster, LOGIN)
        producer = confluent_kafka.Producer({**settings, "acks": "all", "error_cb": failures.append})
        while not is_over.is_set():
            producer.produce(topic, b"value", on_delivery=note)
            producer.poll(0.01)
        assert producer.flush(DEADLINE_S) == 0

    threads = [threading.Thread(target=each) for each in (connect_and_produce, produce_all_the_time)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            _renew_all(cluster)
    finally:
        is_over.set()
        for thread in threads:
            thread.join(DEADLINE_S)
    assert not failures


def _renew_all(cluster: TlsCluster) -> None:
    """Renew the certificate of each node, and wait until it shows it."""
    before = [cluster.shown(number) for number in range(3)]
    for number in range(3):
        cluster.renew(number)
    until(
        lambda: all(cluster.shown(number) != old for number, old in enumerate(before)), "new certificates", DEADLINE_S
    )
