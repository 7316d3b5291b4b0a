"""Fixtures of more than one file: a fake cluster, and a shell whose commands reach it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.client.threads.loop_thread import shared_loop
from tests.support.client.fake_cluster import FakeCluster
from tests.unit.cli.shell import Shell


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    async def make() -> FakeCluster:
        return FakeCluster()

    made = shared_loop().run(make)
    monkeypatch.setattr("kraft.client.cluster.network._connections", lambda *_: made)
    return made


@pytest.fixture
def kraft(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> Shell:
    return Shell(monkeypatch, capsysbinary, tmp_path)
