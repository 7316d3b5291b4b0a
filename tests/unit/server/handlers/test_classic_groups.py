from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kraft.coordinator.classic.messages import OfferedProtocol
from kraft.model.classic_groups import (
    Heartbeat,
    HeartbeatAccepted,
    JoinGroupRequest,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
)
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.group_calls import JOIN_GROUP
from kraft.server.coordinator import group_coordinators
from kraft.server.handlers.classic_groups import LEAVING_AT_ONCE, WAITING_BYTES_MAX
from kraft.wire.schema.describe_groups import DescribeGroupsRequest
from tests.support.server.group_broker import CONTEXT, GROUP, GroupBroker, joining
from tests.support.server.replicas import settle
from tests.support.turn_counter import TurnCounter


async def test_a_member_joins_syncs_beats_and_leaves(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        classic = broker.handlers.classic
        joined = await broker.join()
        assert (joined.generation, joined.leader, joined.protocol) == (1, joined.member_id, "range")
        assert [each.metadata for each in joined.members] == [b"topics"]
        fields: dict[str, Any] = {"group_id": GROUP, "member_id": joined.member_id, "generation": 1}
        synced = await classic.sync(SyncGroup(**fields, assignments={joined.member_id: b"all"}))
        assert synced.assignment == b"all"
        assert await classic.heartbeat(Heartbeat(**fields)) == HeartbeatAccepted()
        leaving = (LeavingMember(member_id=joined.member_id), LeavingMember(member_id="stranger"))
        left = await classic.leave(LeaveGroup(group_id=GROUP, members=leaving))
        assert [each.error_code for each in left.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
        with pytest.raises(Refusal) as caught:
            await classic.heartbeat(Heartbeat(**fields))
        assert caught.value.error_code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_new_member_is_given_an_id_to_join_with(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        required = await broker.handlers.classic.join(joining())
        assert (required.error_code, required.generation) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
        assert required.member_id.startswith("tester-")


async def test_a_member_that_joins_over_grpc_is_known_by_its_address(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        (served,) = (each for each in broker.handlers.served() if each.call is JOIN_GROUP)
        request = JoinGroupRequest(
            group_id=GROUP,
            group_instance_id="static",
            client_id="tester",
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(OfferedProtocol("range", b""),),
        )
        await served.handler(request, CONTEXT)
        (group,) = (await broker.handlers.groups.describe(DescribeGroupsRequest(groups=(GROUP,)))).groups
        assert [(each.group_instance_id, each.client_host) for each in group.members] == [("static", "/10.0.0.7")]


async def test_a_client_that_goes_while_it_waits_leaves_nothing_behind(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        classic = broker.handlers.classic
        waiting = asyncio.create_task(broker.join(protocols=(OfferedProtocol("range", bytes(1_000)),)))
        await settle()
        assert classic.waiting_bytes > 1_000
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert classic.waiting_bytes == 0


async def test_requests_that_wait_are_refused_beyond_a_limit(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        classic = broker.handlers.classic
        required = await classic.join(joining())
        large = joining("other", protocols=(OfferedProtocol("range", bytes(WAITING_BYTES_MAX)),))
        for refused in (
            classic.join(large),
            classic.sync(SyncGroup(group_id=GROUP, member_id="m", generation=1, assignments={"m": bytes(1 << 26)})),
        ):
            with pytest.raises(Refusal) as caught:
                await refused
            assert caught.value.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await classic.join(joining(member_id=required.member_id))).error_code is ErrorCode.NONE


async def test_a_heartbeat_is_accepted_while_the_coordinator_is_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with GroupBroker(tmp_path) as broker:

        async def loading(*_: object) -> None:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")

        monkeypatch.setattr(broker.coordinators, "decide", loading)
        beat = Heartbeat(group_id=GROUP, member_id="m", generation=1)
        assert await broker.handlers.classic.heartbeat(beat) == HeartbeatAccepted()
        with pytest.raises(Refusal):
            await broker.handlers.classic.sync(SyncGroup(group_id=GROUP, member_id="m", generation=1))


async def test_new_members_are_refused_when_members_take_all_the_memory_meant_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with GroupBroker(tmp_path) as broker:
        classic = broker.handlers.classic
        member_id = await broker.stable()
        monkeypatch.setattr(group_coordinators, "MEMBERS_BYTES_MAX", broker.coordinators.members_bytes + 3_000)
        required = await classic.join(joining("other"))
        assert required.error_code is ErrorCode.MEMBER_ID_REQUIRED
        large = (OfferedProtocol("range", bytes(3_000)),)
        for refused in (joining("third"), joining(member_id=member_id, protocols=large)):
            with pytest.raises(Refusal) as caught:
                await classic.join(refused)
            assert caught.value.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        again = await classic.join(joining(member_id=member_id))
        assert again.generation == 2, "a member that is there may join again"
        await broker.leave(member_id)
        await asyncio.sleep(10.1)
        assert broker.coordinators.members_bytes < 2_500, "only an empty group and an id that was not used are left"
        assert (await classic.join(joining("third"))).error_code is ErrorCode.MEMBER_ID_REQUIRED


async def test_members_that_leave_in_one_request_are_removed_some_at_a_time(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        classic = broker.handlers.classic
        names = [f"i-{number}" for number in range(2 * LEAVING_AT_ONCE + 1)]
        joins = [asyncio.create_task(classic.join(joining(group_instance_id=name))) for name in names]
        await asyncio.gather(*joins)
        leaving = (*names, "stranger", names[0])
        members = tuple(LeavingMember(member_id="", group_instance_id=name) for name in leaving)
        async with TurnCounter() as others:
            left = await classic.leave(LeaveGroup(group_id=GROUP, members=members))
        assert others.turns >= 2
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert [each.error_code for each in left.members] == [*[ErrorCode.NONE] * len(names), unknown, unknown]
        (described,) = (await broker.handlers.groups.describe(DescribeGroupsRequest(groups=(GROUP,)))).groups
        assert described.members == ()
