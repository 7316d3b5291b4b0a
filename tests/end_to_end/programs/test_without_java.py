"""Nodes, commands and clients of every kind, where there is no Java: Spark alone needs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEADLINE_S = 240


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nodes_commands_clients_groups_and_transactions_need_no_java(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "SPARK_HOME")}
    program = [sys.executable, "-m", "tests.end_to_end.programs.without_java"]
    done = subprocess.run(
        program,
        env={**environment, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["by Kafka's protocol", "by command", "in a transaction"]
