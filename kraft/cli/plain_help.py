"""Help texts without types of Python: `--timeout-ms MS`, where typer would write `--timeout-ms <int range>`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import typer
from typer.core import TyperCommand

_TYPE: Final = re.compile(r" <([^|>]*)>$")
"""A type at the end of a name. What has a metavar has none, and choices such as `<table|json>` stay."""

_NUMBERS: Final = {"ms": "MS", "id": "ID"}
"""Labels of numbers by the last word of the option; N for others."""


class PlainCommand(TyperCommand):
    """A command whose help labels values with plain words."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for kind, title in (("argument", "Arguments"), ("option", "Options")):
            parameters = [each for each in self.get_params(ctx) if each.param_type_name == kind]
            records = [record for each in parameters if (record := each.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl([(_plain(name), text) for name, text in records])


def each_command(app: typer.Typer) -> Iterator[typer.models.CommandInfo]:
    """Iterate over all commands of the application, those in groups included."""
    yield from app.registered_commands
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from each_command(group.typer_instance)


def _plain(name: str) -> str:
    """Return the name of a parameter with the label of its value: the last word of an option, in capitals."""
    found = _TYPE.search(name)
    if found is None:
        return name
    bare = name[: found.start()]
    if not bare.startswith("-"):
        return bare
    word = bare.rpartition("-")[2]
    is_number = "int" in found[1] or "float" in found[1]
    return f"{bare} {_NUMBERS.get(word, 'N') if is_number else word.upper()}"
