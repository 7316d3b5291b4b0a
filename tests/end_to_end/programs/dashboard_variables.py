"""The variables of a dashboard, with the values that Grafana chooses when it is opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.end_to_end.programs.monitoring_programs import Sample
from tests.support.dashboards import Variable

Ask = Callable[[str], Sequence[Sample]]

_QUERY: Final = re.compile(r"query_result\((?P<all>.*)\)|label_values\((?P<one>.*), ?(?P<label>\w+)\)")
_SPECIAL: Final = re.compile(r"([\\^$.*+?()|\[\]{}])")


class NoChoice(Exception):
    """A variable has no value: the dashboard shows nothing."""


def chosen(variables: Sequence[Variable], ask: Ask) -> dict[str, str]:
    """Return the variables' values. Raises NoChoice."""
    values: dict[str, str] = {}
    for variable in variables:
        options = _options(variable, values, ask)
        if not options:
            raise NoChoice(variable.name)
        values[variable.name] = _choice(variable, options)
    return values


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return the expression with values in place of variables; `$1` of label_replace stays."""
    return re.sub(r"\$(\w+)", lambda name: values.get(name[1], name[0]), text)


def _options(variable: Variable, values: Mapping[str, str], ask: Ask) -> list[str]:
    query = _QUERY.fullmatch(variable.query)
    assert query is not None, variable.query
    if query["label"] is not None:
        found = [sample.labels.get(query["label"], "") for sample in ask(filled(query["one"], values))]
    else:
        regex = re.compile(filled(variable.regex, values))
        matches = [regex.fullmatch(_line(sample)) for sample in ask(filled(query["all"], values))]
        found = [match[1] for match in matches if match is not None]
    return list(dict.fromkeys(filter(None, found)))


def _choice(variable: Variable, options: Sequence[str]) -> str:
    if variable.all:
        return variable.all
    if not variable.every:
        return options[0]
    # Each stands in a regular expression, and that in a string.
    escaped = [_SPECIAL.sub(r"\\\\\1", option) for option in options]
    return f"({'|'.join(escaped)})"


def _line(sample: Sample) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items() if name != "__name__")
    return f"{sample.labels.get('__name__', '')}{{{labels}}} {sample.value:g} 0"
