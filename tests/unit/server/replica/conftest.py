"""Fixtures of more than one file: a leader, and the broker that follows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.server.replicas import Broker
from tests.unit.server.replica.fetching_replicas import Leader


@pytest.fixture
def leader(tmp_path: Path) -> Leader:
    return Leader(Broker(tmp_path / "leader", broker_id=2))


@pytest.fixture
def follower(tmp_path: Path) -> Broker:
    return Broker(tmp_path / "follower", broker_id=1)
