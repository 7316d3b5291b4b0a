"""CreateAcls, DescribeAcls and DeleteAcls.

There may be 100,000 ACLs, and a request may be about 10,000 of them: other tasks have their turn in between.
"""

from __future__ import annotations

from typing import Final, NoReturn

from kraft.metadata.acl_decisions import (
    ACLS_PER_REQUEST_MAX,
    FILTERS_PER_REQUEST_MAX,
    Found,
    create_acls,
    delete_acls,
    deleted_entry,
    matching_acl,
    refused_creation,
    refused_filter,
    too_many_match,
    valid_entry,
)
from kraft.metadata.acl_filters import AclFilter, acl_filter
from kraft.metadata.acls import AclEntry, Acls, Pattern
from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers.decisions import Decisions
from kraft.server.loop.turns import Turns
from kraft.wire.schema.create_acls import CreateAclsRequest, CreateAclsResponse
from kraft.wire.schema.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kraft.wire.schema.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

ACLS_AT_ONCE: Final = 1_000
"""ACLs that are described, or checked, before other tasks have their turn."""

_Descriptions = tuple[AclDescription] | list[AclDescription]

_PART: Final = 20
"""What a part of the ACLs takes in which a filter finds nothing, in ACLs."""


async def refuse_without_authorizer(_: object) -> NoReturn:
    problem = (
        "no authorizer is configured: set authorizer.class.name, and super.users, in the file of each node; in a"
        " cluster in use by the steps of SECURITY.md, because all others are refused until they have ACLs"
    )
    raise Refusal(ErrorCode.SECURITY_DISABLED, problem)


async def describe(image: MetadataImage, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return the ACLs that match. Raises Refusal."""
    wanted, turns = acl_filter(request), Turns(ACLS_AT_ONCE)
    of_pattern: dict[tuple[int, Pattern], _Descriptions] = {}
    # Most patterns have one ACL, and few principals have most of them: what is equal is one object, because the
    # collector of cycles would look at hundreds of thousands in one piece.
    alone: dict[tuple[str, str, int, int], tuple[AclDescription]] = {}
    for part in wanted.found_in(image.acls):
        for each in part:
            said = each.principal, each.host, each.operation.value, each.permission.value
            if said not in alone:
                alone[said] = (_description(*said),)
            key = each.resource_type.value, each.pattern
            others = of_pattern.get(key)
            if isinstance(others, list):
                others += alone[said]
            else:
                of_pattern[key] = alone[said] if others is None else [*others, *alone[said]]
        await turns.done(_PART + len(part))
    resources: list[DescribeAclsResource] = []
    while of_pattern:
        (resource_type, (pattern_type, name)), descriptions = of_pattern.popitem()
        resources.append(
            DescribeAclsResource(
                resource_type=resource_type, resource_name=name, pattern_type=pattern_type, acls=tuple(descriptions)
            )
        )
        await turns.done()
    return DescribeAclsResponse(error_code=ErrorCode.NONE, error_message=None, resources=tuple(resources))


def _description(principal: str, host: str, operation: int, permission_type: int) -> AclDescription:
    return AclDescription(principal=principal, host=host, operation=operation, permission_type=permission_type)


async def create(decisions: Decisions, request: CreateAclsRequest) -> CreateAclsResponse:
    """The controller's side. Raises Refusal NOT_CONTROLLER while this node is not the active controller."""
    wanted: list[AclEntry | Refusal] = []
    turns = Turns(ACLS_AT_ONCE)
    for creation in request.creations:
        try:
            wanted.append(valid_entry(creation))
        except Refusal as refusal:
            wanted.append(refusal)
        await turns.done()
    return await decisions.submit(lambda image: create_acls(image, wanted))


async def delete(decisions: Decisions, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """The controller's side. Raises Refusal NOT_CONTROLLER while this node is not the active controller."""
    decisions.check_active()
    if len(request.filters) > FILTERS_PER_REQUEST_MAX:
        problem = f"more than {FILTERS_PER_REQUEST_MAX} filters in one request: delete fewer at a time"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    acls, turns = decisions.image.acls, Turns(ACLS_AT_ONCE)
    filters: list[AclFilter | Refusal] = []
    found: list[Found] = []
    left = ACLS_PER_REQUEST_MAX
    for each in request.filters:
        try:
            wanted = acl_filter(each)
            found.append(await _found(acls, wanted, left, turns))
            filters.append(wanted)
            left -= len(found[-1])
        except Refusal as refusal:
            filters.append(refusal)
            found.append({})
        await turns.done()
    return await decisions.submit(lambda image: delete_acls(image, filters, found, acls))


def is_created(image: MetadataImage, request: CreateAclsRequest, response: CreateAclsResponse) -> bool:
    """Return whether the image has the ACLs that were created."""
    return all(
        result.error_code != ErrorCode.NONE or valid_entry(creation) in image.acls
        for creation, result in zip(request.creations, response.results, strict=True)
    )


def is_deleted(image: MetadataImage, _: DeleteAclsRequest, response: DeleteAclsResponse) -> bool:
    """Return whether the image has no ACL that was deleted."""
    return not any(
        each in image.acls for result in response.filter_results for each in map(deleted_entry, result.matching_acls)
    )


def creations_refused(request: CreateAclsRequest, refusal: Refusal) -> CreateAclsResponse:
    return CreateAclsResponse(results=(refused_creation(refusal),) * len(request.creations))


def deletions_refused(request: DeleteAclsRequest, refusal: Refusal) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=(refused_filter(refusal),) * len(request.filters))


async def _found(acls: Acls, wanted: AclFilter, count_max: int, turns: Turns) -> Found:
    """Return what matches. Raises Refusal if that is more than `count_max`."""
    found: Found = {}
    for part in wanted.found_in(acls):
        found.update({each: matching_acl(each) for each in part})
        if len(found) > count_max:
            raise too_many_match()
        await turns.done(_PART + len(part))
    return found
