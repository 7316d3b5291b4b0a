"""Addresses by the keys that Kafka had before `listeners`."""

from __future__ import annotations

import pytest

from kraft.server.config.loading import ConfigError
from tests.unit.server.config.files import Load

ROLES = """
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@localhost:9093
log.dirs=data
"""


def said(text: str, load_text: Load) -> tuple[str, str, list[str]]:
    """Return the listeners, what is advertised, and the warnings about addresses."""
    config = load_text(ROLES + text)
    listeners = ",".join(map(str, config.listeners))
    advertised = ",".join(map(str, config.advertised_listeners))
    return listeners, advertised, [f"{each.key} {each.message}" for each in config.warnings]


def test_a_port_and_a_host_are_a_listener(load_text: Load) -> None:
    listeners, advertised, warnings = said("port=9192\nhost.name=localhost", load_text)
    assert listeners == "PLAINTEXT://localhost:9192,CONTROLLER://localhost:9093,GRPC://localhost:9193"
    assert advertised == "PLAINTEXT://localhost:9192,GRPC://localhost:9193"
    used = "is an older key: the node uses listeners=PLAINTEXT://localhost:9192,CONTROLLER://localhost:9093"
    assert f"host.name {used}" in warnings
    assert "port has no effect: listeners is set" not in warnings


def test_what_is_advertised_has_the_port_of_the_listener_unless_it_has_its_own(load_text: Load) -> None:
    assert said("host.name=::1\nport=9192\nadvertised.host.name=localhost", load_text)[:2] == (
        "PLAINTEXT://[::1]:9192,CONTROLLER://localhost:9093,GRPC://localhost:9193",
        "PLAINTEXT://localhost:9192,GRPC://localhost:9193",
    )
    advertised = said("host.name=localhost\nadvertised.host.name=localhost\nadvertised.port=19092", load_text)[1]
    assert advertised == "PLAINTEXT://localhost:19092,GRPC://localhost:9094"


def test_what_is_advertised_alone_is_a_listener_on_kafkas_port(load_text: Load) -> None:
    listeners, advertised, _ = said("advertised.host.name=localhost", load_text)
    assert listeners == "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093,GRPC://localhost:9094"
    assert advertised == "PLAINTEXT://localhost:9092,GRPC://localhost:9094"


def test_the_keys_of_today_go_before_those_of_old(load_text: Load) -> None:
    today = "listeners=PLAINTEXT://localhost:9292,CONTROLLER://localhost:9093,GRPC://localhost:9094\n"
    listeners, advertised, warnings = said(f"{today}port=9192\nhost.name=elsewhere", load_text)
    assert listeners == today.strip().removeprefix("listeners=")
    assert advertised == "PLAINTEXT://localhost:9292,GRPC://localhost:9094"
    assert "port has no effect: listeners is set" in warnings
    assert "host.name has no effect: listeners is set" in warnings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("port=many", "listeners=PLAINTEXT://:many,CONTROLLER://localhost:9093: "),
        ("port=9092\nadvertised.host.name=a.example", "PLAINTEXT://:9092 is open to other machines without"),
        ("host.name=localhost\nadvertised.port=0", "advertised.listeners=PLAINTEXT://localhost:0: "),
    ],
)
def test_what_is_no_address_is_refused_with_its_line(text: str, problem: str, load_text: Load) -> None:
    with pytest.raises(ConfigError, match=r":[67]: ") as raised:
        load_text(ROLES + text)
    assert problem in str(raised.value)
