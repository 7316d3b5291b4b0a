"""Python source that is written line by line, and then run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any, Final

_INDENT: Final = "    "


class Source:
    """One function in the making, and the names that it uses."""

    def __init__(self) -> None:
        self.names: dict[str, object] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._variables = 0

    def line(self, text: str) -> None:
        self._lines.append(_INDENT * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines that belong to `head`; one `pass` where there are none."""
        self.line(head)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def variable(self, name: str) -> str:
        """A name that no other line uses."""
        self._variables += 1
        return f"{name}{self._variables}"

    def constant(self, value: object) -> str:
        """How `value` is spelt: as it is where Python has a literal for it, otherwise as a name for it."""
        if value is None or isinstance(value, bool | int | str | bytes) or value == ():
            return repr(value)
        name = value.__name__ if isinstance(value, type) else f"DEFAULT_{type(value).__name__}"
        held = self.names.setdefault(name, value)
        assert held == value, f"two values of one function want to be called {name}"
        return name

    def fixed(self, codes: str, method: str) -> str:
        """A name for `pack` or `unpack_from` of fields of fixed size, in network order."""
        name = f"{method}_{codes.replace('?', 'bool')}"
        self.names.setdefault(name, getattr(Struct(f">{codes}"), method))
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def run(self, function: str) -> Callable[..., Any]:
        namespace: dict[str, Any] = dict(self.names)
        code = compile(self.text(), f"<generated {self.names.get('MESSAGE', function)}>", "exec")
        exec(code, namespace)  # noqa: S102  Made of the names of our own declarations; nothing from outside is in it.
        made: Callable[..., Any] = namespace[function]
        return made
