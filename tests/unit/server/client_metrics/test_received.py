"""What is kept of pushes for scrapes: the last values, within limits, until clients are silent."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kraft.model.errors import Refusal
from kraft.server.client_metrics import received as limits
from kraft.server.client_metrics.payload import read
from kraft.server.client_metrics.pushing_client import PushingClient
from kraft.server.client_metrics.received import ReceivedMetrics
from kraft.server.metrics.client_metrics import collect_received
from kraft.server.metrics.rendering import OPEN_METRICS, render
from kraft.server.metrics.snapshot import Snapshot
from tests.support.client_pushes import AddMetric, gauge, pushed, total

CLIENT, OTHER = UUID(int=16), UUID(int=17)
SHOP = PushingClient(
    client_id="shop", software_name="librdkafka", software_version="2.6", host="10.0.0.7", principal="User:anna"
)
INTERVAL_MS = 100_000
KEPT_MS = 3 * INTERVAL_MS


def push(
    received: ReceivedMetrics,
    *metrics: AddMetric,
    instance_id: UUID = CLIENT,
    client: PushingClient = SHOP,
    now_ms: int = 0,
    **resource: str,
) -> None:
    received.take(instance_id, client, INTERVAL_MS, read(0, pushed(*metrics, **resource), 1 << 20), now_ms)


def scraped(received: ReceivedMetrics, now_ms: int = 0) -> dict[tuple[str, str], float]:
    """The series as Prometheus reads them: by name, and the labels that are not of each client."""

    async def text() -> str:
        snapshot = Snapshot()
        await collect_received(received, now_ms, snapshot)
        return b"".join(await render(snapshot.values, OPEN_METRICS)).decode()

    found = {}
    # The parser has no types.
    for family in text_string_to_metric_families(asyncio.run(text())):  # type: ignore[no-untyped-call]  # The parser has no types.
        for sample in family.samples:
            labels = {key: value for key, value in sample.labels.items() if value and key != "client_id"}
            labels["client_instance_id"] = labels["client_instance_id"][-2:]
            found[sample.name, ",".join(f"{key}={value}" for key, value in sorted(labels.items()))] = sample.value
    return found


def test_deltas_add_up_and_gauges_have_the_last_value() -> None:
    received = ReceivedMetrics()
    push(received, total("a", 2.0, topic="t"), gauge("b", 5.0), total("c", 10.0, delta=False))
    push(received, total("a", 3.0, topic="t"), gauge("b", 4.0), total("c", 12.0, delta=False))
    shown = scraped(received)
    assert shown["kafka_client_a_total", "client_instance_id=10,topic=t"] == 5.0
    assert shown["kafka_client_b", "client_instance_id=10"] == 4.0
    assert shown["kafka_client_c_total", "client_instance_id=10"] == 12.0


def test_one_series_says_what_the_client_is() -> None:
    received = ReceivedMetrics()
    push(received, gauge("a", 1.0), group_id="readers", other="x")
    said = "client_software_name=librdkafka,client_software_version=2.6,group_id=readers,principal=User:anna"
    assert ("kraft_client_info", f"client_address=10.0.0.7,client_instance_id=10,{said}") in scraped(received)


def test_series_of_one_name_may_have_other_labels() -> None:
    received = ReceivedMetrics()
    push(received, gauge("a", 1.0, topic="t"), gauge("a", 2.0, partition="0", topic="t"))
    push(received, gauge("a", 3.0, node="1"), instance_id=OTHER)
    assert {key: value for key, value in scraped(received).items() if key[0] == "kafka_client_a"} == {
        ("kafka_client_a", "client_instance_id=10,topic=t"): 1.0,
        ("kafka_client_a", "client_instance_id=10,partition=0,topic=t"): 2.0,
        ("kafka_client_a", "client_instance_id=11,node=1"): 3.0,
    }


def test_a_name_has_one_kind_and_what_another_client_says_is_left_out() -> None:
    received = ReceivedMetrics()
    push(received, gauge("a", 1.0))
    for other in (total("a", 2.0), gauge("a.total", 3.0)):
        push(received, other, instance_id=OTHER)
    assert received.cut_pushes == 2
    assert [name for name, _ in scraped(received)] == ["kraft_client_info", "kraft_client_info", "kafka_client_a"]


def test_a_client_that_missed_three_intervals_is_gone_with_its_series() -> None:
    received = ReceivedMetrics()
    push(received, gauge("a", 1.0))
    push(received, gauge("a", 1.0), gauge("b", 1.0), instance_id=OTHER, now_ms=1)
    assert len(scraped(received, KEPT_MS)) == 5
    assert sorted(scraped(received, KEPT_MS + 1)) == [
        ("kafka_client_a", "client_instance_id=11"),
        ("kafka_client_b", "client_instance_id=11"),
        next(each for each in scraped(received, KEPT_MS + 1) if each[0] == "kraft_client_info"),
    ]
    assert scraped(received, KEPT_MS + 2) == {}
    assert (len(received), received.series_count, received.text_bytes, received.families) == (0, 0, 0, [])


def test_a_counter_of_a_client_that_comes_back_begins_again() -> None:
    received = ReceivedMetrics()
    push(received, total("a", 7.0))
    push(received, total("a", 1.0), now_ms=KEPT_MS + 1)
    assert scraped(received, KEPT_MS + 1)["kafka_client_a_total", "client_instance_id=10"] == 1.0


def test_clients_beyond_the_limit_are_left_out_until_others_are_silent() -> None:
    received = ReceivedMetrics(clients_max=1)
    push(received, gauge("a", 1.0))
    push(received, gauge("a", 1.0), instance_id=OTHER, now_ms=KEPT_MS)
    assert (len(received), received.cut_pushes) == (1, 1)
    push(received, gauge("a", 1.0), instance_id=OTHER, now_ms=KEPT_MS + 1_000)
    assert (len(received), received.cut_pushes) == (1, 1)
    assert ("kafka_client_a", "client_instance_id=11") in scraped(received, KEPT_MS + 1_000)


@pytest.mark.parametrize(
    "bounded", [ReceivedMetrics(series_max=1), ReceivedMetrics(text_bytes_max=30)], ids=["series", "text"]
)
def test_series_beyond_a_limit_are_left_out_and_the_others_go_on(bounded: ReceivedMetrics) -> None:
    for value in (1.0, 2.0):
        push(bounded, gauge("a", value), gauge("b" * 50, value))
    assert (bounded.series_count, bounded.cut_pushes) == (1, 2)
    assert scraped(bounded)["kafka_client_a", "client_instance_id=10"] == 2.0


def test_names_of_series_and_of_their_labels_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FAMILIES_MAX", 1)
    monkeypatch.setattr(limits, "LABEL_NAMES_MAX", 3)
    received = ReceivedMetrics()
    push(received, gauge("a", 1.0, one="1"), gauge("a", 1.0, two="1"), gauge("b", 1.0))
    assert [key for key, _ in scraped(received)] == ["kraft_client_info", "kafka_client_a"]


def test_the_id_of_another_users_client_is_refused() -> None:
    received = ReceivedMetrics()
    push(received, gauge("a", 1.0))
    with pytest.raises(Refusal, match="belongs to another user"):
        push(received, gauge("a", 2.0), client=PushingClient(client_id="shop", principal="User:mallory"))
    push(received, gauge("a", 2.0), client=PushingClient(principal="User:mallory"), now_ms=KEPT_MS + 1)


def test_labels_that_come_during_a_scrape_wait_for_the_next_one() -> None:
    received = ReceivedMetrics()
    for instance_id in (CLIENT, OTHER):
        push(received, gauge("a", 1.0), instance_id=instance_id)

    class Interrupted(Snapshot):
        @property
        def has_to_rest(self) -> bool:
            push(received, gauge("a", 2.0, topic="t"), instance_id=OTHER)
            return False

    async def text() -> bytes:
        snapshot = Interrupted()
        await collect_received(received, 0, snapshot)
        return b"".join(await render(snapshot.values, OPEN_METRICS))

    assert b"topic" not in asyncio.run(text())
    assert ("kafka_client_a", "client_instance_id=11,topic=t") in scraped(received)
