from __future__ import annotations

import os

import pytest
import typer
from confluent_kafka.admin import AdminClient

from benchmarks import servers
from benchmarks.servers import DEADLINE_S, AdminTopics, beside_server, node
from kraft.local.free_ports import ReservedPorts


def test_a_server_beside_is_one_process_or_all_of_a_cluster() -> None:
    with node() as server:
        alone = beside_server(f"kafka={server.address},{os.getpid()}")
        cluster = beside_server(f"kafka={server.address},{os.getpid()},{os.getppid()}")
    assert (alone.name, alone.address, alone.pids) == ("kafka", server.address, (os.getpid(),))
    assert cluster.pids == (os.getpid(), os.getppid())
    assert cluster.resident_mib() > alone.resident_mib() > 0


@pytest.mark.parametrize("text", ["kafka", "kafka=127.0.0.1:9092", "=127.0.0.1:9092,1", "kafka=127.0.0.1:9092,none"])
def test_a_server_beside_needs_an_address_and_processes_that_run(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="NAME=HOST:PORT,PID"):
        beside_server(text)


def test_a_server_beside_has_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_ANSWER_S", 0.5)
    with ReservedPorts(1) as (port,), pytest.raises(typer.BadParameter, match=f"no broker answers at 127.0.0.1:{port}"):
        beside_server(f"kafka=127.0.0.1:{port},{os.getpid()}")


def test_a_topic_that_is_removed_is_gone() -> None:
    with node() as server:
        topics = AdminTopics(server.address)
        for name in ("kept", "removed"):
            topics.make(name, 1)
        topics.remove("removed")
        admin = AdminClient({"bootstrap.servers": server.address, "log_level": 2})
        assert {"kept"} == {name for name in admin.list_topics(timeout=DEADLINE_S).topics if not name.startswith("__")}
