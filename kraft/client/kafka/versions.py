"""Which version of a request is sent: the highest that both ends have and that says all of the request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.declaration import ArrayOf, Message, Struct
from kraft.wire.schema.api_versions import ApiVersion
from kraft.wire.schema.offset_fetch import OffsetFetchRequest
from kraft.wire.versions import NO_VERSION, Versions

_LAST_WITH_NAMES: Final = {OffsetFetchRequest.message_key: 9}
"""Requests whose later versions are answered with ids of topics in place of names."""


def ranges_of(api_keys: Iterable[ApiVersion]) -> dict[int, Versions]:
    """Return the versions that a broker has, by API key."""
    return {each.api_key: Versions(each.min_version, each.max_version) for each in api_keys}


def version_of(request: Message, served: Mapping[int, Versions]) -> int:
    """Return the version in which the request is sent. Raises UNSUPPORTED_VERSION.

    A field that a version does not have is lost in it, unless it has its default: so a topic that is given by its name
    is never sent in a version that has only ids, nor a filter to a broker that would ignore it.
    """
    kind = type(request)
    name = kind.__name__.removesuffix("Request")
    theirs = served.get(kind.message_key)
    if theirs is None:
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"the broker does not have {name}")
    first, last = max(theirs.first, kind.versions.first), min(theirs.last, kind.versions.last)
    last = min(last, _LAST_WITH_NAMES.get(kind.message_key, last))
    if first > last:
        text = f"the broker has versions {theirs} of {name}, and this client {kind.versions}"
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, text)
    lost = None
    for version in range(last, first - 1, -1):
        missing = lost_field(request, version)
        if missing is None:
            return version
        lost = lost or missing
    text = f"the broker has versions {theirs} of {name}, which cannot say {lost}"
    raise Refusal(ErrorCode.UNSUPPORTED_VERSION, text)


def lost_field(value: Struct, version: int) -> str | None:
    """Return the name of a field that is set and that the version does not have; None if there is none."""
    for each in type(value).fields:
        given = getattr(value, each.name)
        if each.versions == NO_VERSION:
            # Only gRPC has it, to say more.
            continue
        if version not in each.versions:
            if given != each.default:
                return each.name
        elif given is not None and (lost := _lost_inside(each.form, given, version)) is not None:
            return lost
    return None


def _lost_inside(form: object, given: object, version: int) -> str | None:
    if isinstance(given, Struct):
        return lost_field(given, version)
    if isinstance(form, ArrayOf) and isinstance(form.element, type) and isinstance(given, tuple):
        found = (lost_field(element, version) for element in given)
        return next((lost for lost in found if lost is not None), None)
    return None
