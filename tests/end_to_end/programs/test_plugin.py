"""The pytest plugin, in a pytest run of its own, as in other people's projects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import kraft

TESTS = """
def test_the_shared_cluster_runs(kraft_cluster):
    assert len(kraft_cluster.nodes) == 1
    assert kraft_cluster.node(1).is_running


def test_a_cluster_of_ones_own_can_be_killed(start_kraft_cluster, kraft_cluster):
    own = start_kraft_cluster(nodes=1, overrides={"num.partitions": "2"})
    own.node(1).kill()
    assert kraft_cluster.node(1).is_running
"""


def test_the_fixtures_give_running_clusters(tmp_path: Path) -> None:
    (tmp_path / "test_other_peoples.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nkraft_nodes = 1\n")
    # The options of this test run are not for that one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    finished = subprocess.run(
        # The plugin is named only where the package is not installed, and pytest would not find it by itself.
        [sys.executable, "-m", "pytest", "-q", "-p", "kraft.testing.plugin", "-p", "no:cacheprovider", str(tmp_path)],
        env=environment | {"PYTHONPATH": str(Path(kraft.__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "2 passed" in finished.stdout
