"""The coordinators of groups with their real shard: what they load, and what topics that come and go mean for them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from kraft.coordinator.groups import offset_requests
from kraft.metadata.records import TopicDeleted
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId
from kraft.model.name_regex import NameRegex
from kraft.model.request_context import RequestContext
from kraft.server.coordinator import group_coordinators, record_sizes, topic_changes
from kraft.server.coordinator.topic_changes import RETRY_S
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from kraft.wire.schema.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support import offset_commands
from tests.support.cluster_images import ORDERS, with_topic
from tests.support.offset_commands import asking
from tests.support.server.group_broker import (
    CONTEXT,
    GROUP,
    GroupBroker,
    change_topics,
    joining,
    subscribed,
    syncing,
)
from tests.support.server.replicas import DEFAULTS, lead, settle
from tests.unit.server.coordinator.coordinating import append_foreign

INVOICES = TopicId(UUID(int=300))
NEWEST = RequestContext(version=OffsetCommitRequest.versions.last)


def committing(topic: str, *offsets: int) -> OffsetCommitRequest:
    """Commit offsets of partition 0."""
    topics = (
        OffsetCommitRequestTopic(name=topic, partitions=tuple(offset_commands.offset(0, each) for each in offsets)),
    )
    return OffsetCommitRequest(group_id=GROUP, member_id="", topics=topics)


async def commit(broker: GroupBroker, offset: int, topic: str = "orders") -> None:
    await broker.handlers.offsets.commit(committing(topic, offset), NEWEST)


async def committed(broker: GroupBroker, topic: str = "orders") -> int:
    asked = OffsetFetchRequestGroup(group_id=GROUP, topics=(asking(topic, 0),))
    (group,) = (await broker.handlers.offsets.fetch(OffsetFetchRequest(groups=(asked,)), NEWEST)).groups
    return group.topics[0].partitions[0].committed_offset


@pytest.fixture
def without_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `max.message.bytes` limit coordinators to small batches, too."""
    monkeypatch.setattr(record_sizes, "BATCH_BYTES_MIN", 0)


async def test_only_the_last_offset_of_many_is_replayed(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        for offset in range(200):
            await commit(broker, offset)
        with capture_logs() as logs:
            lead(broker.partition, epoch=2, replicas=(1,))
            await settle()
        assert await committed(broker) == 199
    (loaded,) = [event for event in logs if event["event"] == "coordinator loaded"]
    assert (loaded["records"], loaded["skipped"], loaded["leader_epoch"]) == (1, 0, 2)


async def test_damaged_records_and_those_of_later_versions_are_skipped_with_one_log_event(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await commit(broker, 5)
        append_foreign(
            broker.partition,
            (b"\x00\x01\x00", b"\x00\x04"),
            (None, b"without a key"),
            (b"\x01\x00of a later version", b"\x00\x00"),
        )
        with capture_logs() as logs:
            lead(broker.partition, epoch=2, replicas=(1,))
            await settle()
        assert await committed(broker) == 5
    resigned, loaded = [event for event in logs if event["event"].startswith("coordinator")]
    assert resigned["reason"] == "this broker stopped leading __consumer_offsets-0"
    assert (loaded["records"], loaded["skipped"]) == (1, 3)
    assert loaded["reason_skipped"]


async def test_offsets_of_a_deleted_topic_are_deleted(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        broker.image = with_topic(broker.image, [1], topic="invoices", topic_id=INVOICES)
        await commit(broker, 5)
        await commit(broker, 7, "invoices")
        change_topics(broker, broker.image.replay([TopicDeleted(topic_id=ORDERS)]))
        await settle()
        assert (await committed(broker), await committed(broker, "invoices")) == (-1, 7)


async def test_members_that_need_more_memory_than_is_left_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with GroupBroker(tmp_path) as broker:
        member_id = await broker.stable()
        members_bytes = broker.coordinators.members_bytes
        monkeypatch.setattr(group_coordinators, "MEMBERS_BYTES_MAX", members_bytes)
        with pytest.raises(Refusal, match="COORDINATOR_NOT_AVAILABLE"):
            await broker.handlers.classic.join(joining("other"), CONTEXT)
        sync = syncing(GROUP, member_id, {member_id: b"x" * 1_000})
        with pytest.raises(Refusal, match="COORDINATOR_NOT_AVAILABLE"):
            await broker.handlers.classic.sync(sync, CONTEXT)
        # What takes no more memory is served.
        beat = HeartbeatRequest(group_id=GROUP, member_id=member_id, generation_id=1)
        assert await broker.handlers.classic.heartbeat(beat) == HeartbeatResponse(error_code=0)
        assert broker.coordinators.members_bytes == members_bytes
        await broker.leave(member_id)
        assert (await broker.handlers.classic.join(joining(), CONTEXT)).error_code == ErrorCode.MEMBER_ID_REQUIRED


async def test_members_of_the_consumer_protocol_need_memory_for_themselves_and_their_subscription(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with GroupBroker(tmp_path) as broker:
        joined = await broker.join_consumer(GROUP, "m")
        members_bytes = broker.coordinators.members_bytes
        assert members_bytes > 0
        monkeypatch.setattr(group_coordinators, "MEMBERS_BYTES_MAX", members_bytes)
        many = tuple(f"topic-{number}" for number in range(1_000))
        for refused in (
            broker.join_consumer(GROUP, "other"),
            broker.join_consumer("another", "m"),
            broker.join_consumer(GROUP, "m", member_epoch=joined.member_epoch, subscribed_topic_names=many),
            broker.handlers.classic.join(joining("third"), CONTEXT),
        ):
            with pytest.raises(Refusal, match="COORDINATOR_NOT_AVAILABLE"):
                await refused
        # What takes no more memory is served.
        await broker.join_consumer(GROUP, "m")
        assert broker.coordinators.members_bytes == members_bytes
        # Another leader counts the same.
        lead(broker.partition, epoch=2, replicas=(1,))
        await settle()
        assert broker.coordinators.members_bytes == members_bytes
        await broker.join_consumer(GROUP, "m", member_epoch=-1)
        assert broker.coordinators.members_bytes < members_bytes
        await broker.join_consumer(GROUP, "other")


@pytest.mark.usefixtures("without_minimum")
async def test_a_commit_of_more_offsets_than_fit_into_a_batch_is_refused_before_it_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with GroupBroker(tmp_path) as broker:
        accept_batches_of(broker, 20_000)
        command = committing("orders", *range(1_000))
        with monkeypatch.context() as patched:
            patched.setattr(offset_requests, "commit", None)
            with pytest.raises(Refusal, match="its log accepts"):
                await broker.handlers.offsets.commit(command, NEWEST)
        await commit(broker, 5)
        assert await committed(broker) == 5


async def test_a_regular_expression_is_resolved_when_a_member_comes_with_it(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.join_consumer(subscribed_topic_names=None, subscribed_topic_regex="ord.*|inv.*")
        assert await subscribed(broker) == {"orders"}
        change_topics(broker, with_topic(broker.image, [1], topic="invoices", topic_id=INVOICES))
        assert await subscribed(broker) == {"orders", "invoices"}
        change_topics(broker, broker.image.replay([TopicDeleted(topic_id=ORDERS)]))
        assert await subscribed(broker) == {"invoices"}


async def test_a_regular_expression_is_resolved_again_by_the_next_coordinator(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.join_consumer(subscribed_topic_names=None, subscribed_topic_regex="ord.*|inv.*")
        assert await subscribed(broker) == {"orders"}
        broker.image = with_topic(broker.image, [1], topic="invoices", topic_id=INVOICES)
        lead(broker.partition, epoch=2, replicas=(1,))
        await settle()
        assert await subscribed(broker) == {"orders", "invoices"}


class SlowRegex(NameRegex):
    """One that takes a long time for each name, if it begins with a bracket."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._s = 0.2 if text.startswith("[") else 0.0

    def matches(self, name: str) -> bool:
        until_s = time.thread_time() + self._s
        while time.thread_time() < until_s:
            pass
        return super().matches(name)


async def test_a_regular_expression_that_takes_too_long_is_given_up_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_changes, "NameRegex", SlowRegex)
    monkeypatch.setattr(topic_changes, "REGEX_S_MAX", 0.1)
    async with GroupBroker(tmp_path) as broker:
        with capture_logs() as logs:
            await broker.join_consumer(subscribed_topic_names=None, subscribed_topic_regex="[o]rders")
            await broker.join_consumer("other", subscribed_topic_names=None, subscribed_topic_regex="ord.*")
            assert await subscribed(broker, "other") == {"orders"}
            assert await subscribed(broker) == set()
        (event,) = [event for event in logs if event["log_level"] == "warning"]
        assert (event["event"], event["group"]) == ("regular expressions not resolved", GROUP)


def accept_batches_of(broker: GroupBroker, max_message_bytes: int) -> None:
    config = replace(DEFAULTS, max_message_bytes=max_message_bytes)
    broker.partition.reconfigure(config)


@pytest.mark.usefixtures("without_minimum")
async def test_a_regular_expression_that_matches_too_much_is_tried_again_when_topics_change(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await broker.join_consumer(subscribed_topic_names=None, subscribed_topic_regex="[^_]*")
        for other in ("a", "z"):
            await broker.join_consumer(other, subscribed_topic_names=None, subscribed_topic_regex="ord.*|inv.*")
        assert await subscribed(broker) == {"orders"}
        accept_batches_of(broker, 3_000)
        image = with_topic(broker.image, [1], topic="invoices", topic_id=INVOICES)
        for number in range(30):
            image = with_topic(image, [1], topic=f"{number:0200}", topic_id=TopicId(UUID(int=400 + number)))
        with capture_logs() as logs:
            change_topics(broker, image)
            assert await subscribed(broker, "a") == await subscribed(broker, "z") == {"orders", "invoices"}
            # A new expression is tried once, although the heartbeats of both members ask for it.
            fields: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "[^_]+"}
            for member_id in ("m1", "m2"):
                await broker.join_consumer(GROUP, member_id, **fields)
                assert await subscribed(broker) == {"orders"}
        refused = [(event["event"], event["group"]) for event in logs if event["log_level"] == "warning"]
        assert refused == [("regular expressions not resolved", GROUP)] * 2
        accept_batches_of(broker, 1 << 20)
        change_topics(broker, broker.image.replay([TopicDeleted(topic_id=ORDERS)]))
        assert len(await subscribed(broker)) == 31


@pytest.mark.usefixtures("without_minimum")
async def test_offsets_of_a_deleted_topic_that_cannot_be_deleted_are_given_up(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        await commit(broker, 5)
        accept_batches_of(broker, 70)
        with capture_logs() as logs:
            change_topics(broker, broker.image.replay([TopicDeleted(topic_id=ORDERS)]))
            await asyncio.sleep(10 * RETRY_S)
        assert [event["event"] for event in logs] == ["coordinator write refused"]
        assert await committed(broker) == 5
