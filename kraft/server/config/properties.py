"""Java's `.properties` text format, which Kafka's configuration files use.

Comments begin with `#` or `!`; a key ends at the first `=`, `:` or blank; a line that ends in an odd number of
backslashes continues on the next one; `\\t \\n \\f \\r \\uXXXX` are escapes and any other escaped character stands for
itself. Unlike Java's, the file is UTF-8. Source: java.util.Properties.load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "f": "\f", "r": "\r"}


class PropertiesError(ValueError):
    """The text is not a properties file; the message names the file and the line."""

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(f"{file}:{line}: {reason}")


@dataclass(frozen=True, slots=True)
class Property:
    """One setting and its first line, counted from 1."""

    key: str
    value: str
    line: int


def parse(data: bytes, file: str) -> list[Property]:
    """Return all settings in the file's order, repeated keys included. `file` is for messages."""
    properties = []
    for line, text in _logical_lines(_decode(data, file)):
        key, value = _split(text)
        try:
            properties.append(Property(_unescape(key), _unescape(value), line))
        except ValueError as error:
            raise PropertiesError(file, line, str(error)) from None
    return properties


def serialize(values: Mapping[str, str], comment: str = "") -> bytes:
    """Return a file that `parse` and Java read as `values`."""
    lines = [f"# {line}" for line in comment.splitlines()]
    lines += [f"{_escape(key, separators='=: #!')}={_escape(value, separators='')}" for key, value in values.items()]
    return "".join(f"{line}\n" for line in lines).encode()


def _decode(data: bytes, file: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PropertiesError(file, line, "not UTF-8 text") from None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with settings, continuation lines joined, with the number of the first."""
    natural_lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    joined, first_line = "", 0
    for number, natural_line in enumerate(natural_lines, start=1):
        content = natural_line.lstrip(_BLANKS)
        if not first_line:
            if not content or content[0] in "#!":
                continue
            first_line = number
        if _continues(content):
            joined += content[:-1]
            continue
        yield first_line, joined + content
        joined, first_line = "", 0
    if first_line:
        yield first_line, joined


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Return key and value, still escaped. Trailing blanks, which Java keeps, are dropped: nobody means them."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], _without_trailing_blanks(rest)


def _without_trailing_blanks(text: str) -> str:
    stripped = text.rstrip(_BLANKS)
    # An escaped blank is intended: keep it after its backslash.
    return text[: len(stripped) + 1] if _continues(stripped) else stripped


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    result, position = [], 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            result.append(character if character != "\\" else "")
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            result.append(_code_point(text[position : position + 4]))
            position += 4
        else:
            result.append(_ESCAPES.get(escaped, escaped))
    # Java writes a character above U+FFFF as two escapes: a surrogate pair.
    return "".join(result).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _code_point(digits: str) -> str:
    if len(digits) != 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        # The digits are left out: they may be part of a password.
        raise ValueError("an escape is broken: expected \\u and four hexadecimal digits")
    return chr(int(digits, 16))


def _escape(text: str, separators: str) -> str:
    named = {character: "\\" + name for name, character in _ESCAPES.items()}
    special = "\\" + separators
    escaped = "".join(named.get(c, "\\" + c if c in special else c) for c in text)
    # Blanks at the edges of a value would be dropped.
    if escaped.startswith(" "):
        escaped = "\\" + escaped
    if len(escaped) > 1 and escaped.endswith(" ") and not _continues(escaped[:-1]):
        escaped = escaped[:-1] + "\\ "
    return escaped
