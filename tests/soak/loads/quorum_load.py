"""The load while controllers are killed, paused and cut off: a cluster, changes of its metadata, and records."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from kraft.client import Admin, KraftError, Unreachable
from kraft.metadata.image import MetadataImage
from kraft.testing import Cluster, NodeProcess
from tests.soak.loads.metadata_images import wait_for_one_image
from tests.soak.loads.numbered_changes import NumberedChanges
from tests.soak.loads.numbered_load import Contents, NumberedLoad, compare
from tests.support.records import create_topic
from tests.support.waiting import until

TOPIC: Final = "records"
PARTITIONS: Final = 3
DEADLINE_S: Final = 60.0
VOTERS: Final = 3

# Snapshots are written and journals trimmed all through a run, instead of after 20 MiB.
SETTINGS: Final = {"metadata.log.max.record.bytes.between.snapshots": str(64 * 1024)}

_LOAD: Final[Mapping[str, Any]] = {
    "value_bytes": 100,
    "burst_pause_s": PARTITIONS / 300,
    # One partition that has no leader for the time must not stop the others.
    "unacknowledged_max": 100_000,
    # Those of a producer that sets nothing.
    "batch_size": 256 * 1024,
    "linger_ms": 5,
    "retry_backoff_max_ms": 1_000,
}
_POLL_S: Final = 0.02
_ANSWER_MS: Final = 2_000


class Gaps:
    """The longest time between two acknowledgements of each partition."""

    def __init__(self) -> None:
        self._last_s: dict[int, float] = {}
        self._longest_s: dict[int, float] = {}
        self._guard = threading.Lock()

    def note(self, number: int) -> None:
        partition, now_s = number % PARTITIONS, time.monotonic()
        with self._guard:
            gap_s = now_s - self._last_s.get(partition, now_s)
            self._longest_s[partition] = max(gap_s, self._longest_s.get(partition, 0.0))
            self._last_s[partition] = now_s

    def last_s(self) -> list[float]:
        """Return the time of each partition's last acknowledgement; partitions without one are left out."""
        with self._guard:
            return list(self._last_s.values())

    def take(self) -> list[float]:
        """The longest gap of each partition since this was asked last, shortest first."""
        with self._guard:
            longest_s, self._longest_s = self._longest_s, {}
        return sorted(longest_s.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """A running cluster under load."""

    cluster: Cluster
    changes: NumberedChanges
    load: NumberedLoad
    gaps: Gaps = field(default_factory=Gaps)

    def controller(self) -> NodeProcess:
        """The active one. Raises TimeoutError."""
        until_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < until_s:
            try:
                with Admin(self.cluster.bootstrap_servers) as admin:
                    leader_id = admin.describe_quorum(timeout_ms=_ANSWER_MS).leader_id
                if leader_id > 0 and self.cluster.node(leader_id).is_running:
                    return self.cluster.node(leader_id)
            except (KraftError, Unreachable):
                pass  # Asked again below: an election may be on.
            time.sleep(_POLL_S)
        raise TimeoutError("the quorum has no leader")

    def wait_in_sync(self) -> None:
        """Until every replica is in sync and every voter has what the leader has. Raises TimeoutError."""
        self.cluster.wait_ready(DEADLINE_S)
        with Admin(self.cluster.bootstrap_servers) as admin:
            until(lambda: not _not_in_sync(admin), lambda: _not_in_sync(admin), DEADLINE_S)

    def wait_every_partition_since(self, since_s: float) -> None:
        """Until each has acknowledged something that late. Raises TimeoutError."""
        until_s = time.monotonic() + DEADLINE_S
        while not all(last_s > since_s for last_s in self.gaps.last_s()):
            self.load.check()
            if time.monotonic() > until_s:
                raise TimeoutError(f"some partition acknowledged nothing within {DEADLINE_S:.0f} s")
            time.sleep(_POLL_S)

    def check_metadata(self) -> MetadataImage:
        """Asserts that every controller holds the same, and exactly what was acknowledged. Changes pause meanwhile."""
        self.changes.pause()
        image = wait_for_one_image(self.cluster)
        differences = self.changes.differences(image)
        assert not differences, f"{len(differences)} differ, the first: {'; '.join(differences[:3])}"
        self.changes.resume()
        return image

    def check_records(self) -> Contents:
        """Assert that every acknowledged record is there exactly once."""
        contents = compare(self.cluster.bootstrap_servers, TOPIC, self.load)
        assert contents.is_exact, str(contents)
        return contents

    def finish(self) -> Contents:
        """End the load; assert that it had no error and every record is there exactly once."""
        self.load.pause(deadline_s=DEADLINE_S)
        assert not self.load.errors, f"the producer failed: {dict(self.load.errors)}"
        assert self.load.acknowledged_count == self.load.sent, "a number without an outcome"
        self.check_metadata()
        return self.check_records()


@contextmanager
def surroundings(
    cluster: Cluster, *, with_admin: bool = False, load_settings: Mapping[str, Any] = _LOAD
) -> Iterator[Surroundings]:
    """`cluster` is running, with at least three brokers. The load has begun when this is entered."""
    gaps = Gaps()
    create_topic(cluster.bootstrap_servers, TOPIC, partitions=PARTITIONS)
    load = NumberedLoad(
        cluster.bootstrap_servers,
        TOPIC,
        partitions=PARTITIONS,
        burst=PARTITIONS,
        on_acknowledged=gaps.note,
        **load_settings,
    )
    addresses = [node.address for node in cluster.nodes if node.address is not None]
    with load, NumberedChanges(addresses, with_admin=with_admin) as changes:
        load.wait_for_acknowledgements(PARTITIONS)
        yield Surroundings(cluster=cluster, changes=changes, load=load, gaps=gaps)


def kill_at_once(nodes: Iterable[NodeProcess]) -> float:
    """Kill all nodes with signal 9, then wait for them. Return the time of the last kill."""
    nodes = list(nodes)
    for pid in [node.pid for node in nodes]:
        os.kill(pid, signal.SIGKILL)
    killed_s = time.monotonic()
    until_s = killed_s + DEADLINE_S
    while any(node.is_running for node in nodes):
        assert time.monotonic() < until_s, "a killed process does not end"
        # Shorter than elsewhere: what is measured began with the kill.
        time.sleep(0.001)
    return killed_s


def log_events(node: NodeProcess, since: float) -> Iterator[Mapping[str, Any]]:
    """Return the node's log events since that time of day in seconds; `timestamp` is in seconds as well."""
    with node.log_path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.startswith("{"):
                continue
            try:
                event = json.loads(line)
            except ValueError:
                # A line that a kill cut short.
                continue
            event["timestamp"] = datetime.fromisoformat(event["timestamp"]).timestamp()
            if event["timestamp"] >= since:
                yield event


def _not_in_sync(admin: Admin) -> str:
    """Return what differs from the state before a fault; empty if nothing does."""
    try:
        (topic,) = admin.describe_topics([TOPIC], timeout_ms=_ANSWER_MS)
        quorum = admin.describe_quorum(timeout_ms=_ANSWER_MS)
    except (KraftError, Unreachable) as error:
        return str(error)
    for partition in topic.metadata.partitions:
        if len(partition.isr_nodes) < len(partition.replica_nodes) or partition.leader_id < 0:
            number, leader_id = partition.partition_index, partition.leader_id
            return f"partition {number} is led by {leader_id} with {partition.isr_nodes} in sync"
    # Changes go on, so a voter may always be a few entries behind.
    late = [voter.node_id for voter in quorum.voters if voter.log_end_offset < 0 or voter.lag > 20]
    return f"voters {late} lag" if late else ""
