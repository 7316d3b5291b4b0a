from __future__ import annotations

import os

import pytest
import typer

from benchmarks.servers import beside_server


def test_a_server_beside_is_one_process_or_all_of_a_cluster() -> None:
    alone = beside_server(f"kafka=127.0.0.1:9092,{os.getpid()}")
    assert (alone.name, alone.address, alone.pids) == ("kafka", "127.0.0.1:9092", (os.getpid(),))
    cluster = beside_server(f"kafka=127.0.0.1:9092,{os.getpid()},{os.getppid()}")
    assert cluster.pids == (os.getpid(), os.getppid())
    assert cluster.resident_mib() > alone.resident_mib() > 0


@pytest.mark.parametrize("text", ["kafka", "kafka=127.0.0.1:9092", "=127.0.0.1:9092,1", "kafka=127.0.0.1:9092,none"])
def test_a_server_beside_needs_an_address_and_processes_that_run(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="NAME=HOST:PORT,PID"):
        beside_server(text)
