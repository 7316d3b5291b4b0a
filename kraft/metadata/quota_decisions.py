"""Decisions about client quotas: valid entities, and valid keys and values.

Each broker enforces them by itself, with `kraft.quotas`.
Source: KIP-546 (the API), KIP-599 (controller_mutation_rate), KIP-612 (connection_creation_rate).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from math import isfinite
from typing import Final, NoReturn

from kraft.metadata.decision import Decision
from kraft.metadata.features import require_settings
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import ClientQuotaSet, QuotaEntity
from kraft.metadata.settings import QuotaSubject
from kraft.model.client_quotas import QuotaMatch
from kraft.model.config_types import INT32_MAX, INT64_MAX
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryResult,
)
from kraft.wire.schema.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    ValueData,
)
from kraft.wire.schema.describe_client_quotas import EntryData as DescribedEntry

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_FRACTIONS: Final = None
"""Used in place of the maximum of a key whose values may be fractions."""

KEYS_OF_CLIENTS: Final[Mapping[str, int | None]] = {
    CONSUMER_BYTE_RATE: INT64_MAX,
    CONTROLLER_MUTATION_RATE: _FRACTIONS,
    PRODUCER_BYTE_RATE: INT64_MAX,
    REQUEST_PERCENTAGE: _FRACTIONS,
}
KEYS_OF_ADDRESSES: Final[Mapping[str, int | None]] = {CONNECTION_CREATION_RATE: INT32_MAX}

_MATCHES: Final = frozenset(QuotaMatch)

ALTERATIONS_PER_REQUEST_MAX: Final = 10_000
NAME_LENGTH_MAX: Final = 1_000


def alter_client_quotas(image: MetadataImage, request: AlterClientQuotasRequest) -> Decision[AlterClientQuotasResponse]:
    """Set and remove quotas, all or none of each entity; one that does not change gives no record. Raises Refusal."""
    require_settings(image, "altering client quotas")
    if sum(len(entry.ops) for entry in request.entries) > ALTERATIONS_PER_REQUEST_MAX:
        _refuse(f"more than {ALTERATIONS_PER_REQUEST_MAX} quotas in one request: alter fewer at a time")
    results: list[EntryResult] = []
    drafts: dict[QuotaSubject, dict[str, float | None]] = {}
    for entry in request.entries:
        try:
            subject, wanted = _checked(entry)
        except Refusal as refusal:
            results.append(refused_entry(entry, refusal))
            continue
        # An entity may be there twice: the second entry alters what the first one left.
        drafts.setdefault(subject, {}).update(wanted)
        results.append(EntryResult(error_code=ErrorCode.NONE, error_message=None, entity=entry.entity))
    records = [
        ClientQuotaSet(entity=list(subject), key=key, value=value)
        for subject, draft in drafts.items()
        for key, value in draft.items()
        if image.client_quotas.get(subject, {}).get(key) != value
    ]
    response = AlterClientQuotasResponse(entries=tuple(results))
    return Decision(records=[] if request.validate_only else records, response=response)


def refused_entry(entry: EntryData, refusal: Refusal) -> EntryResult:
    return EntryResult(error_code=refusal.error_code, error_message=refusal.message, entity=entry.entity)


def describe_client_quotas(image: MetadataImage, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Return the quotas of entities that match every component, in the order of their names. Raises Refusal.

    With `strict`, only of those without other parts; without components, of all entities.
    """
    _check_components(request.components)
    described = [(subject, quotas) for subject, quotas in image.client_quotas.items() if _matches(subject, request)]
    described.sort(key=lambda each: [(part.entity_type, part.name is not None, part.name or "") for part in each[0]])
    return DescribeClientQuotasResponse(
        error_code=ErrorCode.NONE,
        error_message="",
        entries=tuple(
            DescribedEntry(
                entity=tuple(EntityData(entity_type=part.entity_type, entity_name=part.name) for part in subject),
                values=tuple(ValueData(key=key, value=value) for key, value in sorted(quotas.items())),
            )
            for subject, quotas in described
        ),
    )


def _check_components(components: Sequence[ComponentData]) -> None:
    for each in components:
        if each.match_type not in _MATCHES:
            _refuse(f"unknown quota match type {each.match_type}")
        if (each.match is not None) is not (each.match_type == QuotaMatch.EXACT):
            name = each.entity_type[:100]
            _refuse(f"the filter for {name} must have a name if it matches exactly, and none otherwise")
    for number, each in enumerate(components):
        if each.entity_type not in (USER, CLIENT_ID, IP):
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, _no_quotas(each.entity_type))
        if each.entity_type in (other.entity_type for other in components[:number]):
            _refuse(f"there are two filters for {each.entity_type}: give one")
    if len(components) > 1 and IP in (each.entity_type for each in components):
        _refuse("no quota is for an ip together with a user or client-id: filter for one of them")


def in_words(subject: Sequence[QuotaEntity]) -> str:
    return ", ".join(
        f"the default {part.entity_type}" if part.name is None else f"{part.entity_type} '{part.name[:100]}'"
        for part in subject
    )


def _checked(entry: EntryData) -> tuple[QuotaSubject, dict[str, float | None]]:
    """Return the subject of an entry, and the quotas to set by key; None removes one. Raises Refusal."""
    subject = _subject(entry)
    keys = KEYS_OF_ADDRESSES if subject[0].entity_type == IP else KEYS_OF_CLIENTS
    wanted: dict[str, float | None] = {}
    for operation in entry.ops:
        value = None if operation.remove else operation.value
        _check(operation.key, value, keys)
        if operation.key in wanted:
            _refuse(f"{operation.key} of {in_words(subject)} is in the request twice")
        wanted[operation.key] = value
    return subject, wanted


def _subject(entry: EntryData) -> QuotaSubject:
    types = [part.entity_type for part in entry.entity]
    for part in entry.entity:
        _check_type(part.entity_type)
        if part.entity_name is not None and not 0 < len(part.entity_name) <= NAME_LENGTH_MAX:
            _refuse(f"the {part.entity_type} name has {len(part.entity_name)} letters: use 1 to {NAME_LENGTH_MAX}")
        if part.entity_type == IP and part.entity_name is not None and not _is_address(part.entity_name):
            _refuse(f"'{part.entity_name[:100]}' is not an IP address: give an IPv4 or IPv6 address")
    if not types or len(set(types)) < len(types):
        _refuse(f"a quota is for a user, a client-id, a client-id of a user, or an ip, not for {types}")
    if IP in types and len(types) > 1:
        _refuse("a quota for an ip cannot also be for a user or client-id: set two quotas")
    parts = (QuotaEntity(entity_type=part.entity_type, name=part.entity_name) for part in entry.entity)
    return tuple(sorted(parts, key=lambda part: part.entity_type))


def _check_type(entity_type: str) -> None:
    if entity_type not in (USER, CLIENT_ID, IP):
        _refuse(_no_quotas(entity_type))


def _no_quotas(entity_type: str) -> str:
    return f"there are no quotas for '{entity_type[:100]}': use {USER}, {CLIENT_ID} or {IP}"


def _check(key: str, value: float | None, keys: Mapping[str, int | None]) -> None:
    if key not in keys:
        _refuse(f"there is no quota '{key[:100]}' for such an entity: use one of {', '.join(keys)}")
    if value is None:
        return
    most = keys[key]
    if not isfinite(value) or value <= 0:
        _refuse(f"{key}={value:g}: expected a number above 0")
    if most is not _FRACTIONS and (value > most or value % 1):
        _refuse(f"{key}={value:g}: expected a whole number up to {most}")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _matches(subject: QuotaSubject, request: DescribeClientQuotasRequest) -> bool:
    names = {part.entity_type: part.name for part in subject}
    components = request.components
    if request.strict and components and len(names) > len(components):
        return False
    return all(each.entity_type in names and _selects(each, names[each.entity_type]) for each in components)


def _selects(component: ComponentData, name: str | None) -> bool:
    match QuotaMatch(component.match_type):
        case QuotaMatch.EXACT:
            return name == component.match
        case QuotaMatch.DEFAULT:
            return name is None
        case QuotaMatch.ANY:
            return True


def _refuse(problem: str) -> NoReturn:
    raise Refusal(ErrorCode.INVALID_REQUEST, problem)
