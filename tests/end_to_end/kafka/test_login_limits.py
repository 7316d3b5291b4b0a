"""Strangers at a listener that asks for a login: what they send, how slowly, and how many they are. One real node."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka
import psutil
import pytest

from kraft.local.node_process import NodeProcess
from kraft.model.errors import ErrorCode
from tests.support.kafka.floods import flood
from tests.support.kafka.login_cluster import (
    PASSWORD,
    USER,
    LoginCluster,
    LoginConnection,
    login_cluster,
    of_librdkafka,
)

SESSION_MS = 2_000
DEADLINE_S = 60.0
REFUSED_FRAME_BYTES = 513 * 1024
FLOOD_S = 5.0
CALM_S = 1.0
"""Nothing is asserted of the time before the flood."""
FLOOD_ADDRESS = "127.0.0.66"
MIB = 1 << 20
MEMORY_MIB_MAX = 64


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginCluster]:
    settings = {"connections_max_reauth_ms": str(SESSION_MS)}
    with login_cluster(tmp_path_factory.mktemp("cluster"), 1, **settings) as cluster:
        yield cluster


@pytest.fixture(name="quiet", scope="module")
def _quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginCluster]:
    """One whose log is not full of the others' refusals: it has twenty lines a minute for all together."""
    with login_cluster(tmp_path_factory.mktemp("quiet"), 1) as cluster:
        yield cluster


@pytest.fixture(name="server", scope="module")
def _server(cluster: LoginCluster) -> str:
    return cluster.kafka_bootstrap_servers


def is_served(server: str) -> bool:
    with LoginConnection(server) as connection:
        return connection.log_in("SCRAM-SHA-256").error_code == ErrorCode.NONE


# --- sessions ----------------------------------------------------------------------------------------------------


def test_a_session_that_is_over_ends_with_the_next_request(server: str) -> None:
    with LoginConnection(server) as connection:
        assert connection.log_in().session_lifetime_ms == SESSION_MS
        assert connection.is_served()
        time.sleep(SESSION_MS / 1_000 + 0.1)
        assert not connection.is_served()


def test_a_client_that_logs_in_again_goes_on(server: str) -> None:
    with LoginConnection(server) as connection:
        connection.log_in()
        for _ in range(3):
            time.sleep(SESSION_MS / 1_000 * 0.75)
            assert connection.log_in().error_code == ErrorCode.NONE
            assert connection.is_served()


def test_a_client_cannot_log_in_again_as_another_user(cluster: LoginCluster, server: str) -> None:
    cluster.set_password("bob", "bob's")
    with LoginConnection(server) as connection:
        connection.log_in()
        answer = connection.log_in("PLAIN", "bob", "bob's")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == f"Cannot change principals during re-authentication from User.{USER}: User.bob"
        assert connection.frame() is None


def test_confluents_client_logs_in_again_while_it_produces(server: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": server, **of_librdkafka("SCRAM-SHA-512")})
    errors: list[object] = []
    until_s = time.monotonic() + 3 * SESSION_MS / 1_000
    while time.monotonic() < until_s:
        producer.produce("renewed", b"value", on_delivery=lambda error, _: errors.append(error))
        producer.poll(0.05)
    assert producer.flush(DEADLINE_S) == 0
    assert set(errors) == {None}


# --- what strangers send -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        REFUSED_FRAME_BYTES.to_bytes(4, "big") + bytes(100),
        b"\xff\xff\xff\xff" + bytes(100),
        bytes(4),
        b"\x00\x00\x00\x0a\x00\x12\x00\x03\xff\xff\xff\xff\x7f\xff",
    ],
)
def test_what_is_no_login_ends_the_connection(server: str, sent: bytes) -> None:
    with connected_to(server) as connection:
        connection.sendall(sent)
        assert is_closed(connection)
    assert is_served(server)


def connected_to(server: str, address: str = "127.0.0.1") -> socket.socket:
    host, _, port = server.partition(":")
    return socket.create_connection((host, int(port)), DEADLINE_S, (address, 0))


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_a_thousand_garbled_logins_disturb_nobody(server: str) -> None:
    chance = random.Random(7)
    for number in range(1_000):
        # From addresses that fail fifty times each: after ninety an address has to wait.
        with connected_to(server, f"127.0.1.{number // 50 + 1}") as connection:
            frame = bytes([0, chance.choice([17, 18, 36, 0, 3, 75]), 0, chance.randrange(3)]) + chance.randbytes(40)
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
        if number % 250 == 0:
            assert is_served(server)
    assert is_served(server)


@pytest.mark.slow
def test_a_stranger_that_says_nothing_has_ten_seconds(server: str) -> None:
    began_s = time.monotonic()
    with connected_to(server) as silent, LoginConnection(server) as slow:
        slow.shake_hands("SCRAM-SHA-256")
        assert is_closed(silent)
        assert slow.frame() is None
    assert 9 < time.monotonic() - began_s < 40


def test_nothing_secret_is_in_the_log(quiet: LoginCluster) -> None:
    server = quiet.kafka_bootstrap_servers
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        with LoginConnection(server) as connection:
            assert connection.log_in(mechanism, USER, "a guessed password").error_code != ErrorCode.NONE
        with LoginConnection(server) as connection:
            assert connection.log_in(mechanism).error_code == ErrorCode.NONE
    log = quiet.local.nodes[1].log_path.read_text()
    assert "'alice' does not exist, or has another password" in log
    assert "guessed" not in log
    assert PASSWORD not in log


# --- how many they are -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["connect", "guess"])
def test_an_address_that_floods_the_listener_keeps_nobody_else_out(quiet: LoginCluster, kind: str) -> None:
    """`-s` prints the figures. Those of a busy machine are no measure, so the limits here are wide."""
    node, server = quiet.local.nodes[1], quiet.kafka_bootstrap_servers
    before_mib = node.resident_bytes() / MIB
    calm = p99_ms(node, server, CALM_S)
    with flood(kind, server, FLOOD_ADDRESS, FLOOD_S + 1) as attempts:
        flooded = p99_ms(node, server, FLOOD_S)
        grown_mib = node.resident_bytes() / MIB - before_mib
    offered = attempts[0] / (FLOOD_S + 1)
    print(f"\n{kind}: {offered:.0f} a second were offered; the node took {grown_mib:.0f} MiB")
    for what, figures in (("calm", calm), ("flooded", flooded)):
        print(f"{what}: {figures[2]:.0%} of a core; p99 of requests {figures[0]:.1f} ms, of logins {figures[1]:.1f} ms")
    assert max(flooded[:2]) < 10_000
    assert grown_mib < MEMORY_MIB_MAX
    assert FLOOD_ADDRESS in node.log_path.read_text()


def p99_ms(node: NodeProcess, server: str, seconds: float) -> tuple[float, float, float]:
    """Return the time of nearly all requests of a client that is logged in, and of logins; and the node's CPU share."""
    began_s = cpu_s(node.pid)
    requests: list[float] = []
    logins: list[float] = []
    with LoginConnection(server) as connection:
        connection.log_in()
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            requests.append(took_ms(connection.is_served))
            logins.append(took_ms(lambda: is_served(server)))
            time.sleep(0.002)
    at = len(requests) * 99 // 100
    return sorted(requests)[at], sorted(logins)[at], (cpu_s(node.pid) - began_s) / seconds


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def took_ms(ask: Callable[[], bool]) -> float:
    began_s = time.perf_counter()
    assert ask()
    return (time.perf_counter() - began_s) * 1_000


@pytest.mark.slow
def test_an_address_has_the_connections_that_the_settings_allow(tmp_path: Path) -> None:
    settings = {"max_connections_per_ip": "3", "max_connections_per_ip_overrides": "127.0.0.2:5"}
    with login_cluster(tmp_path, 1, **settings) as cluster:
        for address, count in (("127.0.0.1", 3), ("127.0.0.2", 5)):
            assert connected(cluster.kafka_bootstrap_servers, address, 8) == count


def connected(server: str, address: str, count: int) -> int:
    """Open so many connections from the address; return how many the other side keeps."""
    host, _, port = server.partition(":")
    with ExitStack() as opened:
        connections = [
            opened.enter_context(socket.create_connection((host, int(port)), DEADLINE_S, (address, 0)))
            for _ in range(count)
        ]
        time.sleep(1)
        for connection in connections:
            connection.setblocking(False)
        return sum(is_kept(connection) for connection in connections)


def is_kept(connection: socket.socket) -> bool:
    try:
        connection.recv(1)
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    return False
