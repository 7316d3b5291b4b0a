"""Fixtures of more than one file: a cluster in files with a topic of two partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.file_cluster import FileCluster


@pytest.fixture
def cluster(tmp_path: Path) -> FileCluster:
    cluster = FileCluster(tmp_path)
    cluster.create_topic("a", partitions=2)
    cluster.append("a", 0, [f"a0-{number}" for number in range(30)])
    cluster.append("a", 1, [f"a1-{number}" for number in range(10)])
    return cluster
