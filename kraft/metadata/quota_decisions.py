"""Decisions about client quotas: valid entities, and valid keys and values.

Quotas are stored and described; no broker enforces them yet.
Source: KIP-546 (the API), KIP-599 (controller_mutation_rate), KIP-612 (connection_creation_rate).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from math import isfinite
from typing import Final, NoReturn

from kraft.metadata.decision import Decision
from kraft.metadata.features import require_settings
from kraft.metadata.image import MetadataImage, QuotaSubject
from kraft.metadata.records import ClientQuotaSet
from kraft.model.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaDescription,
    QuotaEntity,
    QuotaFilter,
    QuotaMatch,
    QuotaOperation,
    QuotaValue,
)
from kraft.model.config_types import INT32_MAX, INT64_MAX
from kraft.model.errors import ErrorCode, Refusal

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

_FRACTIONS: Final = None
"""Used in place of the maximum of a key whose values may be fractions."""

_OF_CLIENTS: Final[Mapping[str, int | None]] = {
    "consumer_byte_rate": INT64_MAX,
    "controller_mutation_rate": _FRACTIONS,
    "producer_byte_rate": INT64_MAX,
    "request_percentage": _FRACTIONS,
}
_OF_ADDRESSES: Final[Mapping[str, int | None]] = {"connection_creation_rate": INT32_MAX}

ALTERATIONS_PER_REQUEST_MAX: Final = 10_000
NAME_LENGTH_MAX: Final = 1_000


def alter_client_quotas(image: MetadataImage, request: AlterClientQuotasRequest) -> Decision[AlterClientQuotasResponse]:
    """Set and remove quotas, all or none; one that does not change gives no record. Raises Refusal."""
    require_settings(image, "altering client quotas")
    if sum(len(alteration.operations) for alteration in request.alterations) > ALTERATIONS_PER_REQUEST_MAX:
        _refuse(f"more than {ALTERATIONS_PER_REQUEST_MAX} quotas in one request: alter fewer at a time")
    records: list[ClientQuotaSet] = []
    seen: set[tuple[QuotaSubject, str]] = set()
    for alteration in request.alterations:
        subject = _subject(alteration.entity)
        keys = _OF_ADDRESSES if subject[0].entity_type == IP else _OF_CLIENTS
        before = image.client_quotas.get(subject, {})
        for operation in alteration.operations:
            _check(operation, keys)
            if (subject, operation.key) in seen:
                _refuse(f"{operation.key} of {in_words(subject)} is in the request twice")
            seen.add((subject, operation.key))
            if before.get(operation.key) != operation.value:
                records.append(ClientQuotaSet(entity=list(subject), key=operation.key, value=operation.value))
    response = AlterClientQuotasResponse(changed=len(records))
    return Decision(records=[] if request.validate_only else records, response=response)


def describe_client_quotas(image: MetadataImage, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Return the quotas of the entities that match the filters, in the order of their names. Raises Refusal."""
    for number, each in enumerate(request.filters):
        if each.entity_type not in (USER, CLIENT_ID, IP):
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, _no_quotas(each.entity_type))
        if each.entity_type in (other.entity_type for other in request.filters[:number]):
            _refuse(f"there are two filters for {each.entity_type}: give one")
        if (each.name is not None) is not (each.match is QuotaMatch.EXACT):
            _refuse(f"the filter for {each.entity_type} must have a name if it matches exactly, and none otherwise")
    if len(request.filters) > 1 and IP in (each.entity_type for each in request.filters):
        _refuse("no quota is for an ip together with a user or client-id: filter for one of them")
    described = [
        QuotaDescription(
            entity=list(subject), quotas=[QuotaValue(key=key, value=value) for key, value in sorted(quotas.items())]
        )
        for subject, quotas in image.client_quotas.items()
        if _matches(subject, request)
    ]
    described.sort(
        key=lambda each: [(part.entity_type, part.name is not None, part.name or "") for part in each.entity]
    )
    return DescribeClientQuotasResponse(quotas=described)


def in_words(subject: Sequence[QuotaEntity]) -> str:
    return ", ".join(
        f"the default {part.entity_type}" if part.name is None else f"{part.entity_type} '{part.name[:100]}'"
        for part in subject
    )


def _subject(entity: Sequence[QuotaEntity]) -> QuotaSubject:
    types = [part.entity_type for part in entity]
    for part in entity:
        _check_type(part.entity_type)
        if part.name is not None and not 0 < len(part.name) <= NAME_LENGTH_MAX:
            _refuse(f"the {part.entity_type} name has {len(part.name)} letters: use 1 to {NAME_LENGTH_MAX}")
        if part.entity_type == IP and part.name is not None and not _is_address(part.name):
            _refuse(f"'{part.name[:100]}' is not an IP address: give an IPv4 or IPv6 address")
    if not types or len(set(types)) < len(types):
        _refuse(f"a quota is for a user, a client-id, a client-id of a user, or an ip, not for {types}")
    if IP in types and len(types) > 1:
        _refuse("a quota for an ip cannot also be for a user or client-id: set two quotas")
    return tuple(sorted(entity, key=lambda part: part.entity_type))


def _check_type(entity_type: str) -> None:
    if entity_type not in (USER, CLIENT_ID, IP):
        _refuse(_no_quotas(entity_type))


def _no_quotas(entity_type: str) -> str:
    return f"there are no quotas for '{entity_type[:100]}': use {USER}, {CLIENT_ID} or {IP}"


def _check(operation: QuotaOperation, keys: Mapping[str, int | None]) -> None:
    if operation.key not in keys:
        _refuse(f"there is no quota '{operation.key[:100]}' for such an entity: use one of {', '.join(keys)}")
    value, most = operation.value, keys[operation.key]
    if value is None:
        return
    if not isfinite(value) or value <= 0:
        _refuse(f"{operation.key}={value:g}: expected a number above 0")
    if most is not _FRACTIONS and (value > most or value % 1):
        _refuse(f"{operation.key}={value:g}: expected a whole number up to {most}")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _matches(subject: QuotaSubject, request: DescribeClientQuotasRequest) -> bool:
    names = {part.entity_type: part.name for part in subject}
    if request.strict and request.filters and len(names) > len(request.filters):
        return False
    return all(each.entity_type in names and _filter_matches(each, names[each.entity_type]) for each in request.filters)


def _filter_matches(each: QuotaFilter, name: str | None) -> bool:
    match each.match:
        case QuotaMatch.EXACT:
            return name == each.name
        case QuotaMatch.DEFAULT:
            return name is None
        case QuotaMatch.ANY:
            return True


def _refuse(problem: str) -> NoReturn:
    raise Refusal(ErrorCode.INVALID_REQUEST, problem)
