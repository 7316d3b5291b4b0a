from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from kraft.coordinator.classic.leave import left_member
from kraft.model.errors import ErrorCode, Refusal
from kraft.runtime.entropy import SystemEntropy
from kraft.server.coordinator import group_coordinators
from kraft.server.handlers.classic_groups import (
    LEAVING_AT_ONCE,
    WAITING_BYTES_MAX,
    join_refused,
    join_to_version,
    leave_from_version,
    leave_to_version,
)
from kraft.wire.declaration import replace as declared_replace
from kraft.wire.schema.describe_groups import DescribeGroupsRequest
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kraft.wire.schema.sync_group import SyncGroupRequest
from tests.support.classic_requests import offered
from tests.support.server.group_broker import CONTEXT, GROUP, GroupBroker, joining, syncing
from tests.support.server.replicas import settle
from tests.support.turn_counter import TurnCounter


async def test_a_member_joins_syncs_beats_and_leaves(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        classic = broker.handlers.classic
        joined = await broker.join()
        assert (joined.generation_id, joined.leader, joined.protocol_name) == (1, joined.member_id, "range")
        assert [each.metadata for each in joined.members] == [b"topics"]
        fields: dict[str, Any] = {"group_id": GROUP, "member_id": joined.member_id, "generation_id": 1}
        synced = await classic.sync(syncing(GROUP, joined.member_id, {joined.member_id: b"all"}), CONTEXT)
        assert synced.assignment == b"all"
        assert await classic.heartbeat(HeartbeatRequest(**fields)) == HeartbeatResponse(error_code=0)
        leaving = (MemberIdentity(member_id=joined.member_id), MemberIdentity(member_id="stranger"))
        left = await classic.leave(LeaveGroupRequest(group_id=GROUP, members=leaving))
        assert [each.error_code for each in left.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
        with pytest.raises(Refusal) as caught:
            await classic.heartbeat(HeartbeatRequest(**fields))
        assert caught.value.error_code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_new_member_is_given_an_id_to_join_with(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        required = await broker.handlers.classic.join(joining(), CONTEXT)
        assert (required.error_code, required.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
        assert required.member_id.startswith("tester-")


async def test_ids_of_members_begin_with_the_clients_and_end_in_a_random_uuid(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path, entropy=SystemEntropy()) as broker:
        given = [(await broker.handlers.classic.join(joining(), CONTEXT)).member_id for _ in range(100)]
        static = await broker.handlers.classic.join(joining("static", group_instance_id="desk-7"), CONTEXT)
    uuids = [UUID(each.removeprefix("tester-")) for each in given]
    uuids.append(UUID(static.member_id.removeprefix("desk-7-")))
    assert all(each.startswith("tester-") for each in given)
    assert static.member_id.startswith("desk-7-"), "static members are named by their instance ids"
    assert {each.version for each in uuids} == {4}
    assert len(set(uuids)) == 101


async def test_a_client_that_goes_while_it_waits_leaves_nothing_behind(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        classic = broker.handlers.classic
        waiting = asyncio.create_task(broker.join(protocols=(offered("range", bytes(1_000)),)))
        await settle()
        assert classic.waiting_bytes > 1_000
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert classic.waiting_bytes == 0


async def test_requests_that_wait_are_refused_beyond_a_limit(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        classic = broker.handlers.classic
        required = await classic.join(joining(), CONTEXT)
        large = joining("other", protocols=(offered("range", bytes(WAITING_BYTES_MAX)),))
        for refused in (
            classic.join(large, CONTEXT),
            classic.sync(syncing(GROUP, "m", {"m": bytes(1 << 26)}), CONTEXT),
        ):
            with pytest.raises(Refusal) as caught:
                await refused
            assert caught.value.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await classic.join(joining(member_id=required.member_id), CONTEXT)).error_code == ErrorCode.NONE


async def test_a_heartbeat_is_accepted_while_the_coordinator_is_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with GroupBroker(tmp_path) as broker:

        async def loading(*_: object) -> None:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")

        monkeypatch.setattr(broker.coordinators, "decide", loading)
        beat = HeartbeatRequest(group_id=GROUP, member_id="m", generation_id=1)
        assert await broker.handlers.classic.heartbeat(beat) == HeartbeatResponse(error_code=0)
        with pytest.raises(Refusal):
            await broker.handlers.classic.sync(syncing(GROUP, "m"), CONTEXT)
        with pytest.raises(Refusal):
            await broker.handlers.classic.heartbeat(declared_replace(beat, group_id=""))


async def test_new_members_are_refused_when_members_take_all_the_memory_meant_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with GroupBroker(tmp_path) as broker:
        classic = broker.handlers.classic
        member_id = await broker.stable()
        monkeypatch.setattr(group_coordinators, "MEMBERS_BYTES_MAX", broker.coordinators.members_bytes + 3_000)
        required = await classic.join(joining("other"), CONTEXT)
        assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
        large = (offered("range", bytes(3_000)),)
        for refused in (joining("third"), joining(member_id=member_id, protocols=large)):
            with pytest.raises(Refusal) as caught:
                await classic.join(refused, CONTEXT)
            assert caught.value.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        again = await classic.join(joining(member_id=member_id), CONTEXT)
        assert again.generation_id == 2, "a member that is there may join again"
        await broker.leave(member_id)
        await asyncio.sleep(10.1)
        assert broker.coordinators.members_bytes < 2_500, "only an empty group and an id that was not used are left"
        assert (await classic.join(joining("third"), CONTEXT)).error_code == ErrorCode.MEMBER_ID_REQUIRED


async def test_members_that_leave_in_one_request_are_removed_some_at_a_time(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        classic = broker.handlers.classic
        names = [f"i-{number}" for number in range(2 * LEAVING_AT_ONCE + 1)]
        joins = [asyncio.create_task(classic.join(joining(group_instance_id=name), CONTEXT)) for name in names]
        await asyncio.gather(*joins)
        leaving = (*names, "stranger", names[0])
        members = tuple(MemberIdentity(member_id="", group_instance_id=name) for name in leaving)
        async with TurnCounter() as others:
            left = await classic.leave(LeaveGroupRequest(group_id=GROUP, members=members))
        assert others.turns >= 2
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert [each.error_code for each in left.members] == [*[ErrorCode.NONE] * len(names), unknown, unknown]
        (described,) = (await broker.handlers.groups.describe(DescribeGroupsRequest(groups=(GROUP,)))).groups
        assert described.members == ()


# --- Kafka's protocol --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "required"), [(3, False), (4, True)])
async def test_a_new_member_is_given_an_id_since_version_4(tmp_path: Path, version: int, required: bool) -> None:
    async with GroupBroker(tmp_path) as broker:
        joined = await broker.handlers.classic.join(joining(), replace(CONTEXT, version=version))
        assert (joined.error_code == ErrorCode.MEMBER_ID_REQUIRED) == required


@pytest.mark.parametrize(("version", "protocol"), [(6, ""), (7, None)])
def test_a_refused_join_has_no_generation_and_no_protocol(version: int, protocol: str | None) -> None:
    request = joining(member_id="m")
    refused = join_to_version(request, join_refused(request, Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "no")), version)
    assert (refused.error_code, refused.generation_id, refused.member_id) == (25, -1, "m")
    assert (refused.protocol_name, refused.leader, refused.members) == (protocol, "", ())


async def test_the_protocol_may_be_left_out_before_version_5_of_sync(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        member_id = await broker.stable()
        sync = SyncGroupRequest(group_id=GROUP, member_id=member_id, generation_id=1, assignments=())
        synced = await broker.handlers.classic.sync(sync, replace(CONTEXT, version=4))
        assert synced.assignment == b"all"
        for said in ({}, {"protocol_type": "consumer"}, {"protocol_name": "range"}):
            with pytest.raises(Refusal, match="INCONSISTENT_GROUP_PROTOCOL"):
                await broker.handlers.classic.sync(declared_replace(sync, **said), replace(CONTEXT, version=5))


@pytest.mark.parametrize(("group_id", "member_id", "code"), [("g", "m", 0), ("g", "n", 25), ("elsewhere", "m", 16)])
def test_one_member_leaves_before_version_3(group_id: str, member_id: str, code: int) -> None:
    request = leave_from_version(LeaveGroupRequest(group_id=group_id, member_id=member_id), 2)
    assert request.members == (MemberIdentity(member_id=member_id),)
    left = LeaveGroupResponse(error_code=16)
    if group_id == "g":
        left = LeaveGroupResponse(error_code=0, members=(left_member(request.members[0], ErrorCode(code)),))
    assert leave_to_version(request, left, 2).error_code == code
    assert leave_from_version(request, 3) is request
    assert leave_to_version(request, left, 3) is left


def test_a_client_that_may_not_join_gets_no_member_id() -> None:
    refusals = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.NOT_COORDINATOR)
    answers = [join_refused(joining(member_id="m"), Refusal(code, "")) for code in refusals]
    assert [(each.error_code, each.member_id) for each in answers] == [(refusals[0], ""), (refusals[1], "m")]
