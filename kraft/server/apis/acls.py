"""APIs for ACLs."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, TypeVar

from kraft.model.access import Operation, ResourceType
from kraft.rpc.acl_calls import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from kraft.rpc.call import Handler
from kraft.server.access.guard import Permission
from kraft.server.apis import audited
from kraft.server.apis.api import Api, DecidedBy
from kraft.server.apis.handlers import forwarded
from kraft.server.apis.sides import ControllerSide, Side
from kraft.server.handlers import acls
from kraft.wire.api_keys import ApiKey
from kraft.wire.schema.create_acls import CreateAclsRequest, CreateAclsResponse
from kraft.wire.schema.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kraft.wire.schema.describe_acls import DescribeAclsRequest, DescribeAclsResponse

Request = TypeVar("Request")
Response = TypeVar("Response")


def _authorized(side: Side, handler: Handler[Request, Response]) -> Handler[Request, Response]:
    """Return the handler; without an authorizer, what refuses every request, as in Kafka."""
    return acls.refuse_without_authorizer if side.askers is None else handler


def _describe(side: Side) -> Handler[DescribeAclsRequest, DescribeAclsResponse]:
    return _authorized(side, lambda request: acls.describe(side.image(), request))


def _create(controller: ControllerSide) -> Handler[CreateAclsRequest, CreateAclsResponse]:
    return _authorized(controller, partial(acls.create, controller.decisions))


def _delete(controller: ControllerSide) -> Handler[DeleteAclsRequest, DeleteAclsResponse]:
    return _authorized(controller, partial(acls.delete, controller.decisions))


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
        at_controller=_create,
        audited=audited.CREATE_ACLS,
        needs=(Permission(Operation.ALTER, ResourceType.CLUSTER),),
        refused=acls.creations_refused,
    ),
    Api(
        key=ApiKey.DELETE_ACLS,
        call=DELETE_ACLS,
        decided_by=DecidedBy.CONTROLLER,
        handler=forwarded(DELETE_ACLS, acls.is_deleted),
        at_controller=_delete,
        audited=audited.DELETE_ACLS,
        needs=(Permission(Operation.ALTER, ResourceType.CLUSTER),),
        refused=acls.deletions_refused,
    ),
)
