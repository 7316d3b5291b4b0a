"""`kraft server start -c FILE` without the parser of the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kraft.cli import foreground


@pytest.mark.parametrize("option", [[], ["-c"], ["--config"]])
def test_the_command_of_a_node_needs_no_parser(option: list[str]) -> None:
    assert foreground.start_of(["server", "start", *option, "node.properties"]) == (Path("node.properties"), None)


def test_neither_does_that_of_one_process_of_a_file() -> None:
    found = foreground.start_of(["server", "start", "-c", "node.properties", "--process", "2"])
    assert found == (Path("node.properties"), 2)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("server", "start"),
        ("server", "start", "-c"),
        ("server", "start", "-c", "--daemon"),
        ("server", "start", "-c", "node.properties", "--daemon"),
        ("server", "start", "--config=node.properties"),
        ("server", "start", "-c", "node.properties", "--process", "-1"),
        ("server", "start", "-c", "node.properties", "--process"),
        ("server", "stop", "-c", "node.properties"),
        ("dev", "start", "-c", "node.properties"),
    ],
)
def test_any_other_command_line_is_parsed(arguments: tuple[str, ...]) -> None:
    assert foreground.start_of(arguments) is None


def kraft(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kraft", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_both_ways_say_the_same_of_a_file_that_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    direct, parsed = kraft("server", "start", "-c", str(file)), kraft("server", "start", f"--config={file}")
    assert (direct.returncode, direct.stdout, direct.stderr) == (parsed.returncode, parsed.stdout, parsed.stderr)
    assert direct.returncode == 1
    assert direct.stderr.startswith("kraft: ")
    assert "Traceback" not in direct.stderr


@pytest.mark.parametrize("files", [(), ("-c", "a.properties", "b.properties")])
def test_a_start_needs_one_file(files: tuple[str, ...]) -> None:
    done = kraft("server", "start", "--daemon", *files)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("Error: Invalid value for FILE: ")


def test_a_process_that_the_file_has_no_longer_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text(
        "process.roles=broker\nnode.id=2\ncontroller.quorum.voters=1@localhost:9093\nlog.dirs=data\n"
        "listeners=GRPC://localhost:9094\nnode.processes=2\n"
    )
    done = kraft("server", "start", "-c", str(file), "--process", "2")
    assert (done.returncode, done.stderr) == (
        1,
        f"kraft: {file}: node.processes=2 was changed: stop the node and start it again\n",
    )


def test_typer_is_not_imported_for_a_node(tmp_path: Path) -> None:
    program = (
        "import sys\nsys.argv = ['kraft', 'server', 'start', '-c', sys.argv[1]]\nfrom kraft.__main__ import main\n"
        "try:\n    main()\nfinally:\n    print('typer' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "missing")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.stdout == "False\n"
