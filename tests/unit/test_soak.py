"""`make soak`: rounds with fresh seeds, failures that can be repeated, and an end in order."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.soak import __main__ as soak
from tests.soak.rounds import ROOT, Program, Rounds, run_rounds


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module `search` for the commands of programs, without a line yet."""
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    return tmp_path / "search.py"


def search(name: str = "search", arguments: str = "{seed}", **others: Any) -> Program:
    return Program(name=name, command=f"search {arguments}", **others)


def test_rounds_go_on_with_fresh_seeds_until_the_time_is_used(script: Path, tmp_path: Path) -> None:
    script.write_text("import sys; open('seeds', 'a').write(sys.argv[1] + '\\n')".replace("seeds", f"{tmp_path}/seeds"))
    message: list[int] = []
    rounds = run_rounds(search(), 1.0, tmp_path / "log", tell=lambda rounds: message.append(rounds.seeds[-1]))
    tried = [int(line) for line in (tmp_path / "seeds").read_text().splitlines()]
    assert rounds.seeds == tried == list(dict.fromkeys(message))
    assert len(set(tried)) == len(tried)
    assert rounds.seconds >= 1
    assert str(rounds).startswith("ok: ")
    assert str(rounds).endswith(" ".join(map(str, tried)))


def test_a_given_seed_is_one_round(script: Path, tmp_path: Path) -> None:
    script.write_text("import sys; print('given', *sys.argv[1:])")
    rounds = run_rounds(search(arguments="{seed} {seconds}"), 60, tmp_path / "log", seed=7, tell=lambda _: None)
    assert rounds.seeds == [7]
    assert (tmp_path / "log").read_text().endswith("given 7 60\n")


def test_a_failure_ends_the_rounds_of_its_program_and_no_others(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text("import sys; print('lost 3 records'); sys.exit(sys.argv[1] == 'bad')")
    programs = [
        search("bad", "bad {seed}"),
        Program(name="absent", command="none", missing=lambda: "there is no FUSE"),
        search("good", "good"),
    ]
    bad, absent, good = soak.run_all(programs, 0.1, logs=tmp_path / "logs", console=Console(file=StringIO()))
    assert bad.failure == "exit code 1"
    assert not absent.seeds
    assert not good.failure
    (seed,) = bad.seeds
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"[1/3] bad (seed {seed}, 0 s)"
    assert lines[1].startswith("bad                  FAILED (exit code 1): 1 round in ")
    assert lines[2:6] == [
        f"  {sys.executable} -m search bad {seed}",
        "  lost 3 records",
        f"  to repeat it: python -m tests.soak --only bad --seed {seed}",
        f"  its whole output: {tmp_path}/logs/bad.log",
    ]
    assert lines[6] == "absent               not run: there is no FUSE"
    assert lines[7] == "[3/3] good (0 s)"
    assert re.match(r"good                 ok: \d+ rounds? in ", lines[8])
    assert "seed" not in lines[8]


def test_a_round_without_an_end_fails(script: Path, tmp_path: Path) -> None:
    script.write_text("import time; time.sleep(60)")
    rounds = run_rounds(search(round_s_max=0.2), 1, tmp_path / "log", tell=lambda _: None)
    assert rounds.failure == "still running after 0.2 s"


def test_an_interrupt_ends_the_search_in_order(script: Path, tmp_path: Path) -> None:
    script.write_text(
        "import pathlib, time\n"
        "try:\n"
        f"    pathlib.Path('{tmp_path}/began').touch(); time.sleep(60)\n"
        "finally:\n"
        f"    pathlib.Path('{tmp_path}/ended').touch()\n"
    )

    def interrupt(_: Rounds) -> None:
        if (tmp_path / "began").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_rounds(search(), 60, tmp_path / "log", tell=interrupt)
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_with_the_code_of_an_interrupt(name: signal.Signals, tmp_path: Path) -> None:
    options = ["--only", "replication", "--seconds", "3600", "--logs", str(tmp_path)]
    command = [sys.executable, "-m", "tests.soak", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            begins = process.stdout.readline()
            process.send_signal(name)
            # A round that is only just starting may miss its interrupt, and is killed after 60 s.
            output, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 130
    assert re.fullmatch(r"\[1/1\] replication \(seed [0-9]+, 3600 s\)\n", begins)
    finished, summary = output.splitlines()
    assert re.fullmatch(r"replication          interrupted: [0-9]+ rounds? in [0-9]+ s(, seeds? [0-9 ]+)?", finished)
    assert summary == "interrupted: 0 of 1 search finished: 0 ok, 0 failed, 0 not run"


def test_every_program_is_there_under_a_name_of_its_own() -> None:
    assert len({program.name for program in soak.PROGRAMS}) == len(soak.PROGRAMS)
    for program in soak.PROGRAMS:
        module = program.arguments(1, 60.0)[2].replace(".", "/")
        assert module == "pytest" or (ROOT / module).is_dir() or (ROOT / f"{module}.py").is_file()


def test_every_search_of_the_folder_is_in_the_table() -> None:
    commands = " ".join(program.command for program in soak.PROGRAMS)
    programs = {file.stem for file in (ROOT / "tests" / "soak").glob("*.py") if "__main__" in file.read_text()}
    assert {name for name in programs - {"__main__"} if f"tests.soak.{name} " not in commands} == set()
