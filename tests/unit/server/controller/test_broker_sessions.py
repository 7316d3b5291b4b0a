"""Brokers register, keep their sessions by heartbeats, and are fenced when these stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kraft.metadata.new_topics import new_topic
from kraft.model.brokers import FenceBrokerRequest, UnfenceBrokerRequest
from kraft.model.errors import ErrorCode
from kraft.model.heartbeat import BrokerHeartbeatRequest
from kraft.model.ids import BrokerEpoch, BrokerId, DirectoryId
from tests.support.cluster_images import registration
from tests.support.server.replicas import until
from tests.unit.server.controller.controlling import SESSION_S, Parts, controller

COUNTED = {"event", "leaders_elected", "leaderless", "isr_shrunk"}


def counted(events: Iterable[MutableMapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in event.items() if name in COUNTED} for event in events]


@asynccontextmanager
async def two_brokers_in_service() -> AsyncIterator[tuple[Parts, list[BrokerEpoch]]]:
    """Yield a controller and its brokers' epochs; broker 1 leads two of four partitions that both hold."""
    async with controller() as parts:
        epochs = [await parts.register(broker_id) for broker_id in (1, 2)]
        for broker_id, epoch in enumerate(epochs, start=1):
            await parts.beat(broker_id, epoch)
        await parts.create_topics(new_topic("orders", partitions=4, replication_factor=2))
        yield parts, epochs


async def test_no_broker_registers_before_the_cluster_has_its_id() -> None:
    parts = Parts()
    parts.quorum.lead(1)
    result = await parts.calls.register_broker(registration(1))
    assert (result.error_code, parts.quorum.payloads) == (ErrorCode.NOT_CONTROLLER, [])


async def test_a_broker_is_put_into_service_by_the_heartbeat_that_shows_that_it_acted_on_its_registration() -> None:
    async with controller() as parts:
        epoch = await parts.register(1)
        assert await parts.beat(1, epoch, index=parts.controller.host.committed_index - 1)
        assert not await parts.beat(1, epoch)
        assert not parts.broker(1).fenced


async def test_a_broker_that_falls_silent_is_fenced_when_its_session_is_over() -> None:
    async with controller() as parts:
        epoch = await parts.register(1)
        await parts.beat(1, epoch)
        await asyncio.sleep(SESSION_S - 0.2)
        assert not parts.broker(1).fenced
        await asyncio.sleep(0.5)
        assert parts.broker(1).fenced
        assert not await parts.beat(1, epoch), "it was only slow, and is back"


async def test_no_broker_is_fenced_for_silence_in_an_earlier_term() -> None:
    async with controller() as parts:
        epoch = await parts.register(1)
        await parts.beat(1, epoch)
        parts.quorum.lose()
        await asyncio.sleep(5 * SESSION_S)
        assert not parts.broker(1).fenced
        parts.quorum.lead(2)
        await asyncio.sleep(SESSION_S - 0.2)
        assert not parts.broker(1).fenced


async def test_a_broker_that_comes_back_while_it_is_being_fenced_is_watched_over() -> None:
    async with controller() as parts:
        epoch = await parts.register(1)
        await parts.beat(1, epoch)
        parts.quorum.commits_at_once = False
        await until(lambda: bool(parts.quorum.waiting), SESSION_S + 1)
        parts.quorum.commits_at_once = True
        # The fencing is committed, but its caller has not resumed yet when the broker's heartbeat arrives.
        parts.quorum.commit()
        assert not await parts.beat(1, epoch)
        await asyncio.sleep(2 * SESSION_S)
        assert parts.broker(1).fenced, "it was not heard from for two sessions"


async def test_another_process_under_the_id_of_a_broker_that_lives_is_refused_until_its_session_is_over() -> None:
    async with controller() as parts:
        epoch = await parts.register(1)
        await parts.beat(1, epoch)
        another = replace(registration(1, process=2), directory_ids=[DirectoryId(UUID(int=77))])
        refused = await parts.calls.register_broker(another)
        assert refused.error_code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        await asyncio.sleep(SESSION_S + 0.5)
        assert (await parts.calls.register_broker(another)).broker_epoch > epoch


async def test_a_broker_of_another_cluster_is_refused() -> None:
    async with controller() as parts:
        result = await parts.calls.register_broker(registration(1, cluster_id="another"))
        assert result.error_code is ErrorCode.INCONSISTENT_CLUSTER_ID
        assert "check cluster.id" in result.error_message


async def test_a_controlled_shutdown_ends_with_the_leave_to_stop() -> None:
    async with controller() as parts:
        epoch = await parts.register(1)
        await parts.beat(1, epoch)
        request = BrokerHeartbeatRequest(
            broker_id=BrokerId(1), broker_epoch=epoch, metadata_index=99, wants_shutdown=True
        )
        answers = [await parts.calls.heartbeat(request) for _ in range(2)]
        assert [answer.may_stop for answer in answers] == [False, True]
        assert parts.broker(1).fenced


async def test_a_broker_keeps_its_session_for_as_long_as_its_shutdown_takes() -> None:
    async with two_brokers_in_service() as (parts, epochs):
        assert not await parts.beat(1, epochs[0], wants_shutdown=True)
        for _ in range(int(SESSION_S) + 2):
            await asyncio.sleep(1)
            await parts.beat(1, epochs[0])
            assert parts.broker(1).in_controlled_shutdown
            assert not parts.broker(1).fenced


@pytest.mark.parametrize("is_fenced_first", [False, True])
async def test_a_heartbeat_that_comes_after_the_leave_to_stop_begins_no_session(is_fenced_first: bool) -> None:
    """A stopped broker may be unregistered at once, though its last periodic heartbeat was overtaken."""
    async with controller() as parts:
        epoch = await parts.register(1)
        await parts.beat(1, epoch)
        if is_fenced_first:
            await parts.fence(FenceBrokerRequest(broker_id=1, timeout_ms=1))
        while not await parts.beat(1, epoch, wants_shutdown=True):
            pass
        await parts.beat(1, epoch)
        await parts.unregister(1)
        assert BrokerId(1) not in parts.controller.host.image.brokers


async def test_what_a_broker_that_comes_or_goes_changes_is_counted_in_one_line_of_the_log() -> None:
    async with two_brokers_in_service() as (parts, epochs):
        with capture_logs() as events:
            await parts.fence(FenceBrokerRequest(broker_id=1, timeout_ms=1))
            await parts.unfence(UnfenceBrokerRequest(broker_id=1, timeout_ms=1))
            await parts.beat(1, epochs[0])
            again = await parts.calls.register_broker(registration(2, process=2))
            await parts.beat(2, again.broker_epoch)
        assert counted(events) == [
            {"event": "operator fence set", "leaders_elected": 2, "isr_shrunk": 4},
            {"event": "operator fence removed"},
            {"event": "broker unfencing committed"},
            {"event": "broker registration committed", "leaderless": 4},
            {"event": "broker unfencing committed", "leaders_elected": 4},
        ]


async def test_the_steps_of_a_controlled_shutdown_are_logged_with_counts() -> None:
    async with two_brokers_in_service() as (parts, epochs):
        with capture_logs() as events:
            assert not await parts.beat(1, epochs[0], wants_shutdown=True)
            assert await parts.beat(1, epochs[0], wants_shutdown=True)
        assert counted(events) == [
            {"event": "controlled shutdown accepted", "leaders_elected": 2, "isr_shrunk": 4},
            {"event": "controlled shutdown committed"},
        ]
