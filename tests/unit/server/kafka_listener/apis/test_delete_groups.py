from __future__ import annotations

from kraft.model.errors import ErrorCode
from kraft.model.groups import DeleteGroupsRequest as Asked
from kraft.model.groups import DeleteGroupsResponse as Deleted
from kraft.model.groups import GroupResult
from kraft.server.kafka_listener.apis.delete_groups import DeleteGroupsApi
from kraft.wire.schema.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tests.unit.server.kafka_listener.apis.listener import answered


async def test_each_group_has_a_result() -> None:
    async def handle(asked: Asked) -> Deleted:
        assert asked.group_ids == ("empty", "full")
        refused = GroupResult(group_id="full", error_code=ErrorCode.NON_EMPTY_GROUP, error_message="has members")
        return Deleted(groups=(GroupResult(group_id="empty"), refused))

    request = DeleteGroupsRequest(groups_names=("empty", "full"))
    response = await answered(DeleteGroupsApi(handle), request, 2, DeleteGroupsResponse)
    assert [(each.group_id, each.error_code) for each in response.results] == [("empty", 0), ("full", 68)]
