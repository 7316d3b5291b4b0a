from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_connector import connections
from tests.support.file_cluster import ConnectedFileCluster


class Counted:
    """A `Connect` that remembers what it made."""

    def __init__(self) -> None:
        self.made: list[ConnectedFileCluster] = []

    def __call__(self, bootstrap_servers: Sequence[str]) -> ConnectedFileCluster:
        self.made.append(ConnectedFileCluster(Path(bootstrap_servers[0])))
        return self.made[-1]


def test_a_process_connects_once_to_each_cluster() -> None:
    connect = Counted()
    one = connections.cluster(connect, ("a:1",))
    assert connections.cluster(connect, ["a:1"]) is one
    assert connections.cluster(connect, ("b:1",)) is not one
    assert len(connect.made) == 2


def test_a_closed_connection_is_made_again_when_it_is_needed() -> None:
    connect = Counted()
    connections.cluster(connect, ("a:1",))
    connections.close(connect, ("a:1",))
    connections.close(connect, ("a:1",))
    connections.cluster(connect, ("a:1",))
    assert [each.closed for each in connect.made] == [True, False]


def test_a_forked_process_makes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Counted()
    parents = connections.cluster(connect, ("a:1",))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert connections.cluster(connect, ("a:1",)) is not parents
