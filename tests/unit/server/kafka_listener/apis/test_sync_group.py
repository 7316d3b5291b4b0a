from __future__ import annotations

import pytest

from kraft.model.classic_groups import SyncedGroup, SyncGroup
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.sync_group import SyncGroupApi
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.unit.server.kafka_listener.apis.listener import answered

ASSIGNMENTS = (SyncGroupRequestAssignment(member_id="m", assignment=b"all"),)


async def sync(command: SyncGroup) -> SyncedGroup:
    if command.generation != 3:
        raise Refusal(ErrorCode.ILLEGAL_GENERATION, "no")
    return SyncedGroup(protocol_type="consumer", protocol="range", assignment=command.assignments["m"])


async def test_a_member_gets_its_assignment() -> None:
    request = SyncGroupRequest(
        group_id="g",
        generation_id=3,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
        assignments=ASSIGNMENTS,
    )
    response = await answered(SyncGroupApi(sync), request, 5, SyncGroupResponse)
    assert (response.error_code, response.assignment) == (0, b"all")
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize(("version", "generation", "code"), [(0, 3, 0), (4, 3, 0), (4, 2, 22), (5, 3, 23)])
async def test_the_protocol_may_be_left_out_before_version_5(version: int, generation: int, code: int) -> None:
    request = SyncGroupRequest(group_id="g", generation_id=generation, member_id="m", assignments=ASSIGNMENTS)
    response = await answered(SyncGroupApi(sync), request, version, SyncGroupResponse)
    assert (response.error_code, response.assignment) == (code, b"all" if code == 0 else b"")
