"""Ctrl-C at any moment of a command's start."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest


@pytest.mark.parametrize("after_s", [0.1, 0.2, 0.4, 0.8])
def test_ctrl_c_while_a_command_starts_prints_no_traceback(after_s: float) -> None:
    program = "import signal, sys; sys.argv = ['kraft', 'consume', 'orders']; print('began', flush=True);"
    command = [sys.executable, "-c", f"{program} from kraft.__main__ import main; main()"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"began\n"
        # Each moment of the start is as good as another: none is waited for.
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert b"Traceback" not in errors
    assert process.returncode != 0
