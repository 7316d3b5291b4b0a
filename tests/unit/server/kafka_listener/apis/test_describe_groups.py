from __future__ import annotations

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.groups import DescribedGroup, DescribedMember
from kraft.model.groups import DescribeGroupsRequest as Asked
from kraft.model.groups import DescribeGroupsResponse as Described
from kraft.server.kafka_listener.apis.authorized_operations import NOT_ASKED, ON_GROUP
from kraft.server.kafka_listener.apis.describe_groups import DescribeGroupsApi
from kraft.wire.schema.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tests.unit.server.kafka_listener.apis.listener import answered


async def handle(asked: Asked) -> Described:
    """Every group but `none` exists."""
    member = DescribedMember(
        member_id="m",
        group_instance_id="static",
        client_id="tester",
        client_host="/10.0.0.7",
        metadata=b"topics",
        assignment=b"all",
    )
    return Described(
        groups=tuple(
            DescribedGroup(group_id="none", error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="there is none")
            if group_id == "none"
            else DescribedGroup(
                group_id=group_id, state="Stable", protocol_type="consumer", protocol="range", members=(member,)
            )
            for group_id in asked.group_ids
        )
    )


async def test_a_group_is_described_with_its_members() -> None:
    request = DescribeGroupsRequest(groups=("g",), include_authorized_operations=True)
    (group,) = (await answered(DescribeGroupsApi(handle), request, 6, DescribeGroupsResponse)).groups
    assert (group.error_code, group.error_message, group.group_state) == (0, None, "Stable")
    assert (group.protocol_type, group.protocol_data, group.authorized_operations) == ("consumer", "range", ON_GROUP)
    (member,) = group.members
    assert (member.member_id, member.group_instance_id) == ("m", "static")
    assert (member.client_id, member.client_host) == ("tester", "/10.0.0.7")
    assert (member.member_metadata, member.member_assignment) == (b"topics", b"all")


@pytest.mark.parametrize(("version", "code", "message"), [(5, 0, None), (6, 69, "there is none")])
async def test_a_group_that_does_not_exist_is_dead(version: int, code: int, message: str | None) -> None:
    request = DescribeGroupsRequest(groups=("none",))
    (group,) = (await answered(DescribeGroupsApi(handle), request, version, DescribeGroupsResponse)).groups
    assert (group.error_code, group.error_message, group.group_state) == (code, message, "Dead")
    assert (group.members, group.authorized_operations) == ((), NOT_ASKED)
