"""Calls of the public gRPC API to coordinators of groups, one row each."""

from __future__ import annotations

from typing import Final

from kraft.model.group_lags import DescribeGroupLagsRequest, DescribeGroupLagsResponse
from kraft.rpc.call import Call, service_of
from kraft.rpc.pb import groups_pb2
from kraft.wire.schema.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kraft.wire.schema.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kraft.wire.schema.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kraft.wire.schema.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kraft.wire.schema.list_groups import ListGroupsRequest, ListGroupsResponse
from kraft.wire.schema.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kraft.wire.schema.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kraft.wire.schema.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse
from kraft.wire.schema.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

_GROUPS: Final = service_of(groups_pb2.DESCRIPTOR, "Groups")

FIND_COORDINATOR: Final = Call(_GROUPS, "FindCoordinator", FindCoordinatorRequest, FindCoordinatorResponse)
JOIN_GROUP: Final = Call(_GROUPS, "JoinGroup", JoinGroupRequest, JoinGroupResponse)
SYNC_GROUP: Final = Call(_GROUPS, "SyncGroup", SyncGroupRequest, SyncGroupResponse)
HEARTBEAT: Final = Call(_GROUPS, "Heartbeat", HeartbeatRequest, HeartbeatResponse)
LEAVE_GROUP: Final = Call(_GROUPS, "LeaveGroup", LeaveGroupRequest, LeaveGroupResponse)
CONSUMER_GROUP_HEARTBEAT: Final = Call(
    _GROUPS, "ConsumerGroupHeartbeat", ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
)
OFFSET_COMMIT: Final = Call(_GROUPS, "OffsetCommit", OffsetCommitRequest, OffsetCommitResponse)
TXN_OFFSET_COMMIT: Final = Call(_GROUPS, "TxnOffsetCommit", TxnOffsetCommitRequest, TxnOffsetCommitResponse)
OFFSET_FETCH: Final = Call(_GROUPS, "OffsetFetch", OffsetFetchRequest, OffsetFetchResponse)
OFFSET_DELETE: Final = Call(_GROUPS, "OffsetDelete", OffsetDeleteRequest, OffsetDeleteResponse)
LIST_GROUPS: Final = Call(_GROUPS, "ListGroups", ListGroupsRequest, ListGroupsResponse)
DESCRIBE_GROUPS: Final = Call(_GROUPS, "DescribeGroups", DescribeGroupsRequest, DescribeGroupsResponse)
CONSUMER_GROUP_DESCRIBE: Final = Call(
    _GROUPS, "ConsumerGroupDescribe", ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
)
DELETE_GROUPS: Final = Call(_GROUPS, "DeleteGroups", DeleteGroupsRequest, DeleteGroupsResponse)
DESCRIBE_GROUP_LAGS: Final = Call(_GROUPS, "DescribeGroupLags", DescribeGroupLagsRequest, DescribeGroupLagsResponse)
