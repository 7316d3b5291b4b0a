"""A sink that stores its position with its output: each record is in the output exactly once."""

from __future__ import annotations

import sys
from pathlib import Path

from kraft.client import Admin
from kraft.testing import Cluster
from tests.end_to_end.programs import sqlite_sink
from tests.end_to_end.programs.sqlite_sink import Sink
from tests.support.command_line import DEADLINE_S, PROGRAMS
from tests.support.records import create_topic, publish

TOPIC = "orders"
RECORDS = 5_000
DIES_AFTER = 700
"""Kills in the middle of the second transaction or of a later one."""


def test_a_consumer_that_is_killed_over_and_over_puts_out_every_record_exactly_once(tmp_path: Path) -> None:
    with Cluster(nodes=3) as cluster:
        create_topic(cluster.bootstrap_servers, TOPIC, partitions=3)
        publish(cluster.bootstrap_servers, TOPIC, range(RECORDS))
        for _ in range(3):
            assert run(cluster, tmp_path, dies_after=DIES_AFTER) == -9
        with Admin(cluster.bootstrap_servers) as admin:
            (described,) = admin.describe_topics([TOPIC])
        cluster.node(described.metadata.partitions[0].leader_id).kill()
        assert run(cluster, tmp_path, dies_after=DIES_AFTER) == -9
        assert run(cluster, tmp_path, dies_after=-1) == 0
    sink = Sink(tmp_path)
    assert sink.values() == list(range(RECORDS))
    # Without repeated work, this test would show nothing.
    assert len(sink.worked_on.read_bytes().splitlines()) > RECORDS


def run(cluster: Cluster, directory: Path, *, dies_after: int) -> int:
    command = [sys.executable, "-m", sqlite_sink.__name__, cluster.bootstrap_servers, TOPIC]
    done = PROGRAMS.run([*command, str(directory), str(RECORDS), str(dies_after)], DEADLINE_S)
    print(done.stderr)
    return done.returncode
