from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spark_connector import connections
from tests.support.file_cluster import ConnectedFileCluster


class Counted:
    """A `Connect` that remembers what it made."""

    def __init__(self) -> None:
        self.made: list[ConnectedFileCluster] = []

    def __call__(self, bootstrap_servers: Sequence[str]) -> ConnectedFileCluster:
        self.made.append(ConnectedFileCluster(Path(bootstrap_servers[0])))
        return self.made[-1]


def test_a_closed_connection_is_made_again_when_it_is_needed() -> None:
    connect = Counted()
    connections.cluster(connect, ("a:1",))
    connections.close(connect, ("a:1",))
    connections.close(connect, ("a:1",))
    connections.cluster(connect, ("a:1",))
    assert [each.closed for each in connect.made] == [True, False]
