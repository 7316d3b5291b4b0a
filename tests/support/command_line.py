"""The `kraft` command, as a process, against a cluster."""

from __future__ import annotations

import subprocess
import sys

from kraft.testing import Cluster

DEADLINE_S = 60


def run_kraft(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with the cluster's addresses; it may fail."""
    command = [sys.executable, "-m", "kraft", *arguments, "--bootstrap-server", cluster.bootstrap_servers]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


def kraft(cluster: Cluster, *arguments: str) -> str:
    """Run the command, which must succeed; return its output."""
    done = run_kraft(cluster, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout
