from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import kraft
from kraft.local import free_ports
from kraft.local.cluster_files import HOST
from kraft.local.free_ports import ReservedPorts

PROCESSES, PORTS_EACH, CANDIDATES = 6, 20, 200


@pytest.fixture
def one_candidate(monkeypatch: pytest.MonkeyPatch) -> int:
    """The only port that reservations of this test may be given."""
    with ReservedPorts(1, offsets=(0, 1)) as (port,):
        pass
    monkeypatch.setattr(free_ports, "_port_range", lambda: range(port, port + 1))
    return port


def test_a_port_is_in_no_other_reservation_until_released(one_candidate: int) -> None:
    with ReservedPorts(1) as (port,):
        assert port == one_candidate
        with pytest.raises(OSError, match="no 1 free ports found"):
            ReservedPorts(1)
    with ReservedPorts(1) as ports:
        assert ports == [one_candidate]


def test_a_port_in_use_is_not_given(one_candidate: int) -> None:
    with socket.create_server((HOST, one_candidate)), pytest.raises(OSError, match="no 1 free ports found"):
        ReservedPorts(1)
    with ReservedPorts(1) as ports:
        assert ports == [one_candidate]


def test_a_reserved_port_can_be_listened_on_again_and_again() -> None:
    with ReservedPorts(1) as (port,):
        for _ in range(2):
            with socket.create_server((HOST, port)), socket.create_connection((HOST, port)):
                pass


def test_ports_at_offsets_are_reserved_too(one_candidate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_ports, "_port_range", lambda: range(one_candidate, one_candidate + 2))
    with ReservedPorts(1, offsets=(0, 1)) as ports:
        assert ports == [one_candidate]
        monkeypatch.setattr(free_ports, "_port_range", lambda: range(one_candidate + 1, one_candidate + 2))
        with pytest.raises(OSError, match="no 1 free ports found"):
            ReservedPorts(1)


def test_nothing_is_kept_when_there_are_too_few(one_candidate: int) -> None:
    with pytest.raises(OSError, match="no 2 free ports found"):
        ReservedPorts(2)
    with ReservedPorts(1) as ports:
        assert ports == [one_candidate]


def test_processes_that_draw_at_once_get_different_ports() -> None:
    """So few candidates that most draws hit what somebody else has; all hold what they got until the end."""
    program = (
        "import sys\nfrom kraft.local import free_ports\n"
        f"free_ports._port_range = lambda: range(12_000, {12_000 + CANDIDATES})\n"
        "print('ready', flush=True)\nsys.stdin.readline()\n"
        f"reserved = free_ports.ReservedPorts({PORTS_EACH})\n"
        "print(*reserved.ports, flush=True)\nsys.stdin.readline()\n"
    )
    drawing = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONPATH": str(Path(kraft.__file__).parents[1])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for _ in range(PROCESSES)
    ]
    drawn: list[int] = []
    try:
        for process in drawing:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in drawing:
            assert process.stdin is not None
            process.stdin.write("draw\n")
        for process in drawing:
            assert process.stdout is not None
            drawn += map(int, process.stdout.readline().split())
    finally:
        for process in drawing:
            process.communicate(timeout=30)
    assert len(drawn) == PROCESSES * PORTS_EACH
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("32768\t60999\n", range(10_000, 32_768)),
        ("16000\t65535\n", range(10_000, 16_000)),
        ("49152\t65535\n", range(10_000, 32_768)),
        ("1024\t65535\n", range(10_000, 32_768)),
        (None, range(10_000, 32_768)),
    ],
)
def test_ports_lie_below_those_of_outgoing_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, expected: range
) -> None:
    if text is not None:
        (tmp_path / "range").write_text(text)
    monkeypatch.setattr(free_ports, "_EPHEMERAL_RANGE_FILE", tmp_path / "range")
    assert free_ports._port_range() == expected
