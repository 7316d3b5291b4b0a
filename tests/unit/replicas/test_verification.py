from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from msgspec import Struct, field

from kraft.client.aio import Admin
from kraft.log.format.record_batch import build_batch, split
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode
from kraft.model.fetch import FetchPartitionResult, FetchRequest, FetchResponse
from kraft.model.ids import TopicPartition
from kraft.replicas.reading import ReadSettings
from kraft.replicas.verification import Chosen, PartitionReport, reports
from kraft.rpc.peers import Unreachable
from kraft.wire.schema.metadata import MetadataResponsePartition
from tests.support.virtual_time import run_virtually
from tests.unit.replicas.compacted_batch import with_only

ORDERS = TopicPartition("orders", 0)
SETTINGS = ReadSettings(timeout_ms=3_000, max_wait_ms=1_000, fetch_bytes=200)


class Replica(Struct, kw_only=True):
    """A broker with one replica, and how it answers."""

    data: list[bytes]
    high_watermark: int
    log_start: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    is_paused: bool = False
    is_away: bool = False
    throttled: int = 0
    """How many answers come without partitions."""

    asked: list[FetchRequest] = field(default_factory=list)
    on_fetch: Callable[[Replica], None] = lambda _: None

    async def send(self, request: FetchRequest) -> None:
        if self.is_away:
            raise Unreachable("broker:1", "connection refused")
        self.asked.append(request)

    async def receive(self) -> FetchResponse:
        if self.is_paused:
            await asyncio.Event().wait()
        if self.throttled:
            self.throttled -= 1
            return FetchResponse(request_id=1, partitions=[], throttle_time_ms=500)
        self.on_fetch(self)
        request = self.asked[-1]
        result = self._result(request.partitions[0].fetch_offset)
        if not result.records and result.error_code is ErrorCode.NONE:
            await asyncio.sleep(request.max_wait_ms / 1_000)
        return FetchResponse(request_id=1, partitions=[result])

    async def close(self) -> None:
        pass

    def _result(self, offset: int) -> FetchPartitionResult:
        code = self.error_code if offset >= self.log_start else ErrorCode.OFFSET_OUT_OF_RANGE
        found = b""
        for each in self.data:
            ((header, _),) = split(each)
            if header.next_offset > offset and header.next_offset <= self.high_watermark and len(found) < 200:
                found += each
        return FetchPartitionResult(
            topic="orders",
            partition=0,
            error_code=code,
            high_watermark=self.high_watermark if code is ErrorCode.NONE else -1,
            log_start_offset=self.log_start,
            records=found if code is ErrorCode.NONE else b"",
        )


def batch(values: str, start: int, *, only: Sequence[int] | None = None) -> bytes:
    records = [Record(offset, 1_000, None, value.encode()) for offset, value in enumerate(values, start)]
    whole = build_batch(records, base_offset=start)
    return whole if only is None else with_only(whole, only)


def log(values: str, **fields: Any) -> Replica:
    """Return a replica with one batch for each character."""
    return Replica(
        data=[batch(value, offset) for offset, value in enumerate(values)],
        **{"high_watermark": len(values), **fields},
    )


def verified(
    *replicas: Replica, leader_id: int = 1, start: int = 0, is_compacted: bool = False, in_service: Sequence[int] = ()
) -> PartitionReport:
    """Verify replicas on brokers 1, 2, ... of one partition."""

    class Node:
        def __init__(self, address: str) -> None:
            self._replica = replicas[int(address) - 1]

        def open(self, _: object) -> Replica:
            return self._replica

    class Calls:
        node = Node

    class Client:
        calls = Calls

    ids = range(1, len(replicas) + 1)
    described = MetadataResponsePartition(
        error_code=0, partition_index=0, leader_id=leader_id, replica_nodes=tuple(ids), isr_nodes=tuple(ids)
    )
    what = Chosen(
        addresses={each: str(each) for each in in_service or ids},
        partitions={ORDERS: described},
        starts={ORDERS: start},
        ends={},
        compacted=frozenset({"orders"} if is_compacted else ()),
        notes=[],
    )

    async def run() -> list[PartitionReport]:
        return [each async for each in reports(cast(Admin, Client()), what, SETTINGS, lambda _: None)]

    (report,) = run_virtually(run())
    return report


def results(report: PartitionReport) -> list[str]:
    return [each.result for each in report.replicas]


def test_equal_replicas_are_read_in_several_fetches_each_for_its_own_replica() -> None:
    replicas = [log("abcdefghij") for _ in range(3)]
    report = verified(*replicas)
    assert results(report) == ["reference", "same", "same"]
    assert (report.records, report.start, report.end, report.is_verified) == (10, 0, 10, True)
    assert all(len(each.asked) > 2 and each.asked[0].of_replica for each in replicas)


def test_a_replica_with_another_record_is_named_and_where() -> None:
    report = verified(log("abcdefgh"), log("abcdeXgh"), log("abcdefgh"))
    assert results(report) == ["reference", "different", "same"]
    assert (report.replicas[1].difference.first_offset, report.replicas[1].difference.differing) == (5, 1)
    assert not report.is_verified


def test_the_leader_is_the_reference_wherever_it_stands() -> None:
    assert results(verified(log("ab"), log("ab"), leader_id=2)) == ["same", "reference"]


def test_a_replica_that_is_behind_is_compared_as_far_as_it_is_and_no_difference() -> None:
    report = verified(log("abcdef"), log("abcd"), log("abcdef"))
    assert results(report) == ["reference", "behind", "same"]
    assert (report.replicas[1].compared_to, report.replicas[1].reason) == (4, "2 offsets behind 6")
    assert report.is_verified


def test_an_empty_replica_keeps_the_others_from_nothing() -> None:
    report = verified(log("abcdef"), log(""), log("abcdeX"))
    assert results(report) == ["reference", "behind", "different"]


def test_a_replica_that_gets_further_is_waited_for() -> None:
    def advance(replica: Replica) -> None:
        replica.high_watermark = min(6, replica.high_watermark + 1)

    assert results(verified(log("abcdef"), log("abcdef", high_watermark=2, on_fetch=advance))) == ["reference", "same"]


def test_records_above_the_high_watermark_of_the_leader_are_not_compared() -> None:
    assert results(verified(log("abcdXX", high_watermark=4), log("abcdef"))) == ["reference", "same"]


def test_the_comparison_begins_where_all_logs_have_begun() -> None:
    report = verified(log("abcdef", log_start=2), log("xxxdef", log_start=3), log("abcdef"))
    assert (report.start, report.records, results(report)) == (3, 3, ["reference", "same", "same"])


def test_records_that_retention_deletes_meanwhile_are_left_out() -> None:
    def delete(replica: Replica) -> None:
        replica.log_start = 7 if len(replica.asked) > 1 else 0

    report = verified(log("abcdefghij"), log("abcdefghij", on_fetch=delete))
    assert (results(report), report.is_verified) == (["reference", "same"], True)


def test_a_compacted_replica_may_have_fewer_records_but_no_others() -> None:
    compacted = Replica(data=[batch("abcd", 0, only=(1, 3)), batch("ef", 4)], high_watermark=6)
    report = verified(log("abcdef"), compacted, is_compacted=True)
    assert (results(report), report.replicas[1].difference.compacted) == (["reference", "same"], 2)
    changed = Replica(data=[batch("aXcd", 0, only=(1, 3)), batch("ef", 4)], high_watermark=6)
    assert results(verified(log("abcdef"), changed, is_compacted=True)) == ["reference", "different"]


def test_a_hole_up_to_the_high_watermark_is_compaction_or_an_error() -> None:
    hole = Replica(data=[batch("ab", 0)], high_watermark=4)
    assert results(verified(log("abcd"), hole, is_compacted=True)) == ["reference", "same"]
    report = verified(log("abcd"), Replica(data=[batch("ab", 0)], high_watermark=4))
    assert results(report)[1] == "not read"
    assert report.replicas[1].reason == "its broker sent no records from offset 2 on, below its high watermark"


def test_a_broker_that_is_not_in_service_is_said_and_the_others_are_compared() -> None:
    report = verified(log("ab"), log("ab"), log("aX"), in_service=(1, 3))
    assert results(report) == ["reference", "not read", "different"]
    assert report.replicas[1].reason == "its broker is not in service"


def test_without_the_leader_followers_are_compared_with_each_other() -> None:
    report = verified(log("ab", is_away=True), log("ab"), log("ab"))
    assert results(report) == ["not read", "reference", "same"]
    assert "connection refused" in report.replicas[0].reason


def test_a_broker_that_is_paused_is_given_up_after_the_timeout() -> None:
    report = verified(log("ab"), log("ab", is_paused=True))
    assert results(report) == ["alone", "not read"]
    assert report.replicas[1].reason == "2 did not answer within 3000 ms"


def test_a_refused_replica_says_why() -> None:
    report = verified(log("ab"), log("ab", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), log("ab"))
    assert report.replicas[1].reason == "TOPIC_AUTHORIZATION_FAILED"
    older = verified(log("ab"), log("ab", error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert "older versions" in older.replicas[1].reason


def test_a_quota_is_waited_for() -> None:
    assert results(verified(log("ab", throttled=3), log("ab"))) == ["reference", "same"]


def test_a_partition_with_one_replica_has_nothing_to_be_compared_with() -> None:
    report = verified(log("ab"))
    assert (results(report), report.is_verified) == (["alone"], True)
