"""The rows of all tables of gRPC calls: `calls.py` and the files of families beside it in `kraft/rpc`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final, TypeAlias

from kraft import rpc
from kraft.rpc.call import Call, ServerStream, Stream

DeclaredCall: TypeAlias = Call[Any, Any] | ServerStream[Any, Any] | Stream[Any, Any]


def _rows_of(table: str) -> list[DeclaredCall]:
    values = vars(import_module(f"{rpc.__name__}.{table}")).values()
    return [each for each in values if isinstance(each, Call | ServerStream | Stream)]


DECLARED_CALLS: Final = {
    module.name: _rows_of(module.name) for module in iter_modules(rpc.__path__) if module.name.endswith("calls")
}
"""Rows by the name of their module."""
