from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from kraft.metadata.image import MetadataImage
from kraft.metadata.records import PartitionChanged
from kraft.metadata.topic_names import AUDIT_TOPIC
from kraft.model.append_audit import AppendAuditRequest, AppendAuditResponse
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_BROKER, BrokerId, LeaderEpoch, PartitionEpoch
from kraft.rpc.peers import Unreachable
from kraft.server.broker import audit_topic
from kraft.server.broker.audit_topic import BATCH_LINES_MAX, AuditTopic
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.virtual_time import LoopClock

EXISTS = with_topic(cluster(1, 2, 3), [2, 3], topic=AUDIT_TOPIC)


class Leaders:
    """The other brokers, and what they say to lines."""

    def __init__(self, image: MetadataImage = EXISTS) -> None:
        self.image = image
        self.asked: list[tuple[int, AppendAuditRequest]] = []
        self.answer: ErrorCode | Exception = ErrorCode.NONE
        self.creations = 0
        self.topic = AuditTopic(BrokerId(1), lambda: self.image, self._create, self._append, LoopClock())

    def _create(self) -> None:
        self.creations += 1

    async def _append(self, broker_id: BrokerId, request: AppendAuditRequest) -> AppendAuditResponse:
        self.asked.append((broker_id, request))
        if isinstance(self.answer, Exception):
            raise self.answer
        return AppendAuditResponse(error_code=self.answer)

    def put(self, *lines: str, dropped: int = 0) -> None:
        self.topic.put([json.dumps(each).encode() + b"\n" for each in lines], dropped)

    def sent(self) -> list[Any]:
        return [json.loads(record.value) for _, request in self.asked for record in request.records]

    def keys(self) -> list[bytes]:
        return [record.key for _, request in self.asked for record in request.records]


async def test_lines_go_to_the_leader_in_their_order_and_in_batches() -> None:
    leaders = Leaders()
    lines = [f"line {number}" for number in range(BATCH_LINES_MAX + 1)]
    leaders.put(*lines)
    await leaders.topic.send()
    assert leaders.sent() == lines
    assert [(broker, request.partition, len(request.records)) for broker, request in leaders.asked] == [
        (2, 0, BATCH_LINES_MAX),
        (2, 0, 1),
    ]
    assert len(set(leaders.keys())) == len(lines)
    assert leaders.topic.is_empty
    await leaders.topic.send()
    assert len(leaders.asked) == 2, "nothing is sent when there is nothing"


async def test_the_topic_is_created_once_there_is_a_line() -> None:
    leaders = Leaders(cluster(1, 2, 3))
    await leaders.topic.send()
    assert leaders.creations == 0
    leaders.put("first")
    await leaders.topic.send()
    assert (leaders.creations, leaders.asked) == (1, [])
    leaders.image = EXISTS
    await leaders.topic.send()
    assert leaders.sent() == ["first"]


@pytest.mark.parametrize(
    "failure",
    [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        Unreachable("broker 2", "it is gone"),
        Refusal(ErrorCode.REQUEST_TIMED_OUT, "too slow"),
    ],
    ids=str,
)
async def test_what_is_not_in_the_topic_is_sent_again_with_its_keys(failure: ErrorCode | Exception) -> None:
    leaders = Leaders()
    leaders.answer = failure
    leaders.put("one")
    with capture_logs() as logged:
        for _ in range(3):
            await leaders.topic.send()
        assert logged == [], "it may pass soon"
        for _ in range(3):
            await leaders.topic.send()
        leaders.answer = ErrorCode.NONE
        leaders.put("two")
        await leaders.topic.send()
    assert leaders.sent() == [*["one"] * 7, "two"]
    assert len(set(leaders.keys())) == 2
    assert leaders.topic.lost_count == 0
    assert [each["event"] for each in logged] == [
        "audit lines wait for their topic",
        "audit lines written to their topic",
    ]


async def test_a_topic_without_a_leader_takes_no_lines() -> None:
    lost = PartitionChanged(
        topic_id=ORDERS,
        partition=0,
        isr=[BrokerId(2)],
        leader=NO_BROKER,
        leader_epoch=LeaderEpoch(1),
        partition_epoch=PartitionEpoch(1),
    )
    leaders = Leaders(EXISTS.replay([lost]))
    leaders.put("one")
    await leaders.topic.send()
    assert leaders.asked == []
    assert not leaders.topic.is_empty


async def test_what_has_no_room_is_lost_counted_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_topic, "WAITING_BYTES_MAX", 20)
    leaders = Leaders()
    leaders.answer = ErrorCode.NOT_ENOUGH_REPLICAS
    with capture_logs() as logged:
        leaders.put("a", dropped=3)
        await leaders.topic.send()
        for _ in range(5):
            leaders.put("12345678", "12345678", "12345678")
            await leaders.topic.send()
    assert [each["event"] for each in logged] == [
        "audit lines lost, their topic takes none",
        "audit lines wait for their topic",
    ], "one line, however often they are lost"
    leaders.answer, before = ErrorCode.NONE, len(leaders.sent())
    await leaders.topic.send()
    gap, first, later_gap, *rest = leaders.sent()[before:]
    assert (gap["event"], gap["count"], first) == ("lost", 3, "a")
    assert (later_gap["event"], later_gap["count"]) == ("lost", leaders.topic.lost_count)
    assert rest == ["12345678"]
    assert leaders.topic.lost_count == 14
    leaders.put("12345678")
    await leaders.topic.send()
    assert leaders.sent()[-1] == "12345678", "there is room again"
    assert leaders.topic.lost_count == 14


async def test_lines_that_are_refused_for_good_hold_up_no_others() -> None:
    leaders = Leaders()
    leaders.answer = ErrorCode.MESSAGE_TOO_LARGE
    leaders.put("one", "two")
    await leaders.topic.send()
    assert leaders.topic.lost_count == 2
    leaders.answer = ErrorCode.NONE
    leaders.put("three")
    await leaders.topic.send()
    gap, line = leaders.sent()[2:]
    assert (gap["event"], gap["count"], line) == ("lost", 2, "three")


async def test_what_is_left_at_the_end_is_said() -> None:
    leaders = Leaders()
    leaders.put("one", "two")
    with capture_logs() as logged:
        leaders.topic.close()
    assert [(each["event"], each["lines"]) for each in logged] == [
        ("audit lines not written to their topic before the stop", 2)
    ]


async def test_the_lines_before_a_gap_that_was_refused_are_counted_once() -> None:
    leaders = Leaders()
    leaders.answer = ErrorCode.MESSAGE_TOO_LARGE
    leaders.put("one", dropped=5)
    await leaders.topic.send()
    assert leaders.topic.lost_count == 1, "the line that says how many are missing is none of them"
    leaders.answer = ErrorCode.NONE
    leaders.put("two")
    await leaders.topic.send()
    gap, line = leaders.sent()[-2:]
    assert (gap["event"], gap["count"], line) == ("lost", 6, "two")
