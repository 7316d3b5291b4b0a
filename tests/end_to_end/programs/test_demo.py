"""`kraft demo` as its users run it, with fewer flights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

import kraft
from tests.support.spark.spark_session import QUICK_WORKERS, SHORT_LIVED_JAVA

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

DEADLINE_S = 300


class Demo:
    """A running demo. All its processes have a mark in their environment."""

    def __init__(self, temporary: Path, *arguments: str) -> None:
        self._mark = uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kraft", "demo", *arguments],
            env=os.environ
            | {
                "PYTHONPATH": f"{QUICK_WORKERS}{os.pathsep}{Path(kraft.__file__).parents[1]}",
                "PYTHONUNBUFFERED": "1",
                "TMPDIR": str(temporary),
                "KRAFT_DEMO_MARK": self._mark,
                "JDK_JAVA_OPTIONS": SHORT_LIVED_JAVA,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def left_behind(self, patience_s: float = 20) -> list[psutil.Process]:
        """Return the processes that still run; a Python worker of Spark needs a moment to notice the end of Spark."""
        ends_at = time.monotonic() + patience_s
        while (left := self._marked()) and time.monotonic() < ends_at:
            time.sleep(0.1)
        return left

    def _marked(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                environment = process.environ()
            except psutil.Error:
                continue
            if environment.get("KRAFT_DEMO_MARK") == self._mark and process.pid != self.process.pid:
                found.append(process)
        return found


def test_a_small_demo_loses_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "--flights", "2000", "--output", "json")
    output, story = demo.process.communicate(timeout=DEADLINE_S)
    assert demo.process.returncode == 0, story
    figures = json.loads(output)
    assert figures["flights"] == figures["flights_counted"] == figures["flights_stored"] == 2_000
    assert (figures["duplicates"], figures["lost"], figures["differences"], figures["faults"]) == (0, 0, [], [])
    assert figures["outage"]["elected_after_s"] > 0
    assert "Halfway: killing node" in story
    assert "is in sync again" in story
    assert demo.left_behind() == []
    assert list(tmp_path.iterdir()) == []


def test_control_c_ends_everything(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "--flights", "2000")
    assert demo.process.stdout is not None
    while "streaming query" not in (line := demo.process.stdout.readline()):
        assert line, "the demo ended too soon"
    demo.process.send_signal(signal.SIGINT)
    _, errors = demo.process.communicate(timeout=DEADLINE_S)
    assert demo.process.returncode == 130
    assert "Traceback" not in errors
    assert demo.left_behind() == []
    assert list(tmp_path.iterdir()) == []
