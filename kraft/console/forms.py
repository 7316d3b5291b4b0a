"""What somebody typed into a form, or sent as JSON, and what becomes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from kraft.model.errors import KraftError

FIELDS_MAX: Final = 4_000
_DEPTH_MAX: Final = 4


class WrongInput(KraftError):
    """What was sent cannot be used: one sentence that says what is wrong, and what to send."""


class NoAnswerInTime(KraftError):
    """Whether a change was made is not known."""


class Changed(KraftError):
    """What the page showed has changed since: somebody else was there, too."""


class Done(Struct, frozen=True, kw_only=True):
    """A change that was made."""

    where: str
    """The page that people are shown next."""

    said: str
    """One sentence for them."""

    value: Any = None
    """What the API answers beside the sentence."""


class Form(Struct, frozen=True, kw_only=True):
    """Fields by name; each may be there several times."""

    values: Mapping[str, tuple[str, ...]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, default: str = "") -> str:
        """Return the first value, without spaces around it."""
        return self.raw(name, default).strip()

    def raw(self, name: str, default: str = "") -> str:
        """Return the first value as it was sent."""
        found = self.values.get(name)
        return found[0] if found else default

    def all(self, name: str) -> tuple[str, ...]:
        return self.values.get(name, ())

    def flag(self, name: str) -> bool:
        """Return whether a box was ticked."""
        return self.text(name).lower() in ("on", "true", "yes", "1")

    def number(self, name: str, lowest: int, highest: int, default: int | None = None) -> int:
        """Return a whole number within bounds. Raises WrongInput."""
        text = self.text(name)
        if not text and default is not None:
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and lowest <= int(text) <= highest):
            raise WrongInput(f"{name}={text[:40]!r}: give a whole number from {lowest} to {highest}")
        return int(text)

    def check_names(self, known: Collection[str]) -> None:
        """Raise WrongInput for a field that is none of these, nor below one: a slip would ask for something else."""
        names = {name.partition(".")[0] for name in self.values}
        if strangers := sorted(names.difference(known)):
            takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
            raise WrongInput(f"{strangers[0][:80]!r} is no member that this address takes: {takes}")

    def below(self, prefix: str) -> dict[str, str]:
        """Return the first values of the fields whose names begin with the prefix, without it."""
        return {name.removeprefix(prefix): each[0] for name, each in self.values.items() if name.startswith(prefix)}


def form_of(pairs: list[tuple[str, str]]) -> Form:
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return Form(values={name: tuple(each) for name, each in values.items()})


def form_of_body(body: bytes) -> Form:
    """Return the fields of a form that a browser sent. Raises WrongInput."""
    try:
        # Browsers send \r\n where somebody typed the end of a line.
        pairs = parse_qsl(body.decode().replace("%0D%0A", "%0A"), keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        raise WrongInput("the form cannot be read: it is no UTF-8, or has too many fields") from None
    return form_of(pairs)


def form_of_json(body: bytes) -> Form:
    """Return the members of a JSON object as fields; those of objects in it have names with dots. Raises WrongInput."""
    try:
        found = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise WrongInput("the body is no JSON: send an object, with Content-Type: application/json") from None
    if not isinstance(found, dict):
        raise WrongInput("the body is JSON, but no object: send the fields as members of one")
    pairs = list(_flat("", found, 0))
    if len(pairs) > FIELDS_MAX:
        raise WrongInput(f"the object has more than {FIELDS_MAX} values")
    return form_of(pairs)


def _flat(name: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _DEPTH_MAX:
        raise WrongInput(f"{name[:80]} is nested too deeply")
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flat(f"{name}.{key}" if name else key, each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _flat(name, each, depth + 1)
    elif isinstance(value, bool):
        yield name, "true" if value else "false"
    elif value is not None:
        yield name, str(value)
