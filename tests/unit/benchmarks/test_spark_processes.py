"""Sessions as processes, with a program in place of Spark: what their whole trees take, and how they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import spark_processes
from benchmarks.spark_processes import CannotYet, SessionFailed, spark_process
from benchmarks.spark_session import Count, Subject

SUBJECT = Subject(name="stand-in", format="kraft", options={}, kafka_address="localhost:9092")
_BURN = "import time\\nwhile time.process_time() < 0.3: pass"
_PROGRAM = f'''
import subprocess, sys
print('{{"type":"Done","seconds":0.0}}', flush=True)
for line in sys.stdin:
    if "burn" in line:
        subprocess.run([sys.executable, "-c", "{_BURN}"], check=True)
        print('{{"type":"Done","seconds":0.5,"records":7}}', flush=True)
    elif "write" in line:
        print('{{"type":"NotSupported","why":"not supported yet"}}', flush=True)
    elif "fail" in line:
        print('{{"type":"Failed","why":"no such topic"}}', flush=True)
    else:
        raise SystemExit("out of memory")
'''


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stand_in.py").write_text(_PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(spark_processes, "MODULE", "stand_in")


def test_the_cpu_of_processes_that_have_ended_counts() -> None:
    with spark_process(SUBJECT) as session:
        taken = session.ask(Count(topic="burn"))
        assert (taken.done.seconds, taken.done.records) == (0.5, 7)
        # Clocks of processes tick in hundredths of a second, for user and system and in each of them.
        assert taken.cpu_s > 0.2
        assert session.resident_mib() > 1


def test_refusals_failures_and_the_end_of_a_session_are_told_apart() -> None:
    with spark_process(SUBJECT) as session:
        with pytest.raises(CannotYet, match="not supported yet"):
            session.ask(Count(topic="write"))
        with pytest.raises(SessionFailed, match="stand-in: no such topic"):
            session.ask(Count(topic="fail"))
        with pytest.raises(SessionFailed, match="stand-in: the session ended\nout of memory"):
            session.ask(Count(topic="end"))
