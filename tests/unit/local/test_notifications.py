from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from kraft.local.notifications import Notifications, ServiceState
from kraft.server.process.pulse import HANGS_AFTER_S
from kraft.server.process.service_manager import ServiceManager, more_time

READY = "READY=1\nSTATUS=in service"


@pytest.fixture
def state() -> ServiceState:
    return ServiceState([1, 1001], has_watchdog=False)


def test_the_service_is_ready_once_all_its_processes_are(state: ServiceState) -> None:
    assert list(state.news(0.0)) == ["STATUS=node 1: it is starting", more_time()]
    state.heard(1, READY, 1.0)
    state.heard(1001, "STATUS=not ready: it is not registered yet", 1.0)
    assert list(state.news(1.0)) == ["STATUS=node 1001: not ready: it is not registered yet", more_time()]
    state.heard(1001, READY, 2.0)
    assert list(state.news(2.0)) == ["READY=1", "STATUS=in service, with 2 processes"]
    assert list(state.news(3.0)) == []


def test_a_process_that_starts_again_is_named_and_the_service_stays_ready(state: ServiceState) -> None:
    for node_id in (1, 1001):
        state.heard(node_id, READY, 1.0)
    list(state.news(1.0))
    state.started(1001)
    assert list(state.news(2.0)) == ["STATUS=node 1001: it is starting"]
    state.heard(1001, READY, 3.0)
    assert list(state.news(3.0)) == ["STATUS=in service, with 2 processes"]


def test_the_watchdog_hears_nothing_more_while_one_process_hangs() -> None:
    state = ServiceState([1, 1001], has_watchdog=True)
    for node_id in (1, 1001):
        state.heard(node_id, f"{READY}\nWATCHDOG=1", 1.0)
    assert "WATCHDOG=1" in list(state.news(1.0))
    later_s = 2.0 + HANGS_AFTER_S
    state.heard(1, "WATCHDOG=1", later_s)
    assert list(state.news(later_s)) == []
    state.heard(1001, "WATCHDOG=1", later_s)
    assert list(state.news(later_s)) == ["WATCHDOG=1"]
    # It has not said anything yet since it was started again.
    state.started(1001)
    assert "WATCHDOG=1" in list(state.news(later_s))


def test_only_processes_of_the_supervisor_are_heard(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(5)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "30000000"}
        notifications = Notifications([7], environment)
        assert environment["NOTIFY_SOCKET"] != str(tmp_path / "notify")
        of_process = ServiceManager(dict(environment))
        assert of_process.has_watchdog
        of_process.tell("READY=1", "STATUS=in service")
        notifications.pass_on({os.getpid() + 1: 7})
        assert "READY" not in manager.recv(1_000).decode()
        of_process.tell("READY=1", "STATUS=in service", "WATCHDOG=1")
        notifications.pass_on({os.getpid(): 7})
        assert manager.recv(1_000).decode().splitlines() == [
            "READY=1",
            "STATUS=in service, with 1 processes",
            "WATCHDOG=1",
        ]
        notifications.close()


def test_without_a_service_manager_the_environment_stays_as_it_is() -> None:
    environment: dict[str, str] = {"HOME": "/"}
    notifications = Notifications([7], environment)
    notifications.pass_on({1: 7})
    notifications.stopping()
    assert environment == {"HOME": "/"}
    assert notifications.files == []
