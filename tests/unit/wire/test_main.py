from __future__ import annotations

import pytest

from kraft.wire.__main__ import main


def test_the_source_of_both_functions_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["FetchRequest", "12"]) == 0
    printed = capsys.readouterr().out
    assert "def decode(data, p, budget):" in printed
    assert "def encode(s, out):" in printed
    # What was printed is Python.
    compile(printed, "printed", "exec")


def test_a_version_that_is_not_there_is_answered_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["FetchRequest", "3"]) == 2
    assert capsys.readouterr().err == "FetchRequest has versions 4-18\n"


@pytest.mark.parametrize("arguments", [[], ["FetchRequest"], ["Nothing", "1"]])
def test_anything_else_is_answered_with_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: ")
