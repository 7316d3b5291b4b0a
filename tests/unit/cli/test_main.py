"""What the command says of errors that no part of it has told."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from kraft.cli import main


def told_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, encoding: str) -> str:
    def encoding_it(**_: Any) -> None:
        text.encode(encoding)

    monkeypatch.setattr(sys, "argv", ["kraft", "topics", "list"])
    monkeypatch.setattr(main, "application", lambda _: encoding_it)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 1
    return capsys.readouterr().err


def test_text_that_is_no_utf_8_is_one_line_wherever_it_is_met(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "kraft: INVALID_REQUEST: 'a\\udcff' is not valid Unicode at character 2: give it as UTF-8\n"
    assert told_of(monkeypatch, capsys, os.fsdecode(b"a\xff"), "utf-8") == line


def test_an_output_that_cannot_show_a_character_is_no_fault_of_the_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnicodeEncodeError):
        told_of(monkeypatch, capsys, "\N{SNOWMAN}", "ascii")
