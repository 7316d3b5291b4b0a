"""Calls of the asyncio admin client for ACLs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraft.client.aio.admin_calls import AdminClient
from kraft.client.cluster.any_broker import check
from kraft.metadata.acl_decisions import deleted_entry, described_entries
from kraft.metadata.acl_filters import AclFilter
from kraft.metadata.acls import AclEntry
from kraft.rpc.acl_calls import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from kraft.wire.schema.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kraft.wire.schema.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from kraft.wire.schema.describe_acls import DescribeAclsRequest, DescribeAclsResponse


async def create_acls(admin: AdminClient, entries: Iterable[AclEntry], *, timeout_ms: int | None = None) -> None:
    """Create the ACLs; one that is there already is no error. At most 10,000 new ones at a time.

    Raises the cluster's Refusal of the first that is refused; the others are created.
    """
    request = creation_of(entries)
    await admin.calls.change(CREATE_ACLS, lambda _: request, timeout_ms, _check_created)


def creation_of(entries: Iterable[AclEntry]) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=tuple(
            AclCreation(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                resource_pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in entries
        )
    )


async def describe_acls(
    admin: AdminClient, wanted: AclFilter | None = None, *, timeout_ms: int | None = None
) -> list[AclEntry]:
    """Return the ACLs that match, by default all, in no particular order. Raises the cluster's Refusal."""
    values = _values(wanted or AclFilter())
    response = await admin.calls.ask(DESCRIBE_ACLS, DescribeAclsRequest(**values), timeout_ms, _check_described)
    return described_entries(response)


async def delete_acls(
    admin: AdminClient, wanted: Iterable[AclFilter], *, timeout_ms: int | None = None
) -> list[AclEntry]:
    """Delete the ACLs that any of the filters matches, and return them. At most 10,000 at a time.

    Raises the cluster's Refusal of the first filter that is refused; what the others match is deleted.
    """
    request = DeleteAclsRequest(filters=tuple(DeleteAclsFilter(**_values(each)) for each in wanted))
    response = await admin.calls.change(DELETE_ACLS, lambda _: request, timeout_ms, _check_deleted)
    deleted = (deleted_entry(each) for result in response.filter_results for each in result.matching_acls)
    return list(dict.fromkeys(deleted))


def _values(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _check_created(response: CreateAclsResponse) -> None:
    for result in response.results:
        check(result.error_code, result.error_message)


def _check_described(response: DescribeAclsResponse) -> None:
    check(response.error_code, response.error_message)


def _check_deleted(response: DeleteAclsResponse) -> None:
    for result in response.filter_results:
        check(result.error_code, result.error_message)
