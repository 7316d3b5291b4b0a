from __future__ import annotations

import threading
from typing import Any

import pytest

from kraft.cli import send_delays
from kraft.cli.send_delays import REPORT_AFTER_MS, SendDelays
from kraft.client import Delay
from kraft.model.ids import TopicPartition

DEADLINE_S = 60
ORDERS = TopicPartition("orders", 0)
LATE = REPORT_AFTER_MS


class DelayedProducer:
    """A producer whose records wait."""

    def longest_delay(self) -> Delay:
        return delay("KAFKA_STORAGE_ERROR: 0 bytes free")


def delay(reason: str, waited_ms: int = LATE, partition: TopicPartition = ORDERS) -> Delay:
    return Delay(partition=partition, reason=reason, waited_ms=waited_ms)


def reported(*delays: Delay | None) -> list[str]:
    said: list[str] = []
    producer: Any = DelayedProducer()
    watched = SendDelays(producer, said.append)
    for each in delays:
        watched.report(each)
    return said


def test_a_delay_is_reported_once_it_is_long() -> None:
    reason = "KAFKA_STORAGE_ERROR: the disk of /logs has 5 bytes free"
    assert reported(None, delay(reason, LATE - 1)) == []
    assert reported(delay(reason, LATE - 1), delay(reason), delay(reason, 2 * LATE)) == [
        f"Records for orders-0 wait to be stored: {reason}"
    ]


def test_it_is_reported_again_when_partition_or_reason_change_but_not_for_other_numbers() -> None:
    other = TopicPartition("orders", 1)
    said = reported(
        delay("7 bytes free"), delay("6 bytes free"), delay("no leader"), delay("no leader", partition=other)
    )
    assert said == [
        "Records for orders-0 wait to be stored: 7 bytes free",
        "Records for orders-0 wait to be stored: no leader",
        "Records for orders-1 wait to be stored: no leader",
    ]


def test_the_next_delay_is_reported_even_if_it_has_the_same_reason() -> None:
    assert len(reported(delay("no leader"), None, delay("no leader"))) == 2


def test_the_producer_is_watched_while_the_command_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_delays, "_POLL_S", 0.001)
    said = threading.Event()
    producer: Any = DelayedProducer()
    with SendDelays(producer, lambda _: said.set()) as watched:
        assert said.wait(DEADLINE_S)
    assert not watched.is_running
