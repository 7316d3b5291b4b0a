"""What a user sees of records. All records pass here before anything else looks at them: filters, too, get only this.

Whatever is hidden is in no text, value, size, problem or header of what comes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
from msgspec import Struct

from kraft.client import KraftError
from kraft.console.records.decoding import Decoded, decode
from kraft.console.records.permissions import Permission, Viewing

if TYPE_CHECKING:
    from kraft.console.records.decoding.registry import Registry

log = structlog.get_logger()

MASK: Final = "••••"
HIDDEN: Final = Decoded(format="hidden", text=MASK)

_STRUCTURED: Final = ("", "json", "msgpack", "avro", "protobuf")
"""Formats in which fields have names."""

_STRUCTURE: Final = frozenset("{[<")
"""What begins a part of JSON or XML: text with one of these may have fields, though it cannot be decoded."""

_QUERY_CHARS_MAX: Final = 2_100
"""As much as a key, a text and a filter may have, with their names: who pads one of them hides nothing."""


class MayNotView(KraftError):
    """The console's file does not let this user view records of this topic."""


class ShownHeader(Struct, frozen=True, kw_only=True):
    name: str
    value: Decoded


class Shown(Struct, frozen=True, kw_only=True):
    """What a user may see of a record."""

    key: Decoded
    value: Decoded
    headers: list[ShownHeader]
    key_bytes: int | None
    """None: hidden, or there is no key."""

    value_bytes: int | None
    """None: something of the value is hidden, or there is none."""

    is_masked: bool
    """Whether something is hidden."""


class Formats(Struct, frozen=True, kw_only=True):
    """What was chosen for keys and values; empty: what fits."""

    key: str = ""
    value: str = ""


class View(Struct, frozen=True, kw_only=True):
    """What somebody looked at."""

    cluster: str
    topic: str
    user: str
    viewing: Viewing
    what: str
    """"page", "record" or "tail"."""

    partitions: list[int]
    records: int
    offsets: dict[int, tuple[int, int]] = {}
    """The first and the last offset that was shown, by partition."""

    query: str = ""
    """The filter, as it was typed."""


AS_FITS: Final = Formats()


def check(permission: Permission, cluster: str, topic: str) -> None:
    """Raise MayNotView if the user may view no record of the topic."""
    if permission.is_off:
        raise MayNotView(
            f"you may not view records of {topic}: the console's file says so; whoever runs the console may set"
            f" cluster.{cluster}.records.view, or a rule for this topic and a role of yours (docs/console.md)"
        )


def shown(
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
    permission: Permission,
    registry: Registry | None = None,
    formats: Formats = AS_FITS,
) -> Shown:
    """Return what the user may see of the record. It may block, for the registry: call it in a thread."""
    seen_key = shown_key(key, permission, formats.key, registry)
    seen_value = shown_value(value, permission, formats.value, registry)
    seen_headers = [ShownHeader(name=name, value=shown_header(name, data, permission)) for name, data in headers]
    hides_key, hides_value = permission.hides_keys or bool(permission.fields), _hides_value(permission)
    return Shown(
        key=seen_key,
        value=seen_value,
        headers=seen_headers,
        key_bytes=None if key is None or hides_key else len(key),
        value_bytes=None if value is None or hides_value else len(value),
        is_masked=permission.hides_something
        and any(MASK in each.text for each in (seen_key, seen_value, *(header.value for header in seen_headers))),
    )


def shown_key(
    data: bytes | None, permission: Permission, chosen: str = "", registry: Registry | None = None
) -> Decoded:
    """Return what is seen of a key: fields are hidden in it as in values, and a key without fields is shown."""
    if permission.is_off or (permission.hides_keys and data is not None):
        return HIDDEN
    if not permission.fields:
        return decode(data, chosen, registry)
    return _without_fields(decode(data, chosen if chosen in _STRUCTURED else "", registry), permission)


def shown_value(
    data: bytes | None, permission: Permission, chosen: str = "", registry: Registry | None = None
) -> Decoded:
    """Return what is seen of a value. Where fields are hidden, a value in which they cannot be found is hidden."""
    if permission.is_off or (permission.hides_all and data is not None):
        return HIDDEN
    if not _hides_value(permission):
        return decode(data, chosen, registry)
    found = decode(data, chosen if chosen in _STRUCTURED else "", registry)
    if found.format == "null":
        return found
    return _masked(found, permission) if isinstance(found.value, dict | list) else HIDDEN


def shown_header(name: str, data: bytes | None, permission: Permission) -> Decoded:
    """Return what is seen of a header: fields are hidden in it as in a key."""
    if permission.is_off or permission.hides_header(name):
        return HIDDEN
    return _without_fields(decode(data), permission) if permission.fields else decode(data)


def note(view: View) -> None:
    """Write the view into the audit of the console."""
    log.info(
        "records viewed",
        cluster=view.cluster,
        topic=view.topic,
        user=view.user,
        viewing=str(view.viewing),
        what=view.what,
        partitions=view.partitions,
        offsets=view.offsets,
        records=view.records,
        query=view.query[:_QUERY_CHARS_MAX],
    )


# --- fields --------------------------------------------------------------------------------------------------------


def _hides_value(permission: Permission) -> bool:
    return permission.hides_all or bool(permission.fields)


def _without_fields(found: Decoded, permission: Permission) -> Decoded:
    """Return a key or a header without its hidden fields; hidden if it could hold fields that nobody can find."""
    if isinstance(found.value, dict | list):
        return _masked(found, permission)
    is_plain = found.format in ("text", "json") and _STRUCTURE.isdisjoint(found.text)
    return found if found.format == "null" or is_plain else HIDDEN


def _masked(found: Decoded, permission: Permission) -> Decoded:
    """Return it without its hidden fields. The text is written anew: of two fields of one name, JSON shows both."""
    value = _Hidden(permission.fields).without(_fields_only(found.value), ())
    # What a decoder noted may tell something of what is hidden.
    return Decoded(format=found.format, text=msgspec.json.encode(value).decode(), value=value)


def _fields_only(value: Any) -> Any:
    """Return the value with what is no field of anything hidden: it has no name by which a mask could find it."""
    if isinstance(value, list):
        return [_fields_only(each) for each in value]
    return value if isinstance(value, dict) else MASK


class _Hidden:
    """Paths that are hidden, found by their last names: values have a hundred thousand fields, and masks few."""

    def __init__(self, paths: Sequence[tuple[str, ...]]) -> None:
        self._by_last: dict[str, list[tuple[str, ...]]] = {}
        for each in paths:
            self._by_last.setdefault(each[-1], []).append(each)
        self._longest = max((len(each) for each in paths), default=0)

    def without(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [self.without(each, path) for each in value]
        if not isinstance(value, dict):
            return value
        found = {}
        for name, each in value.items():
            below, is_hidden = self._followed(path, name)
            found[name] = MASK if is_hidden else self.without(each, below)
        return found

    def _followed(self, path: tuple[str, ...], name: str) -> tuple[tuple[str, ...], bool]:
        """Return the end of the path below, as far as masks look at it, and whether it is hidden.

        A name with dots in it is as good as several names, each of which may be hidden.
        """
        for part in name.casefold().split("."):
            path = (*path, part)[-self._longest :]
            if any(self._fits(path, each) for last in (part, "*") for each in self._by_last.get(last, ())):
                return path, True
        return path, False

    @staticmethod
    def _fits(path: tuple[str, ...], hidden: tuple[str, ...]) -> bool:
        own = path[-len(hidden) :]
        return len(own) == len(hidden) and all(each in ("*", name) for each, name in zip(hidden, own, strict=True))
