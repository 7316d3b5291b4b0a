from __future__ import annotations

from pathlib import Path

import pytest

from kraft.coordinator.classic.messages import JoinGroup, OfferedProtocol
from kraft.model.classic_groups import JoinedGroup, JoinedMember
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.join_group import JoinGroupApi
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tests.support.server.group_broker import GROUP, GroupBroker
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

REQUEST = JoinGroupRequest(
    group_id=GROUP,
    session_timeout_ms=10_000,
    member_id="m",
    protocol_type="consumer",
    protocols=(JoinGroupRequestProtocol(name="range", metadata=b"topics"),),
)


@pytest.mark.parametrize("version", versions_of(JoinGroupRequest))
async def test_a_request_says_what_its_version_understands(version: int) -> None:
    commands: list[JoinGroup] = []

    async def join(command: JoinGroup) -> JoinedGroup:
        commands.append(command)
        return JoinedGroup(
            member_id="m",
            generation=3,
            protocol_type="consumer",
            protocol="range",
            leader="m",
            members=(JoinedMember(member_id="m", group_instance_id=None, metadata=b"topics"),),
        )

    response = await answered(JoinGroupApi(join), REQUEST, version, JoinGroupResponse)
    (command,) = commands
    assert (command.group_id, command.member_id, command.session_timeout_ms) == (GROUP, "m", 10_000)
    assert (command.client_id, command.client_host) == ("tester", "/10.0.0.7")
    assert command.protocols == (OfferedProtocol("range", b"topics"),)
    assert (command.member_id_required, command.can_skip_assignment) == (version >= 4, version >= 9)
    assert (response.error_code, response.generation_id, response.protocol_name) == (0, 3, "range")
    assert (response.leader, response.members[0].metadata) == ("m", b"topics")


@pytest.mark.parametrize(("version", "protocol"), [(6, ""), (7, None)])
async def test_a_refusal_has_no_generation_and_no_protocol(version: int, protocol: str | None) -> None:
    async def refuse(_: JoinGroup) -> JoinedGroup:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "no")

    response = await answered(JoinGroupApi(refuse), REQUEST, version, JoinGroupResponse)
    assert (response.error_code, response.generation_id, response.member_id) == (25, -1, "m")
    assert (response.protocol_name, response.leader, response.members) == (protocol, "", ())


async def test_a_new_member_is_given_its_id(tmp_path: Path) -> None:
    async with GroupBroker(tmp_path) as broker:
        api = JoinGroupApi(broker.handlers.classic.join)
        new = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=REQUEST.protocols,
        )
        response = await answered(api, new, 4, JoinGroupResponse)
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert response.member_id.startswith("tester-")
