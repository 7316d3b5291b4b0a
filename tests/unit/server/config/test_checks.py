from __future__ import annotations

from pathlib import Path

import pytest

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
    ("metrics.address=localhost:9093", "CONTROLLER and METRICS have the same port 9093: change one"),
    ("metrics.address=9404", "metrics.address=9404: expected host:port, such as localhost:9404"),
    ("metrics.address=localhost:94044", "94044 is not a port: expected 1 to 65535"),
    ("controller.quorum.voters=2@localhost:9093", "does not name this node: a controller votes, so add 1@host:9093"),
    ("controller.quorum.voters=1@localhost:9999", "names 1@localhost:9999 for this node, whose listener is CONTROLLER"),
    ("advertised.listeners=GRPC://0.0.0.0:9094", "GRPC://0.0.0.0:9094 means every interface, and clients need"),
    ("advertised.listeners=PLAINTEXT://localhost:9092", "advertises PLAINTEXT, which is not in listeners"),
    (
        "listeners=GRPC://:9094,CONTROLLER://:9093\nallow.unauthenticated.listeners=GRPC",
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
        + "cluster.secret.file=secret\nallow.unauthenticated.listeners=GRPC\n"
    )
    assert [listener.address for listener in config.advertised_listeners] == ["broker-1.example:19094"]
