from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kraft.model.endpoint import Endpoint
from kraft.server.controller.dialling import nobody_listens


@contextmanager
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(name="closed_port")
def _closed_port() -> Iterator[int]:
    """A port that refuses connections; it is bound, so that no other process listens there during the test."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def at(*addresses: tuple[str, int]) -> list[Endpoint]:
    return [Endpoint(listener=f"L{number}", host=host, port=port) for number, (host, port) in enumerate(addresses)]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_that_refuses_connections_has_no_listener(host: str, closed_port: int) -> None:
    assert asyncio.run(nobody_listens(at((host, closed_port))))


def test_a_process_that_accepts_nothing_still_listens() -> None:
    # The kernel accepts the connection, as it does for a paused process.
    with listening() as port:
        assert not asyncio.run(nobody_listens(at(("127.0.0.1", port))))


def test_one_address_that_does_not_refuse_is_enough(closed_port: int) -> None:
    with listening() as port:
        assert not asyncio.run(nobody_listens(at(("127.0.0.1", closed_port), ("127.0.0.1", port))))
        assert not asyncio.run(nobody_listens(at(("127.0.0.1", port), ("127.0.0.1", closed_port))))


@pytest.mark.parametrize("address", [("no.such.host.invalid", 9094), ("127.0.0.1", 99_999), ("x" * 300, 9094), ("", 0)])
def test_what_is_no_address_proves_nothing(address: tuple[str, int], closed_port: int) -> None:
    assert not asyncio.run(nobody_listens(at(("127.0.0.1", closed_port), address)))


def test_a_broker_without_addresses_is_not_taken_for_gone() -> None:
    assert not asyncio.run(nobody_listens([]))
