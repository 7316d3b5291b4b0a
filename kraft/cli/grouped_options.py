"""Options that several commands share, as one parameter of each: a frozen dataclass whose fields are the options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def with_grouped_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with an option for each field of its parameters that are dataclasses."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, type[Any]] = {
        name: each.annotation
        for name, each in signature.parameters.items()
        if isinstance(each.annotation, type) and is_dataclass(each.annotation)
    }

    @wraps(command)
    def run(**given: Any) -> None:
        values = {
            name: kind(**{each.name: given.pop(each.name) for each in fields(kind)}) for name, kind in groups.items()
        }
        command(**values, **given)

    options = [
        option
        for name, each in signature.parameters.items()
        for option in (_options_of(groups[name]) if name in groups else [each])
    ]
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options]
    run.__signature__ = signature.replace(parameters=keywords)  # type: ignore[attr-defined]  # Python reads it, and mypy does not know it.
    run.__annotations__ = {each.name: each.annotation for each in keywords}
    return run


def _options_of(kind: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(kind)
    ]
