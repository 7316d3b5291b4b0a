from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

import kraft as package
from kraft.cli import main as command_line
from tests.unit.cli.shell import Shell


def lines_of_commands(command: Any, *words: str) -> Iterator[str]:
    yield " ".join(words)
    for name, each in getattr(command, "commands", {}).items():
        yield from lines_of_commands(each, *words, name)


@pytest.mark.parametrize("words", list(lines_of_commands(get_command(command_line.application([])))))
def test_no_help_names_a_type_of_python(kraft: Shell, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert kraft.run(*words.split(), "--help") == 0
    assert re.findall(r"<[a-z][^|>]*>", kraft.out) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("consume", "--timeout-ms MS "),
        ("consume", "--max-messages N "),
        ("consume", "--partition N "),
        ("consume", "--group GROUP "),
        ("consume", "--isolation-level LEVEL "),
        ("consume", "  TOPIC  Name of the topic."),
        ("transactions list", "--producer-id ID "),
        ("transactions describe", "--transactional-id ID "),
        ("dev", "--data-dir DIR "),
        ("topics list", "--output <table|json> "),
    ],
)
def test_the_value_of_an_option_has_a_plain_label(kraft: Shell, words: str, expected: str) -> None:
    assert kraft.run(*words.split(), "--help") == 0
    assert expected in kraft.out


def test_the_version_is_printed(kraft: Shell) -> None:
    assert kraft.run("--version") == 0
    assert kraft.out == f"kraft {package.__version__}\n"
