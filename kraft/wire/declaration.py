"""Language in which `kraft/wire/schema` declares messages.

    class FetchPartition(Struct):
        partition: Int32
        current_leader_epoch: Int32 = field("9+", default=-1)
        fetch_offset: Int64

    class FetchRequest(Message, key=1, versions="4-18", flexible="12+"):
        max_wait_ms: Int32
        topics: Array[FetchTopic]
        rack_id: String = field("11+", default="")

An annotation gives a field's wire format, and to mypy its type. A field is in every version of its message unless
`field` gives a range; then it has a default, its value in the other versions. A field is nullable if its annotation
ends in `| None`.

Structs are values: mypy refuses an assignment to a field, as for a frozen dataclass. There is no check at run time,
because that of a frozen dataclass makes construction two and a half times as slow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from struct import calcsize
from types import NoneType
from typing import Annotated, Any, Final, TypeAlias, TypeVar, dataclass_transform, get_args, get_origin, overload
from uuid import UUID

from kraft.wire.versions import EVERY_VERSION, NO_VERSION, Versions

T = TypeVar("T")

# --- wire formats ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value of fixed size, as `struct` packs it in network order."""

    code: str

    @property
    def size(self) -> int:
        return calcsize(f">{self.code}")


class Sized(Enum):
    """Bytes after their length. The value is the `struct` code of the length in versions that are not flexible."""

    STRING = "h"
    BYTES = "i"
    RECORDS = "i "
    """Record batches. They are never copied, neither when received nor when sent."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """A UUID: sixteen bytes."""


@dataclass(frozen=True, slots=True)
class ArrayOf:
    element: Form


Form: TypeAlias = "Fixed | Sized | Identifier | ArrayOf | type[Struct]"
Buffer: TypeAlias = bytes | bytearray | memoryview

Bool: TypeAlias = bool
Int8: TypeAlias = Annotated[int, Fixed("b")]
Int16: TypeAlias = Annotated[int, Fixed("h")]
UInt16: TypeAlias = Annotated[int, Fixed("H")]
Int32: TypeAlias = Annotated[int, Fixed("i")]
Int64: TypeAlias = Annotated[int, Fixed("q")]
Float64: TypeAlias = Annotated[float, Fixed("d")]
String: TypeAlias = str
Bytes: TypeAlias = bytes
Records: TypeAlias = Annotated[Buffer, Sized.RECORDS]
Uuid: TypeAlias = UUID
Array: TypeAlias = tuple[T, ...]

ZERO_UUID: Final = UUID(int=0)
"""The UUID that means none."""

_FORMS: Final[dict[object, Form]] = {bool: Fixed("?"), str: Sized.STRING, bytes: Sized.BYTES, UUID: Identifier()}


def _read_annotation(annotation: Any) -> tuple[Form, bool]:
    """Return the field's wire format, and whether it is nullable."""
    alternatives = get_args(annotation)
    if NoneType in alternatives:
        # Two alternatives, or the parts of an `Annotated` in a union with None: the other one is the form.
        (annotation,) = (alternative for alternative in alternatives if alternative is not NoneType)
        return _form(annotation), True
    return _form(annotation), False


def _form(annotation: Any) -> Form:
    if get_origin(annotation) is Annotated:
        form: Form = annotation.__metadata__[0]
        return form
    if get_origin(annotation) is tuple:
        return ArrayOf(_form(get_args(annotation)[0]))
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    return _FORMS[annotation]


# --- fields ----------------------------------------------------------------------------------------------------


class _Missing(Enum):
    MISSING = "missing"


_MISSING: Final = _Missing.MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a struct, with the versions of the enclosing message that have it."""

    name: str
    form: Form
    versions: Versions
    nullable: Versions
    tag: int | None
    """Its tag if it is a tagged field of its struct; None for a field that is always written."""
    default: Any
    absent: Any
    """Value of a tagged field that is not written."""

    @property
    def is_required(self) -> bool:
        """True if a value must be given when the struct is built."""
        return self.default is _MISSING


@dataclass(frozen=True, slots=True)
class _Specified:
    """Arguments of `field`."""

    versions: Versions = EVERY_VERSION
    default: Any = _MISSING
    nullable: Versions | None = None
    tag: int | None = None
    absent: Any = _MISSING


@overload
def field(
    versions: str = ..., *, default: T, nullable: str | None = None, tag: int | None = None, absent: T = ...
) -> T: ...


@overload
def field(versions: str = ..., *, nullable: str) -> Any: ...


def field(
    versions: str = "0+",
    *,
    default: Any = _MISSING,
    nullable: str | None = None,
    tag: int | None = None,
    absent: Any = _MISSING,
) -> Any:
    """Declare a field that is not in every version, or not nullable in every one, or tagged.

    A tagged field is not written if its value is `absent`, or without it the default.
    """
    return _Specified(
        versions=Versions.parse(versions),
        default=default,
        nullable=None if nullable is None else Versions.parse(nullable),
        tag=tag,
        absent=absent,
    )


def _declared_field(owner: str, name: str, annotation: Any, value: Any) -> Field:
    assert not isinstance(annotation, str), f"{owner}: a file of declarations must not postpone annotations"
    form, may_be_null = _read_annotation(annotation)
    specified = value if isinstance(value, _Specified) else _Specified(default=value)
    optional = specified.versions != EVERY_VERSION or specified.tag is not None
    assert not optional or specified.default is not _MISSING, f"{owner}.{name} is not in every version: add a default"
    return Field(
        name=name,
        form=form,
        versions=specified.versions,
        nullable=(specified.nullable or EVERY_VERSION) if may_be_null else NO_VERSION,
        tag=specified.tag,
        default=specified.default,
        absent=specified.default if specified.absent is _MISSING else specified.absent,
    )


# --- structs and messages --------------------------------------------------------------------------------------


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Declared(type):
    """Metaclass that turns a declaration into a class with a slot for each field, and keeps the declaration."""

    fields: tuple[Field, ...]
    message_key: int
    """The API key; -1 for a struct that is not a message."""
    versions: Versions
    """Versions that can be encoded and decoded. A struct has none of its own but those of the enclosing message."""
    flexible: Versions
    """Versions with compact lengths and tagged fields (KIP-482)."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: int = -1,
        versions: str = "none",
        flexible: str = "none",
    ) -> Declared:
        annotations: dict[str, Any] = namespace.get("__annotations__", {})
        assert not annotations.keys() & Declared.__annotations__.keys(), f"a field of {name} hides an attribute"
        fields = tuple(
            _declared_field(name, field_name, annotation, namespace.pop(field_name, _MISSING))
            for field_name, annotation in annotations.items()
        )
        namespace["__slots__"] = tuple(annotations)
        namespace["__init__"] = _first_init
        declared = super().__new__(mcs, name, bases, namespace)
        declared.fields = fields
        declared.message_key = key
        declared.versions = Versions.parse(versions)
        declared.flexible = Versions.parse(flexible)
        return declared


def _first_init(self: Any, **values: Any) -> None:
    """Give the class its `__init__`, and call it: most classes are never instantiated, and generating takes long."""
    declared = type(self)
    declared.__init__ = _initializer(declared.fields)
    declared.__init__(self, **values)


def _initializer(fields: tuple[Field, ...]) -> Callable[..., None]:
    """Return the `__init__` of a struct, with its fields as keyword arguments."""
    parameters = "".join(f", {each.name}{'' if each.is_required else f'=default_{each.name}'}" for each in fields)
    body = "".join(f"\n    self.{each.name} = {each.name}" for each in fields)
    namespace = {f"default_{each.name}": each.default for each in fields}
    star = ", *" if fields else ""
    source = f"def __init__(self{star}{parameters}):{body or ' pass'}"
    exec(source, namespace)  # noqa: S102  Built from names in our own declarations, without input from outside.
    made: Callable[..., None] = namespace["__init__"]
    return made


class Struct(metaclass=Declared):
    """A value with declared fields."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in type(self).fields)

    __hash__ = None  # type: ignore[assignment]  # Records are memoryviews, which may still change.

    def __repr__(self) -> str:
        content = ", ".join(f"{each.name}={_shown(getattr(self, each.name))}" for each in type(self).fields)
        return f"{type(self).__name__}({content})"


def _shown(value: object) -> str:
    # Neither megabytes of records nor the bytes of a password may appear in a log.
    return f"<{len(value)} bytes>" if isinstance(value, bytes | bytearray | memoryview) else repr(value)


class Message(Struct):
    """A struct that is sent by itself, as a request or as a response."""


S = TypeVar("S", bound=Struct)


def replace(struct: S, **changes: Any) -> S:
    """Return a copy of the value with other values in some of its fields."""
    content = {each.name: getattr(struct, each.name) for each in type(struct).fields}
    return type(struct)(**{**content, **changes})


def tagged_fields(struct: type[Struct], version: int) -> list[Field]:
    """Return the struct's tagged fields in the order of their tags, as on the wire."""
    found = [(each.tag, each) for each in struct.fields if each.tag is not None and version in each.versions]
    return [each for _, each in sorted(found, key=lambda tagged: tagged[0])]
