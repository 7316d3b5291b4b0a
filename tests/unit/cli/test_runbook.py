"""docs/runbook.md: alerts point to its sections, its words are those of the program, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from kraft.cli.main import application

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "runbook.md").read_text()
RULES: Final = (ROOT / "docs" / "monitoring" / "alerts.yml").read_text()

_SPANS: Final = [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", PAGE)]
COMMANDS: Final = sorted({each.removeprefix("kraft ") for each in _SPANS if each.startswith("kraft ")} - {"GROUP"})
ALERTS: Final = re.findall(r"- alert: (\w+)", RULES)
ROWS: Final = re.findall(r"^\| ?(.*?) \| (.*?) \| ?(.*?) \| \[.*?\]\(#.*?\) \|$", PAGE, re.MULTILINE)


def _anchors() -> set[str]:
    return {heading.lower().replace(" ", "-") for heading in re.findall(r"^## (.*)$", PAGE, re.MULTILINE)}


def _sources() -> str:
    return "\n".join(path.read_text() for path in (ROOT / "kraft").rglob("*.py") if path.parent.name != "pb")


def test_each_alert_points_to_a_section_and_is_named_there() -> None:
    links = re.findall(r'runbook: "docs/runbook\.md#([a-z-]+)"', RULES)
    assert len(links) == len(ALERTS)
    assert set(links) <= _anchors()
    assert [each for each in ALERTS if each not in PAGE] == []


def test_links_within_the_page_lead_somewhere() -> None:
    assert set(re.findall(r"\(#([a-z-]+)\)", PAGE)) <= _anchors()


def test_what_health_and_logs_say_in_the_table_are_words_of_the_program() -> None:
    assert len(ROWS) == len(re.findall(r"^\| .*\]\(#", PAGE, re.MULTILINE)) > 10
    sources = _sources()
    said = {words for health, _, log in ROWS for words in re.findall(r"`([^`]+)`", f"{health} {log}")}
    pieces = {piece.strip(" ,.") for words in said for piece in words.split("...")}
    assert [each for each in sorted(pieces) if each not in sources and not each.startswith(("kraft", "/"))] == []


def _parse(command: Any, arguments: list[str]) -> None:
    """Parse the options of the innermost command. Raises UsageError."""
    context = command.make_context("kraft", list(arguments), resilient_parsing=False) if _is_leaf(command) else None
    if context is None:
        name, *rest = arguments
        assert name in command.commands, f"there is no command {name}"
        _parse(command.commands[name], rest)


def _is_leaf(command: Any) -> bool:
    return not hasattr(command, "commands")


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_of_the_page_is_one_that_can_be_typed(line: str) -> None:
    words = line.replace("GROUP", "billing").split()
    _parse(typer.main.get_command(application(words)), words)
