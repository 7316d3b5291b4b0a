"""`python -m tests.golden.make_burrow_answers FOLDER`: asks Burrow about the scenarios again.

README.md beside this file says how the folder with Burrow's source is made.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from tests.golden.burrow.answers import ANSWER_FILE, SCRIPTED_FILE, WALKS_FILE, full_line, short_line
from tests.golden.burrow.scenarios import SCRIPTED, WALKS, Scenario, walk

_PROGRAM: Final = Path(__file__).with_name("burrow") / "play_test.go"
_PLACE: Final = Path("core", "internal", "scenarios")
_DEADLINE_S: Final = 600.0


def asked(burrow: Path, scenarios: Sequence[Scenario]) -> list[list[dict[str, Any]]]:
    """Return what Burrow answers to the questions of each scenario."""
    (burrow / _PLACE).mkdir(exist_ok=True)
    shutil.copy(_PROGRAM, burrow / _PLACE)
    with tempfile.TemporaryDirectory() as folder:
        asked_file, answered_file = Path(folder, "scenarios"), Path(folder, "answers")
        asked_file.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in scenarios))
        subprocess.run(
            ["go", "test", "-count=1", f"./{_PLACE}"],
            cwd=burrow,
            env={**os.environ, "SCENARIOS": str(asked_file), "ANSWERS": str(answered_file)},
            timeout=_DEADLINE_S,
            check=True,
        )
        return [json.loads(line) for line in answered_file.read_text().splitlines()]


def main(burrow: Annotated[Path, typer.Argument(help="Folder of Burrow's module.")]) -> None:
    """Ask Burrow about the scenarios again, and write its answers down."""
    *scripted, three = asked(burrow, [*SCRIPTED, next(each for each in SCRIPTED if each.name.startswith("three"))])
    lines = [
        line
        for scenario, answers in zip(SCRIPTED, scripted, strict=True)
        for line in (f"# {scenario.name}", *map(full_line, answers))
    ]
    SCRIPTED_FILE.write_text("\n".join(lines) + "\n")
    ANSWER_FILE.write_text(json.dumps(three[-1], indent=1) + "\n")
    walks = asked(burrow, [walk(seed) for seed in range(WALKS)])
    WALKS_FILE.write_text("".join(" ".join(map(short_line, answers)) + "\n" for answers in walks))


if __name__ == "__main__":
    typer.run(main)
