"""Places of connections: those that wait make room, those in use do not, and no address has all."""

from __future__ import annotations

import asyncio
import errno
from ipaddress import ip_network
from typing import Any

import pytest
from structlog.testing import capture_logs

from kraft.console import connections
from kraft.console.connections import OutOfFiles, Places

HOST = "203.0.113.7"


class Connection:
    def __init__(self) -> None:
        self.is_closed = False

    def give_up(self) -> None:
        self.is_closed = True


def taken(places: Places, host: str, count: int) -> list[Connection]:
    found = [Connection() for _ in range(count)]
    assert all(places.take(each, host) for each in found)
    return found


def closed(found: list[Connection]) -> list[bool]:
    return [each.is_closed for each in found]


def test_who_has_waited_longest_makes_room() -> None:
    places = Places((), most=3)
    found = taken(places, HOST, 3)
    places.is_used(found[0])
    places.is_used(found[1])
    places.waits(found[0])
    places.waits(found[1])
    taken(places, "203.0.113.8", 1)
    assert closed(found) == [False, False, True]
    assert len(places) == 3


def test_what_is_used_stays() -> None:
    places = Places((), most=2)
    found = taken(places, HOST, 2)
    for each in found:
        places.is_used(each)
    assert not places.take(Connection(), "203.0.113.8")
    assert closed(found) == [False, False]
    places.leave(found[0])
    places.leave(found[0])
    assert places.take(Connection(), "203.0.113.8")


def test_one_address_takes_the_places_of_no_other() -> None:
    places = Places([ip_network("10.0.0.0/8")])
    other = taken(places, "203.0.113.8", 1)
    found = taken(places, HOST, connections.OF_ADDRESS_MAX + 1)
    assert closed(found) == [True] + [False] * connections.OF_ADDRESS_MAX
    assert closed(other) == [False]
    for each in found[1:]:
        places.is_used(each)
    assert not places.take(Connection(), HOST)
    # One household of IPv6 is one address, and a proxy is many people.
    network = taken(places, "2001:db8::1", connections.OF_ADDRESS_MAX) + taken(places, "2001:db8::2", 1)
    assert closed(network)[0]
    assert not any(closed(taken(places, "10.1.2.3", connections.OF_ADDRESS_MAX + 1)))


def test_a_process_without_files_says_so_once_and_other_errors_are_told_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Any] = []

    async def fail(*errors: Exception) -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "default_exception_handler", told.append)
        loop.set_exception_handler(OutOfFiles())
        for each in errors:
            loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": each})

    with capture_logs() as logged:
        asyncio.run(fail(*[OSError(errno.EMFILE, "Too many open files")] * 300, ValueError("another")))
    assert [(each["event"], each["reason"]) for each in logged] == [
        ("connections wait to be accepted", "Too many open files")
    ]
    assert [str(each["exception"]) for each in told] == ["another"]
