"""The documents name files, commands, options and config keys that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from kraft.cli.kafka_scripts import script_of, translated
from kraft.cli.main import application
from kraft.server.config.keys import BY_NAME

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "chaos", "docs", "kraft", "proto", "pyspark_kraft", "scripts", "spark_connector", "tests")
DOCUMENTS = sorted({*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))})

QUOTED = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?<![\w./*-])[\w/-]*(?:\{[\w,/]+\})?[\w-]*\.(?:py|md|proto)(?!\w)")
COMMAND = re.compile(r"(?:^|\| )(kraft [a-z][^|#\n]*)", re.MULTILINE)
SETTING = re.compile(r"^([a-z]+(?:\.[a-z]+)+)=", re.MULTILINE)
HELP = {"--help", "-h"}


@cache
def files() -> frozenset[str]:
    """Files of the project, and every end of their paths: documents shorten them."""
    found = [path.relative_to(ROOT).parts for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    found += [(path.name,) for path in ROOT.glob("*.*")]
    return frozenset("/".join(parts[start:]) for parts in found for start in range(len(parts)))


def fenced(text: str) -> str:
    """Blocks of commands and settings, without those of a language such as Python."""
    return "\n".join(re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


def unknown_files(text: str) -> Iterator[str]:
    for quoted in QUOTED.findall(text):
        # A command has other people's files as arguments; a test's name is checked with the checklist.
        for name in FILE.findall(quoted) if " " not in quoted and "::" not in quoted and ":" not in quoted else ():
            begin, brace, rest = name.partition("{")
            middle, _, end = rest.partition("}")
            for part in middle.split(",") if brace else [""]:
                if begin + part + end not in files():
                    yield begin + part + end


def unknown_words(command: str, root: Any) -> list[str]:
    """Commands and options of one line that do not exist."""
    words, here = command.split(), root
    if script_of(words[1:]) is not None:
        words = ["kraft", *translated(words[1:], default_servers="any")]
    position = 1
    while hasattr(here, "commands") and position < len(words) and re.fullmatch("[a-z][a-z-]*", words[position]):
        if words[position] not in here.commands:
            return [" ".join(words[: position + 1])]
        here, position = here.commands[words[position]], position + 1
    if hasattr(here, "commands"):
        return []
    options = HELP.union(*(each.opts for each in here.params), *(each.secondary_opts for each in here.params))
    given = [found[0] for word in words[position:] if (found := re.match("--?[a-z][a-z-]*", word))]
    return [f"{' '.join(words[:position])} {option}" for option in given if option not in options]


@pytest.fixture(scope="module")
def kraft() -> Any:
    return typer.main.get_command(application([]))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_names_exists(document: Path, kraft: Any) -> None:
    text = document.read_text()
    commands = [*COMMAND.findall(fenced(text)), *(each for each in QUOTED.findall(text) if each.startswith("kraft "))]
    assert list(unknown_files(text)) == []
    assert [word for command in commands for word in unknown_words(command, kraft)] == []
    assert [key for key in SETTING.findall(fenced(text)) if key not in BY_NAME] == []


def test_names_that_do_not_exist_are_found(kraft: Any) -> None:
    assert list(unknown_files("`kraft/cli/{main,gone}.py`, `main.py`, `kraft demo gone.py`")) == ["kraft/cli/gone.py"]
    assert unknown_words("kraft topics create orders --partition 6", kraft) == ["kraft topics create --partition"]
    assert unknown_words("kraft topics make orders", kraft) == ["kraft topics make"]
    assert SETTING.findall(fenced("```\nlog.dir=data\n```")) == ["log.dir"]
