"""Commands as the console script runs them, in this process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kraft.cli import main as command_line


class Shell:
    """Runs commands as the console script does, and remembers what they printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[bytes], directory: Path) -> None:
        self._monkeypatch = monkeypatch
        self._capture = capture
        self._input = directory / "input"
        self.out = ""
        self.err = ""

    def run(self, *arguments: str, stdin: bytes = b"") -> int:
        self._input.write_bytes(stdin)
        self._monkeypatch.setattr(sys, "argv", ["kraft", *arguments])
        code = 0
        with self._input.open() as file:
            self._monkeypatch.setattr(sys, "stdin", file)
            try:
                command_line.main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0
        captured = self._capture.readouterr()
        self.out, self.err = captured.out.decode(), captured.err.decode()
        return code

    def succeed(self, *arguments: str, stdin: bytes = b"") -> str:
        code = self.run(*arguments, "--bootstrap-server", "broker-1:9094,broker-2:9094", stdin=stdin)
        assert code == 0, self.err
        return self.out

    def fail(self, *arguments: str, stdin: bytes = b"") -> str:
        """The one line that says why."""
        assert self.run(*arguments, "--bootstrap-server", "broker-1:9094", stdin=stdin) == 1
        assert self.out == ""
        return self.err
