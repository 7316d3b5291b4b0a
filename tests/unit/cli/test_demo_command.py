from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kraft.cli.main import application


def run(*arguments: str | Path, **environment: str) -> tuple[int, str]:
    words = ["demo", *map(str, arguments)]
    result = CliRunner().invoke(application(words), words, env=environment)
    return result.exit_code, result.stderr


def test_without_java_nothing_is_started(tmp_path: Path) -> None:
    exit_code, errors = run("--data-dir", tmp_path / "data", JAVA_HOME=str(tmp_path))
    assert exit_code == 1
    assert errors.startswith(f"kraft: Spark needs Java 17 or newer; JAVA_HOME={tmp_path} has no")
    assert errors.count("\n") == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.usefixtures("java")
def test_a_directory_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("three years of work")
    assert run("--data-dir", tmp_path) == (
        1,
        f"kraft: --data-dir {tmp_path} is not an empty directory: choose another one\n",
    )
    assert (tmp_path / "thesis.txt").read_text() == "three years of work"


@pytest.mark.usefixtures("java")
def test_a_file_is_no_directory(tmp_path: Path) -> None:
    file = tmp_path / "thesis.txt"
    file.write_text("three years of work")
    exit_code, errors = run("--data-dir", file)
    assert (exit_code, errors) == (1, f"kraft: --data-dir {file} is not an empty directory: choose another one\n")


def test_too_few_flights_are_refused() -> None:
    exit_code, errors = run("--flights", "10")
    assert exit_code == 2
    assert "--flights" in errors


@pytest.fixture
def java(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is good enough for the check, whether or not this machine has any."""
    home = tmp_path_factory.mktemp("java")
    (home / "bin").mkdir()
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
