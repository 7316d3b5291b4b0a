from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kraft.server.process.service_manager import ServiceManager


@pytest.fixture(name="listening", params=["path", "abstract"])
def _listening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """Return an address as the variable has it, and the socket there."""
    path = str(tmp_path / "notify") if request.param == "path" else f"@kraft-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path.replace("@", "\0", 1))
        manager.settimeout(5)
        yield path, manager


def test_lines_are_one_datagram_and_the_variables_are_taken(listening: tuple[str, socket.socket]) -> None:
    address, manager = listening
    environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid()), "HOME": "/"}
    told = ServiceManager(environment)
    told.tell("READY=1", "STATUS=in service")
    assert manager.recv(1_000) == b"READY=1\nSTATUS=in service"
    assert told.is_there
    assert told.has_watchdog
    assert environment == {"HOME": "/"}


def test_without_a_service_manager_nothing_is_told() -> None:
    nobody = ServiceManager({})
    nobody.tell("READY=1")
    assert not nobody.is_there
    assert not nobody.has_watchdog


def test_a_watchdog_of_another_process_is_not_ours() -> None:
    assert not ServiceManager({"WATCHDOG_USEC": "1", "WATCHDOG_PID": str(os.getpid() + 1)}).has_watchdog


@pytest.mark.parametrize("address", ["vsock:2:1234", "/nowhere/notify"])
def test_an_address_that_cannot_be_used_is_a_warning_and_no_failure(address: str) -> None:
    with capture_logs() as logs:
        manager = ServiceManager({"NOTIFY_SOCKET": address})
        manager.tell("READY=1")
    assert [each["event"] for each in logs] == ["service manager not told"]
    assert address in logs[0]["reason"]
    assert not manager.is_there


def test_a_manager_that_takes_nothing_costs_no_wait_and_one_line(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as full:
        full.bind(str(tmp_path / "notify"))
        manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        with capture_logs() as logs:
            for _ in range(2_000):
                manager.tell("WATCHDOG=1")
    assert [each["event"] for each in logs] == ["service manager not told"]
