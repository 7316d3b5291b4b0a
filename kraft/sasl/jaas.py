"""Kafka's `sasl.jaas.config`: one login module of Java, with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";

Only the text is read: nothing of Java is loaded. Errors never show a value. Source: JaasConfig of Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

_TOKEN: Final = re.compile(
    r"""
    (?P<blank>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<word>[\w.$-]+)
    |(?P<sign>[=;])
    """,
    re.VERBOSE | re.DOTALL,
)

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}


class _Token(NamedTuple):
    text: str
    is_sign: bool = False


_EQUALS: Final = _Token("=", is_sign=True)
_END: Final = _Token(";", is_sign=True)


class LoginModule(Struct, frozen=True):
    name: str
    options: Mapping[str, str]

    @property
    def short_name(self) -> str:
        """The class without its package, such as `PlainLoginModule`."""
        return self.name.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"LoginModule({self.name})"


def parse_jaas(text: str) -> LoginModule:
    """Return the only login module. Raises ValueError, which shows nothing of the options."""
    tokens = list(_tokens(text))
    if not tokens or tokens[-1] != _END:
        raise ValueError("the login module does not end with a semicolon")
    if tokens.count(_END) > 1:
        raise ValueError("expected one login module")
    if len(tokens) < 3 or tokens[0].is_sign or tokens[1].text.lower() not in _FLAGS:
        raise ValueError("expected the class of a login module, then required")
    return LoginModule(tokens[0].text, _options(tokens[2:-1]))


def _options(tokens: Sequence[_Token]) -> dict[str, str]:
    options = {
        name.text: value.text
        for name, equals, value in zip(tokens[::3], tokens[1::3], tokens[2::3], strict=False)
        if equals == _EQUALS and not name.is_sign and not value.is_sign
    }
    if 3 * len(options) != len(tokens):
        raise ValueError("expected options as name=value, each once, with values in double quotes")
    return options


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError("a character outside of double quotes, or a quote that does not end")
        position = found.end()
        if found.lastgroup == "quoted":
            yield _Token(_unescaped(found[0][1:-1]))
        elif found.lastgroup != "blank":
            yield _Token(found[0], is_sign=found.lastgroup == "sign")


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)
