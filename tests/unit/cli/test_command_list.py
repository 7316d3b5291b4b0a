"""The list of commands, which `kraft --help` prints without loading any of them."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from kraft import __version__
from kraft.cli import main as command_line


def test_the_list_of_commands_says_what_each_command_says_of_itself() -> None:
    loaded: Any = get_command(command_line.application([]))
    own = {name: command.get_short_help_str(200) for name, command in loaded.commands.items()}
    assert own == {name: summary for name, (_, summary) in command_line.COMMANDS.items()}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "  topics "),
        (["-h"], "  topics "),
        (["--help"], "  topics "),
        (["--version"], f"kraft {__version__}"),
        (["topcs"], "Did you mean 'topics'?"),
    ],
)
def test_what_needs_no_command_is_printed_without_loading_one(arguments: list[str], expected: str) -> None:
    program = (
        "import sys; from kraft.__main__ import main\n"
        "try: main()\n"
        "finally: print([each for each in sys.modules if each.startswith(('kraft.', 'grpc'))], file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    # Without arguments, the list is an error.
    printed, _, loaded = (done.stdout + done.stderr).rpartition("[")
    assert expected in printed
    assert set(re.findall(r"'(.*?)'", loaded)) <= {
        "kraft.__main__",
        "kraft.cli",
        "kraft.cli.foreground",
        "kraft.cli.kafka_scripts",
        "kraft.cli.main",
        "kraft.cli.old_options",
        "kraft.cli.plain_help",
        "kraft.model",
        "kraft.model.errors",
        "kraft.model.printable",
        "kraft.runtime",
        "kraft.runtime.cycle_collector",
    }
