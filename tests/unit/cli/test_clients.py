"""`kraft clients`: rates between two looks, and connections of one client in one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.model.clients import ClientConnection
from kraft.model.errors import KraftError
from kraft.rpc.peers import Unreachable
from tests.unit.cli.shell import Shell


def connection(port: int, age_ms: int, used: int, **other: Any) -> ClientConnection:
    """A connection with `used` requests of 100 bytes, each of which got 1,000."""
    facts: dict[str, Any] = {
        "listener": "PLAINTEXT",
        "address": f"10.0.0.7:{port}",
        "principal": "User:alice",
        "client_id": "orders",
        "software_name": "librdkafka",
        "software_version": "2.6.1",
    }
    return ClientConnection(
        age_ms=age_ms, requests=used, received_bytes=100 * used, sent_bytes=1_000 * used, **(facts | other)
    )


Look = dict[int, list[ClientConnection] | KraftError]

REGISTERED = [1, 2]
MISSING = "did not answer, so that its clients are missing:"

LOOKS: list[Look] = [
    {
        1: [connection(1, 60_000, 10), connection(9, 5_000, 400)],
        2: [connection(2, 9_000, 7), connection(3, 100, 1, client_id="", software_name="", software_version="")],
    },
    {
        1: [connection(1, 62_000, 30), connection(9, 500, 4)],
        2: [connection(2, 11_000, 7), connection(3, 2_100, 3, client_id="", software_name="", software_version="")],
    },
]


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between looks."""
    waited = list[float]()
    looks = list[Look]()

    class FakeAdmin:
        def describe_clients(self, broker_ids: Collection[int] | None = None) -> Look:
            looks.extend(LOOKS[len(looks) : len(looks) + 1])
            return {broker: each for broker, each in looks[-1].items() if broker_ids is None or broker in broker_ids}

        def describe_brokers(self) -> list[SimpleNamespace]:
            return [SimpleNamespace(broker_id=broker_id) for broker_id in REGISTERED]

    @contextmanager
    def opened(*_: object) -> Iterator[FakeAdmin]:
        yield FakeAdmin()

    monkeypatch.setattr("kraft.cli.clients.open_admin", opened)
    monkeypatch.setattr("kraft.cli.clients.time.sleep", waited.append)
    return waited


def test_connections_of_one_client_are_one_line(kraft: Shell, waits: list[float]) -> None:
    orders, unnamed = json.loads(kraft.succeed("clients", "--interval-ms", "2000", "--output", "json"))
    assert waits == [2.0]
    assert (orders["client_id"], orders["address"], orders["brokers"]) == ("orders", "10.0.0.7", [1, 2])
    assert (orders["connections"], orders["age_seconds"], orders["requests"]) == (3, 62.0, 41)
    # 20 requests in 2 s, and 4 of a connection that began between the looks.
    assert (orders["requests_per_second"], orders["sent_bytes_per_second"]) == (12.0, 12_000.0)
    assert (unnamed["client_id"], unnamed["connections"], unnamed["received_bytes_per_second"]) == ("", 1, 100.0)


def test_each_connection_is_shown_the_busiest_first(kraft: Shell) -> None:
    titles, *rows = kraft.succeed("clients", "--connections", "--interval-ms", "2000").splitlines()
    assert titles.split()[5:8] == ["ADDRESS", "CONNECTIONS", "AGE"]
    assert rows[0].split()[:7] == ["User:alice", "orders", "librdkafka", "2.6.1", "PLAINTEXT", "1", "10.0.0.7:1"]
    assert rows[0].split()[7:12] == ["1", "1.0", "min", "30", "10.0"]
    assert [row.split()[1] for row in rows] == ["orders", "orders", "-", "orders"]
    assert "10.0.0.7:9 " in rows[1], "the port of a connection that ended is another client's"


def test_brokers_that_do_not_answer_are_named(kraft: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    away = Unreachable("b3:9094", "no answer within the time allowed")
    gone = Unreachable("b1:9094", "the connection was closed")
    here = sys.modules[__name__]
    monkeypatch.setattr(here, "LOOKS", [{**LOOKS[0], 3: away}, {**LOOKS[1], 1: gone}])
    monkeypatch.setattr(here, "REGISTERED", [1, 2, 3, 4])
    assert kraft.run("clients", "--output", "json") == 1
    assert {tuple(each["brokers"]) for each in json.loads(kraft.out)} == {(2,)}
    assert kraft.err.splitlines() == [
        f"kraft: broker 1 {MISSING} b1:9094 cannot be reached: the connection was closed",
        f"kraft: broker 3 {MISSING} b3:9094 cannot be reached: no answer within the time allowed",
        f"kraft: broker 4 {MISSING} it is not in service",
    ]
