"""Mistakes on the command line of `python -m chaos`; a whole run is in tests/end_to_end."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from chaos.__main__ import app


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--faults", "kill-leader,flood"], "flood: no such fault; there are kill-leader,"),
        (["--faults", ","], "name at least one fault"),
        (["--cycles", "0"], "'--cycles'"),
        (["--nodes", "2"], "'--nodes'"),
    ],
)
def test_a_wrong_option_is_explained_before_anything_starts(arguments: list[str], reason: str) -> None:
    outcome = CliRunner().invoke(app, arguments, env={"COLUMNS": "400", "TERMINAL_WIDTH": "400"})
    assert outcome.exit_code == 2
    assert reason in outcome.output


def test_an_earlier_history_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").touch()
    outcome = CliRunner().invoke(app, ["--directory", str(tmp_path)], env={"COLUMNS": "400", "TERMINAL_WIDTH": "400"})
    assert outcome.exit_code == 2
    assert "is not empty" in outcome.output
