"""Builds Python source line by line and runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any, Final

_INDENT: Final = "    "


class Source:
    """Source of one function, and the names that it uses."""

    def __init__(self) -> None:
        self.names: dict[str, object] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._variables = 0

    def line(self, text: str) -> None:
        self._lines.append(_INDENT * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent the lines written inside under `head`; writes `pass` if there are none."""
        self.line(head)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def variable(self, name: str) -> str:
        """Return a new unique variable name."""
        self._variables += 1
        return f"{name}{self._variables}"

    def constant(self, value: object) -> str:
        """Return an expression for `value`: a literal if Python has one for it, otherwise a name bound to it."""
        if value is None or isinstance(value, bool | int | str | bytes) or value == ():
            return repr(value)
        name = value.__name__ if isinstance(value, type) else f"DEFAULT_{type(value).__name__}"
        held = self.names.setdefault(name, value)
        assert held == value, f"two values of one function have the name {name}"
        return name

    def fixed(self, codes: str, method: str) -> str:
        """Return a name for `pack` or `unpack_from` of fields of fixed size, in network order."""
        name = f"{method}_{codes.replace('?', 'bool')}"
        self.names.setdefault(name, getattr(Struct(f">{codes}"), method))
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def run(self, function: str) -> Callable[..., Any]:
        namespace: dict[str, Any] = dict(self.names)
        code = compile(self.text(), f"<generated {self.names.get('MESSAGE', function)}>", "exec")
        exec(code, namespace)  # noqa: S102  Built from names in our own declarations, without input from outside.
        made: Callable[..., Any] = namespace[function]
        return made
