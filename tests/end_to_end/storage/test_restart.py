"""Restarts of a node: after a clean stop, after a kill, and with damaged indexes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.nemesis.power_loss import CannotMount, Loss, PowerLossDisk, check_fuse
from kraft.testing import Cluster
from tests.support.records import create_topic, once_each, publish, read_all
from tests.support.waiting import until

TOPIC = "kept"
PARTITIONS = 3
RECORDS = 2_000
SMALL_SEGMENTS = {"log.segment.bytes": "2048", "log.index.interval.bytes": "256"}


class Restart:
    """A restart of the only node, with the log lines since then."""

    def __init__(self, cluster: Cluster) -> None:
        node = cluster.node(1)
        before = len(node.log_path.read_text().splitlines())
        cluster.start()
        cluster.wait_ready()

        def logged() -> list[dict[str, Any]]:
            lines = node.log_path.read_text().splitlines()[before:]
            return [json.loads(line) for line in lines if line.startswith("{")]

        def opened() -> dict[str, dict[str, Any]]:
            return {each["partition"]: each for each in logged() if each["event"] == "log opened"}

        until(lambda: len(opened()) == PARTITIONS, logged, deadline_s=20)
        self.opened = opened()
        self.events = logged()

    @property
    def was_clean(self) -> bool:
        (started,) = (each for each in self.events if each["event"] == "node process started")
        return bool(started["clean_shutdown"])

    @property
    def batches_checked(self) -> int:
        return sum(each.get("batches_checked", 0) for each in self.opened.values())


def test_the_start_after_a_stop_in_order_has_nothing_to_recover_and_one_after_a_kill_has() -> None:
    with Cluster(nodes=1, overrides=SMALL_SEGMENTS) as cluster:
        create_topic(cluster.bootstrap_servers, TOPIC, partitions=PARTITIONS, replication_factor=1)
        publish(cluster.bootstrap_servers, TOPIC, range(RECORDS))
        cluster.stop()
        restart = Restart(cluster)
        assert (restart.was_clean, restart.batches_checked) == (True, 0)
        assert sum(each["log_end"] for each in restart.opened.values()) == RECORDS

        publish(cluster.bootstrap_servers, TOPIC, range(RECORDS, 2 * RECORDS))
        cluster.kill()
        restart = Restart(cluster)
        assert not restart.was_clean
        assert restart.batches_checked > 0
        assert read_all(cluster.bootstrap_servers, TOPIC) == once_each(2 * RECORDS)


@pytest.mark.parametrize("in_order", [True, False])
def test_what_is_in_the_page_cache_is_on_disk_after_a_stop_in_order_and_not_after_a_kill(
    in_order: bool, tmp_path: Path
) -> None:
    try:
        check_fuse()
        mounted = PowerLossDisk(tmp_path / "disk", tmp_path / "cluster" / "node-1").__enter__()
    except CannotMount as reason:
        pytest.skip(f"not run: {reason}")
    try:
        with Cluster(nodes=1, directory=tmp_path / "cluster", overrides={"log.durability": "page-cache"}) as cluster:
            create_topic(cluster.bootstrap_servers, TOPIC, partitions=PARTITIONS, replication_factor=1)
            publish(cluster.bootstrap_servers, TOPIC, range(RECORDS))
            if in_order:
                cluster.stop()
            else:
                cluster.kill()
            mounted.cut_power()
            mounted.restore_power(Loss.ALL, seed=1)
            restart = Restart(cluster)
            assert (restart.was_clean, restart.batches_checked) == (in_order, 0)
            assert sum(read_all(cluster.bootstrap_servers, TOPIC).values()) == (RECORDS if in_order else 0)
    finally:
        mounted.__exit__(None, None, None)


def test_indexes_that_are_missing_or_corrupt_after_a_kill_are_reported_and_rebuilt(tmp_path: Path) -> None:
    with Cluster(nodes=1, directory=tmp_path, overrides=SMALL_SEGMENTS) as cluster:
        create_topic(cluster.bootstrap_servers, TOPIC, partitions=PARTITIONS, replication_factor=1)
        for first in range(0, 2 * RECORDS, 200):
            # One batch a partition each time, so that there are several in a segment.
            publish(cluster.bootstrap_servers, TOPIC, range(first, first + 200))
        cluster.kill()
        directory = tmp_path / "node-1" / f"{TOPIC}-0"
        # The last segment's are not there yet: they are written when it is closed.
        closed = sorted(directory.glob("*.log"))[:-1]
        assert len(closed) >= 3
        indexes = [path.with_suffix(suffix) for path in closed[:3] for suffix in (".index", ".timeindex")]
        before = [path.read_bytes() for path in indexes]
        assert all(before)
        indexes[0].unlink()
        indexes[3].write_bytes(b"\xff" * len(before[3]))

        restart = Restart(cluster)
        warnings = [each for each in restart.events if each["level"] == "warning"]
        assert [(each["event"], each["partition"], each["segments"]) for each in warnings] == [
            ("indexes rebuilt", f"{TOPIC}-0", 2)
        ]
        assert [path.read_bytes() for path in indexes] == before
        assert read_all(cluster.bootstrap_servers, TOPIC) == once_each(2 * RECORDS)
