"""Decisions about ACLs: which ones are valid, created, found and deleted (KIP-140, KIP-290).

A request is about up to 10,000 ACLs, as in Kafka. What does not depend on the image, or only on what changed since, is
done before the decision, in parts: others have their turn in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NoReturn, TypeVar

from kraft.metadata.acl_filters import AclFilter
from kraft.metadata.acls import AclEntry, Acls, acl_record, entries_of
from kraft.metadata.decision import Decision, RecordsOnDemand
from kraft.metadata.features import require_acls
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import AclAdded, AclRemoved
from kraft.model.access import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.create_acls import AclCreation, AclCreationResult, CreateAclsResponse
from kraft.wire.schema.delete_acls import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse
from kraft.wire.schema.describe_acls import DescribeAclsResponse

ACLS_PER_REQUEST_MAX: Final = 10_000

FILTERS_PER_REQUEST_MAX: Final = 2_000
"""Filters of one DeleteAcls. Each has a result of its own; Kafka has no such limit, and its tool sends one or two."""

NAME_LENGTH_MAX: Final = 1_000
"""Longest resource name, principal and host."""

_RESOURCE_TYPES: Final = {each.value: each for each in ResourceType if each > ResourceType.ANY}
_PATTERN_TYPES: Final = {each.value: each for each in (PatternType.LITERAL, PatternType.PREFIXED)}
_OPERATIONS: Final = {each.value: each for each in Operation if each > Operation.ANY}
_PERMISSIONS: Final = {each.value: each for each in (PermissionType.DENY, PermissionType.ALLOW)}

_CREATED: Final = AclCreationResult(error_code=ErrorCode.NONE, error_message=None)

Kind = TypeVar("Kind", ResourceType, PatternType, Operation, PermissionType)

Found = dict[AclEntry, DeleteAclsMatchingAcl]
"""What one filter of DeleteAcls matched."""


def valid_entry(creation: AclCreation) -> AclEntry:
    """Return the ACL of a request. Raises Refusal INVALID_REQUEST."""
    entry = AclEntry(
        resource_type=_known(creation.resource_type, _RESOURCE_TYPES, "resource type"),
        resource_name=creation.resource_name,
        pattern_type=_known(creation.resource_pattern_type, _PATTERN_TYPES, "pattern type"),
        principal=creation.principal,
        host=creation.host,
        operation=_known(creation.operation, _OPERATIONS, "operation"),
        permission=_known(creation.permission_type, _PERMISSIONS, "permission type"),
    )
    name, principal = entry.resource_name, entry.principal
    if not name:
        _refuse("the resource name is empty: * is every resource of the type")
    if entry.resource_type is ResourceType.CLUSTER and name != CLUSTER_NAME:
        _refuse(f"the only resource of the type CLUSTER is {CLUSTER_NAME}, not '{name[:100]}'")
    if ":" not in principal:
        _refuse(f"the principal '{principal[:100]}' has no colon between kind and name: write User:NAME")
    if max(len(name), len(principal), len(entry.host)) > NAME_LENGTH_MAX:
        _refuse(f"the resource name, the principal or the host is longer than {NAME_LENGTH_MAX} letters")
    return entry


def create_acls(image: MetadataImage, wanted: Sequence[AclEntry | Refusal]) -> Decision[CreateAclsResponse]:
    """Create the valid ACLs; one that is there already is no error. Raises Refusal."""
    require_acls(image, "creating ACLs")
    new = {each: None for each in wanted if not isinstance(each, Refusal) and each not in image.acls}
    if len(new) > ACLS_PER_REQUEST_MAX:
        problem = f"more than {ACLS_PER_REQUEST_MAX} new ACLs in one request: create fewer at a time"
        raise Refusal(ErrorCode.POLICY_VIOLATION, problem)
    results = tuple(refused_creation(each) if isinstance(each, Refusal) else _CREATED for each in wanted)
    return Decision(
        records=RecordsOnDemand(acl_record(AclAdded, each) for each in new),
        response=CreateAclsResponse(results=results),
    )


def delete_acls(
    image: MetadataImage, filters: Sequence[AclFilter | Refusal], found: Sequence[Found], found_in: Acls
) -> Decision[DeleteAclsResponse]:
    """Delete what the filters match. `found` is what each of them matched in the earlier ACLs `found_in`."""
    _catch_up(image.acls, filters, found, found_in)
    removed: dict[AclEntry, None] = {}
    left = ACLS_PER_REQUEST_MAX
    results: list[DeleteAclsFilterResult] = []
    for each, matching in zip(filters, found, strict=True):
        if isinstance(each, Refusal):
            results.append(refused_filter(each))
        elif len(matching) > left:
            results.append(refused_filter(too_many_match()))
        else:
            left -= len(matching)
            removed.update(dict.fromkeys(matching))
            results.append(
                DeleteAclsFilterResult(
                    error_code=ErrorCode.NONE, error_message=None, matching_acls=tuple(matching.values())
                )
            )
    return Decision(
        records=RecordsOnDemand(acl_record(AclRemoved, each) for each in removed),
        response=DeleteAclsResponse(filter_results=tuple(results)),
    )


def matching_acl(entry: AclEntry) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=entry.resource_type.value,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type.value,
        operation=entry.operation.value,
        permission_type=entry.permission.value,
        principal=entry.principal,
        host=entry.host,
        error_code=ErrorCode.NONE,
        error_message=None,
    )


def deleted_entry(deleted: DeleteAclsMatchingAcl) -> AclEntry:
    """Return the ACL that a response says is deleted."""
    return AclEntry(
        resource_type=ResourceType(deleted.resource_type),
        resource_name=deleted.resource_name,
        pattern_type=PatternType(deleted.pattern_type),
        principal=deleted.principal,
        host=deleted.host,
        operation=Operation(deleted.operation),
        permission=PermissionType(deleted.permission_type),
    )


def described_entries(response: DescribeAclsResponse) -> list[AclEntry]:
    """Return the ACLs that a response describes: there may be 100,000, and enumerations are slow to look them up."""
    found: list[AclEntry] = []
    for resource in response.resources:
        resource_type = _RESOURCE_TYPES.get(resource.resource_type) or ResourceType(resource.resource_type)
        pattern_type = _PATTERN_TYPES.get(resource.pattern_type) or PatternType(resource.pattern_type)
        found += (
            AclEntry(
                resource_type=resource_type,
                resource_name=resource.resource_name,
                pattern_type=pattern_type,
                principal=each.principal,
                host=each.host,
                operation=_OPERATIONS.get(each.operation) or Operation(each.operation),
                permission=_PERMISSIONS.get(each.permission_type) or PermissionType(each.permission_type),
            )
            for each in resource.acls
        )
    return found


def too_many_match() -> Refusal:
    problem = f"more than {ACLS_PER_REQUEST_MAX} ACLs match the filters of one request: use narrower ones"
    return Refusal(ErrorCode.INVALID_REQUEST, problem)


def refused_creation(refusal: Refusal) -> AclCreationResult:
    return AclCreationResult(error_code=refusal.error_code, error_message=refusal.message)


def refused_filter(refusal: Refusal) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=refusal.error_code, error_message=refusal.message, matching_acls=())


def _catch_up(acls: Acls, filters: Iterable[AclFilter | Refusal], found: Sequence[Found], found_in: Acls) -> None:
    """Make `found` what the filters match in `acls`."""
    if acls is found_in:
        return
    differing = list(acls.differing(found_in))
    earlier = set(chain.from_iterable(entries_of(*each, found_in.bits(*each)) for each in differing))
    now = list(chain.from_iterable(entries_of(*each, acls.bits(*each)) for each in differing))
    for each, matching in zip(filters, found, strict=True):
        if isinstance(each, AclFilter):
            for entry in earlier:
                matching.pop(entry, None)
            matching.update({entry: matching_acl(entry) for entry in now if each.matches(entry)})


def _known(number: int, kinds: Mapping[int, Kind], what: str) -> Kind:
    found = kinds.get(number)
    if found is None:
        names = ", ".join(f"{each.value} ({each.name})" for each in kinds.values())
        _refuse(f"no ACL has the {what} {number}: use {names}")
    return found


def _refuse(problem: str) -> NoReturn:
    raise Refusal(ErrorCode.INVALID_REQUEST, problem)
