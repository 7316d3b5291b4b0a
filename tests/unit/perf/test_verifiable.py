"""The events of verifiable clients, against a fake cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, cast

import pytest

from kraft.client import Producer, RecordMetadata
from kraft.perf.verifiable import NumberSender, NumbersToSend
from tests.support.client.fake_cluster import FakeCluster
from tests.unit.cli.conftest import cluster, kraft
from tests.unit.cli.shell import Shell

__all__ = ["cluster", "kraft"]


def events(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


def test_the_producer_prints_what_became_of_each_record(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    numbers = ("--max-messages", "3", "--value-prefix", "7", "--repeating-keys", "2")
    first, *sent, shutdown, data = events(kraft.succeed("verify", "produce", "orders", *numbers))
    assert (first["name"], shutdown["name"]) == ("startup_complete", "shutdown_complete")
    assert [(each["name"], each["key"], each["value"], each["offset"]) for each in sent] == [
        ("producer_send_success", "0", "7.0", 0),
        ("producer_send_success", "1", "7.1", 1),
        ("producer_send_success", "0", "7.2", 2),
    ]
    assert (data["name"], data["sent"], data["acked"]) == ("tool_data", 3, 3)


def test_the_producer_ends_once_nobody_reads_its_lines() -> None:
    def emit(name: str, fields: Mapping[str, Any]) -> None:
        if name == "producer_send_success":
            raise BrokenPipeError

    class Acknowledging:
        def send(self, *given: Any, **named: Any) -> Future[RecordMetadata]:
            future: Future[RecordMetadata] = Future()
            future.set_result(RecordMetadata("orders", 0, 1, 2))
            return future

    numbers = NumbersToSend(topic="orders", messages_max=-1, records_per_s=-1)
    with pytest.raises(BrokenPipeError):
        NumberSender(cast(Producer, Acknowledging()), numbers, emit).run()


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_a_topic_is_required(kraft: Shell, command: str) -> None:
    group = ["--group-id", "g"] if command == "consume" else []
    assert kraft.run("verify", command, *group) == 2
    assert "no topic is given: name one" in kraft.err
