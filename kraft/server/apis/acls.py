"""APIs for ACLs."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kraft.model.access import Operation, ResourceType
from kraft.rpc.acl_calls import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from kraft.rpc.call import Handler
from kraft.server.access.guard import Permission
from kraft.server.apis.api import Api, DecidedBy
from kraft.server.apis.handlers import forwarded
from kraft.server.apis.sides import Side
from kraft.server.handlers import acls
from kraft.wire.api_keys import ApiKey
from kraft.wire.schema.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def _describe(side: Side) -> Handler[DescribeAclsRequest, DescribeAclsResponse]:
    return lambda request: acls.describe(side.image(), request)


ACL_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.DESCRIBE_ACLS,
        call=DESCRIBE_ACLS,
        decided_by=DecidedBy.BROKER,
        handler=_describe,
        at_controller=_describe,
        needs=(Permission(Operation.DESCRIBE, ResourceType.CLUSTER),),
    ),
    Api(
        key=ApiKey.CREATE_ACLS,
        call=CREATE_ACLS,
        decided_by=DecidedBy.CONTROLLER,
        handler=forwarded(CREATE_ACLS, acls.is_created),
        at_controller=lambda controller: partial(acls.create, controller.decisions),
        needs=(Permission(Operation.ALTER, ResourceType.CLUSTER),),
        refused=acls.creations_refused,
    ),
    Api(
        key=ApiKey.DELETE_ACLS,
        call=DELETE_ACLS,
        decided_by=DecidedBy.CONTROLLER,
        handler=forwarded(DELETE_ACLS, acls.is_deleted),
        at_controller=lambda controller: partial(acls.delete, controller.decisions),
        needs=(Permission(Operation.ALTER, ResourceType.CLUSTER),),
        refused=acls.deletions_refused,
    ),
)
