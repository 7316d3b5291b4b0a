from __future__ import annotations

from pathlib import Path

import pytest

from kraft.server.config.checks import security_warnings
from tests.unit.server.config.files import COMBINED, Load, Refuse

CONFLICTS = [
    ("listeners=CONTROLLER://localhost:9093", "a broker needs a listener GRPC: add GRPC://localhost:9094"),
    ("listeners=GRPC://localhost:9094", "a controller needs a listener CONTROLLER"),
    ("process.roles=controller", "GRPC is served by a broker only"),
    ("process.roles=broker", "CONTROLLER is served by a controller only"),
    (
        "process.roles=controller\nlisteners=CONTROLLER://localhost:9093,PLAINTEXT://localhost:9092",
        "PLAINTEXT is served by a broker only",
    ),
    (
        "process.roles=broker\nlisteners=GRPC://localhost:9094",
        "names this node, 1@localhost:9093, which is not a controller",
    ),
    (
        "listeners=GRPC://localhost:9093,CONTROLLER://localhost:9093",
        "GRPC and CONTROLLER have the same port 9093: change one",
    ),
    ("controller.quorum.voters=2@localhost:9093", "does not name this node: a controller votes, so add 1@host:9093"),
    ("controller.quorum.voters=1@localhost:9999", "names 1@localhost:9999 for this node, whose listener is CONTROLLER"),
    ("advertised.listeners=GRPC://0.0.0.0:9094", "GRPC://0.0.0.0:9094 means every interface, and clients need"),
    ("advertised.listeners=PLAINTEXT://localhost:9092", "advertises PLAINTEXT, which is not in listeners"),
    (
        "listeners=GRPC://:9094,CONTROLLER://:9093",
        "GRPC://:9094 means every interface, and clients need one address: advertise",
    ),
    ("min.insync.replicas=2", "min.insync.replicas=2: above default.replication.factor=1, so new topics"),
    (
        "group.max.session.timeout.ms=5000",
        "group.min.session.timeout.ms=6000 (the default): above group.max.session.timeout.ms=5000: lower it",
    ),
    (
        "group.consumer.session.timeout.ms=10000",
        "not between group.consumer.min.session.timeout.ms=45000 and group.consumer.max.session.timeout.ms=60000",
    ),
    (
        "group.consumer.heartbeat.interval.ms=1000",
        "not between group.consumer.min.heartbeat.interval.ms=5000 and group.consumer.max.heartbeat.interval.ms=15000",
    ),
    (
        "group.consumer.assignment.interval.ms=15001",
        "not between group.consumer.min.assignment.interval.ms=0 and group.consumer.max.assignment.interval.ms=15000",
    ),
    (
        "group.consumer.max.assignment.interval.ms=500\ngroup.consumer.min.assignment.interval.ms=600",
        "group.consumer.min.assignment.interval.ms=600: above group.consumer.max.assignment.interval.ms=500: lower it",
    ),
    (
        "group.consumer.min.session.timeout.ms=1000\ngroup.consumer.session.timeout.ms=5000",
        "group.consumer.heartbeat.interval.ms=5000 (the default): not below group.consumer.session.timeout.ms=5000",
    ),
    ("broker.session.timeout.ms=900", "broker.heartbeat.interval.ms=500 (the default): above half of broker.session"),
    (
        "controller.quorum.append.linger.ms=251",
        "above a quarter of controller.quorum.election.timeout.ms=1000, so metadata changes would wait almost as",
    ),
    (
        "controller.quorum.append.linger.ms=25\ncontroller.quorum.fetch.timeout.ms=99",
        "controller.quorum.fetch.timeout.ms=99: expected a whole number from 100 to 60000",
    ),
    (
        "controller.quorum.append.linger.ms=26\ncontroller.quorum.fetch.timeout.ms=100",
        "above a quarter of controller.quorum.fetch.timeout.ms=100, so metadata changes",
    ),
    (
        "controller.quorum.election.backoff.max.ms=1001",
        "above controller.quorum.election.timeout.ms=1000: lower it",
    ),
    ("replica.fetch.wait.max.ms=30000", "not below replica.lag.time.max.ms=30000"),
    ("message.max.bytes=16777216", "not below socket.request.max.bytes=16777216"),
    (
        "log.cleaner.min.compaction.lag.ms=2\nlog.cleaner.max.compaction.lag.ms=1",
        "log.cleaner.min.compaction.lag.ms (2) is above log.cleaner.max.compaction.lag.ms (1)",
    ),
    ("log.cleaner.threads=33", "log.cleaner.dedupe.buffer.size=33554432 (the default): below 1 MiB for each of"),
    ("broker.id=2", "broker.id=2: contradicts node.id=1: remove one of them"),
]


@pytest.mark.parametrize(("lines", "expected"), CONFLICTS)
def test_settings_that_do_not_fit_together_are_refused(refused: Refuse, lines: str, expected: str) -> None:
    assert expected in refused(COMBINED + lines + "\n")


def test_two_names_of_one_log_directory_are_refused(refused: Refuse, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    line = f"log.dirs={tmp_path / 'real'},{tmp_path / 'link'}"
    assert f"{tmp_path / 'link'} is named twice" in refused(COMBINED + line + "\n")


def test_an_advertised_address_stands_for_a_listener_on_every_interface(load_text: Load) -> None:
    config = load_text(
        COMBINED
        + "listeners=GRPC://:9094,CONTROLLER://:9093\nadvertised.listeners=GRPC://broker-1.example:19094\n"
        + "cluster.secret.file=secret\n"
    )
    assert [listener.address for listener in config.advertised_listeners] == ["broker-1.example:19094"]


OPEN_CONTROLLER = "listeners=GRPC://localhost:9094,CONTROLLER://0.0.0.0:9093\n"
OPEN_BOTH = (
    "listeners=GRPC://0.0.0.0:9094,CONTROLLER://0.0.0.0:9093\nadvertised.listeners=GRPC://broker-1.example:9094\n"
)
FAR_VOTERS = "controller.quorum.voters=1@localhost:9093,2@kraft-2.example:9093\n"
TLS = (
    "listener.security.protocol.map=CONTROLLER:SSL\nssl.keystore.type=PEM\nssl.keystore.location=own.pem\n"
    "ssl.truststore.type=PEM\nssl.truststore.location=trusted.pem\n"
)
SECRET = "cluster.secret.file=secret\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            OPEN_CONTROLLER,
            "CONTROLLER://0.0.0.0:9093 is open to other machines, so anybody there could join the quorum",
        ),
        (
            OPEN_CONTROLLER,
            "set cluster.secret.file, or listener.security.protocol.map=CONTROLLER:SSL with ssl.keystore",
        ),
        (FAR_VOTERS, "2@kraft-2.example:9093 is on another machine: set cluster.secret.file, or listener.security"),
        (
            "process.roles=broker\nnode.id=4\nlisteners=GRPC://localhost:9094\ncontroller.quorum.voters=1@10.0.0.1:1\n",
            "1@10.0.0.1:1 is on another machine: set cluster.secret.file",
        ),
        (OPEN_BOTH + TLS, "copy partitions on listeners without TLS: set cluster.secret"),
        (
            "listener.security.protocol.map=CONTROLLER:SSL\n",
            "CONTROLLER:SSL needs a PEM file: set ssl.keystore.location",
        ),
        (
            TLS.replace("ssl.truststore.location=trusted.pem\n", ""),
            "CONTROLLER:SSL needs a PEM file: set ssl.truststore.location",
        ),
        ("ssl.keystore.location=own.pem\n", "has no effect without TLS on CONTROLLER: set listener.security"),
        ("ssl.keystore.type=JKS\n", "expected PEM: convert the store, for example with openssl pkcs12"),
        ("ssl.client.auth=none\n", "expected required: with TLS, nodes always have to show"),
        ("ssl.endpoint.identification.algorithm=\n", "expected https: a certificate always has to name"),
        ("listener.security.protocol.map=CONTROLLER:SASL_SSL\n", "CONTROLLER can only be mapped to PLAINTEXT or SSL"),
        ("listener.security.protocol.map=CONTROLLER\n", "expected NAME:PROTOCOL, separated by commas"),
        ("cluster.secret.file=\n", "expected the path of one file"),
    ],
)
def test_a_node_that_would_accept_anybody_as_a_node_of_its_cluster_is_refused(
    refused: Refuse, lines: str, expected: str
) -> None:
    assert expected in refused(COMBINED + lines)


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "listeners=GRPC://[::1]:9094,CONTROLLER://127.0.0.2:9093\n",
        OPEN_CONTROLLER + SECRET,
        OPEN_CONTROLLER + TLS,
        FAR_VOTERS + SECRET,
        FAR_VOTERS + TLS,
    ],
)
def test_a_node_with_a_secret_or_certificates_or_alone_on_its_machine_is_accepted(load_text: Load, lines: str) -> None:
    assert security_warnings(load_text(COMBINED + lines)) == []


def test_a_broker_that_only_clients_elsewhere_can_use_is_warned(load_text: Load) -> None:
    lines = "listeners=GRPC://0.0.0.0:9094,CONTROLLER://localhost:9093\nadvertised.listeners=GRPC://here.example:9094\n"
    config = load_text(COMBINED + lines)
    everybody, warning = security_warnings(config)
    assert {everybody, warning} <= set(config.warnings)
    assert (
        "open to clients on other machines, but brokers there are refused: set cluster.secret.file" in warning.message
    )


@pytest.mark.parametrize("lines", [OPEN_BOTH + SECRET, OPEN_BOTH + TLS + SECRET])
def test_grpc_clients_elsewhere_can_do_everything_and_that_is_warned_of(load_text: Load, lines: str) -> None:
    (warning,) = security_warnings(load_text(COMBINED + lines))
    assert "GRPC://" in warning.message
    assert "is open to other machines, and clients are not authenticated" in warning.message


def test_kafkas_clients_elsewhere_can_do_everything_and_that_is_warned_of(load_text: Load) -> None:
    lines = "listeners=PLAINTEXT://here.example:9092,GRPC://localhost:9094,CONTROLLER://localhost:9093\n"
    (warning,) = security_warnings(load_text(COMBINED + lines))
    assert "PLAINTEXT://here.example:9092 is open to other machines, and clients are not" in warning.message
