from __future__ import annotations

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.groups import ListedGroup
from kraft.model.groups import ListGroupsRequest as Asked
from kraft.model.groups import ListGroupsResponse as Listed
from kraft.server.kafka_listener.apis.list_groups import ListGroupsApi
from kraft.wire.schema.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.unit.server.kafka_listener.apis.listener import answered


async def test_groups_are_listed_by_state_and_type() -> None:
    async def handle(asked: Asked) -> Listed:
        assert asked == Asked(states=("Stable",), types=("classic",))
        group = ListedGroup(group_id="g", protocol_type="consumer", state="Stable", type="classic")
        return Listed(groups=(group,))

    request = ListGroupsRequest(states_filter=("Stable",), types_filter=("classic",))
    response = await answered(ListGroupsApi(handle), request, 5, ListGroupsResponse)
    (group,) = response.groups
    assert (response.error_code, group.group_id, group.protocol_type) == (0, "g", "consumer")
    assert (group.group_state, group.group_type) == ("Stable", "classic")


async def test_nothing_is_listed_while_a_coordinator_is_loading() -> None:
    async def handle(_: Asked) -> Listed:
        raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")

    response = await answered(ListGroupsApi(handle), ListGroupsRequest(), 0, ListGroupsResponse)
    assert (response.error_code, response.groups) == (14, ())
