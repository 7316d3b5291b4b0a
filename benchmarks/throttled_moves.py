"""`python -m benchmarks.throttled_moves`: a large partition moves at a limited rate, beside a client.

Three brokers. The partition moves from one to another, with the rate as the limit of both sides, of the leader alone,
and of the follower alone; then at a rate that is doubled after a third of it; then between two log directories of one
broker; and without a limit, for comparison. The client writes a record at a time, a hundred in a second, with acks=all
to both brokers, before each move and beside it.

Other work on the machine makes the client's latencies at two times hard to compare. So one move has pauses, at a rate
of 0, every few seconds: they are its "before". And once nothing moves at all: that ratio is the noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Annotated, Final

import confluent_kafka
import kafka
import typer
from kafka.admin import KafkaAdminClient, NewTopic

from benchmarks.report import Cell, Output, Report, print_report
from kraft.client import Admin, TopicPartition
from kraft.testing import Cluster

MOVED: Final = "moved"
CLIENT: Final = "client"
BATCH: Final = b"r" * 65_000
BEFORE_S: Final = 10.0
PAUSE_S: Final = 3.0
NOTHING_S: Final = 30.0
DEADLINE_S: Final = 600.0
LEADER: Final = "leader.replication.throttled"
FOLLOWER: Final = "follower.replication.throttled"
DIRECTORIES: Final = "replica.alter.log.dirs.io.max.bytes.per.second"


@dataclass(frozen=True)
class Moving:
    """What the partition does while the client writes."""

    name: str
    keys: tuple[str, ...]
    """The brokers' keys that have the rate."""

    later: float = 1.0
    """The rate is multiplied by this after a third of the bytes."""

    is_inside: bool = False
    """Between log directories of one broker."""

    has_pauses: bool = False
    moves: bool = True


MOVES: Final = (
    Moving("nothing moves", (), moves=False),
    Moving("leader and follower, with pauses", (f"{LEADER}.rate", f"{FOLLOWER}.rate"), has_pauses=True),
    Moving("leader and follower", (f"{LEADER}.rate", f"{FOLLOWER}.rate")),
    Moving("leader", (f"{LEADER}.rate",)),
    Moving("follower", (f"{FOLLOWER}.rate",)),
    Moving("leader and follower, doubled", (f"{LEADER}.rate", f"{FOLLOWER}.rate"), later=2.0),
    Moving("log directories", (DIRECTORIES,), is_inside=True),
    Moving("none", ()),
)


class Site:
    def __init__(self, cluster: Cluster, admin: Admin, kafka_admin: KafkaAdminClient) -> None:
        self.cluster = cluster
        self.admin = admin
        self.kafka_admin = kafka_admin
        self.at = 1
        """The broker that has the partition."""

    def files(self, place: Path) -> int:
        """Return the bytes of the partition's segments in a log directory, also of a copy that is being made."""
        total = 0
        for path in place.glob(f"{MOVED}-0*/*.log"):
            try:
                total += path.stat().st_size
            except FileNotFoundError:
                # The broker removes the copy that the partition has left.
                continue
        return total

    def directories(self, broker: int) -> list[Path]:
        return [self.cluster.directory / f"node-{broker}" / name for name in "ab"]

    def place(self) -> Path:
        (place,) = [each for each in self.directories(self.at) if (each / f"{MOVED}-0").is_dir()]
        return place

    def limit(self, keys: tuple[str, ...], rate: int) -> None:
        if keys:
            self.admin.alter_broker_configs(None, dict.fromkeys(keys, str(rate)))

    def begin(self, moving: Moving) -> Callable[[], int]:
        """Begin the move. Return what tells how many bytes are there."""
        if moving.is_inside:
            (target,) = set(self.directories(self.at)) - {self.place()}
            asked = {kafka.TopicPartitionReplica(MOVED, 0, self.at): str(target)}
            (error,) = self.kafka_admin.alter_replica_log_dirs(asked).values()
            assert error is kafka.errors.NoError, error
            return lambda: self.files(target)
        other = 3 - self.at
        outcome = self.admin.alter_partition_reassignments({TopicPartition(MOVED, 0): [other]})
        assert set(outcome.values()) == {None}, outcome
        return lambda: sum(self.files(each) for each in self.directories(other))

    def is_over(self, moving: Moving, source: Path) -> bool:
        if moving.is_inside:
            return not (source / f"{MOVED}-0").exists()
        (described,) = self.admin.describe_topics([MOVED])
        (state,) = described.metadata.partitions
        if state.replica_nodes != (3 - self.at,) or state.isr_nodes != state.replica_nodes:
            return False
        self.at = 3 - self.at
        return True


class Client:
    """Writes in a thread until it is stopped."""

    def __init__(self, cluster: Cluster) -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.kafka_bootstrap_servers, "linger.ms": 0}
        )
        self._over = Event()
        self._thread = Thread(target=self._run)
        self.latencies_ms: list[float] = []

    def __enter__(self) -> Client:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.01):
            began_s = time.monotonic()
            self._producer.produce(CLIENT, b"n" * 100)
            self._producer.flush(60)
            self.latencies_ms.append((time.monotonic() - began_s) * 1_000)


def _fill(cluster: Cluster, mib: int) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.kafka_bootstrap_servers, "queue.buffering.max.kbytes": 64 << 10}
    )
    for number in range((mib << 20) // len(BATCH)):
        producer.produce(MOVED, BATCH, partition=0)
        if number % 400 == 0:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0


def _until_over(site: Site, moving: Moving, rate: int, size_bytes: int) -> float:
    """Do the move. Return its bytes per second; after the rate was changed, if it was."""
    source, began_s = site.place(), time.monotonic()
    there = site.begin(moving)
    changed: tuple[float, int] | None = None
    while not site.is_over(moving, source):
        now_s = time.monotonic()
        if moving.later != 1.0 and changed is None and there() > size_bytes / 3:
            site.limit(moving.keys, round(rate * moving.later))
            changed = time.monotonic(), there()
        assert now_s - began_s < DEADLINE_S, f"{there()} bytes of {size_bytes} have moved"
        # Nothing tells when the files have grown.
        time.sleep(0.1)
    since_s, before_bytes = changed or (began_s, 0)
    return (size_bytes - before_bytes) / (time.monotonic() - since_s)


def _until_over_with_pauses(site: Site, moving: Moving, rate: int, client: Client) -> tuple[list[float], float]:
    """Do the move. Return the client's latencies in the pauses, and the bytes per second between them."""
    source, size_bytes, moved_s = site.place(), site.files(site.place()), 0.0
    moving_ms, pausing_ms = client.latencies_ms, list[float]()
    site.begin(moving)
    while True:
        client.latencies_ms, began_s = moving_ms, time.monotonic()
        while time.monotonic() < began_s + PAUSE_S:
            if site.is_over(moving, source):
                return pausing_ms, size_bytes / (moved_s + time.monotonic() - began_s)
            # Nothing tells when a move is over.
            time.sleep(0.1)
        site.limit(moving.keys, 0)
        moved_s += time.monotonic() - began_s
        client.latencies_ms = pausing_ms
        # Nothing moves, while the client goes on being measured.
        time.sleep(PAUSE_S)
        site.limit(moving.keys, rate)


def _measure_one(site: Site, moving: Moving, rate: int) -> dict[str, Cell]:
    size_bytes = site.files(site.place())
    before_ms, held = list[float](), None
    if not moving.has_pauses:
        with Client(site.cluster) as client:
            # The client is measured meanwhile.
            time.sleep(BEFORE_S)
        before_ms = client.latencies_ms
    site.limit(moving.keys, rate)
    with Client(site.cluster) as client:
        beside_ms = client.latencies_ms
        if moving.has_pauses:
            before_ms, held = _until_over_with_pauses(site, moving, rate, client)
        elif moving.moves:
            held = _until_over(site, moving, rate, size_bytes)
        else:
            # The client is measured meanwhile.
            time.sleep(NOTHING_S)
    if moving.keys:
        site.admin.alter_broker_configs(None, delete=moving.keys)
    before, beside = _percentile_ms(before_ms, 99), _percentile_ms(beside_ms, 99)
    return {
        "limit of": moving.name,
        "MiB": round(size_bytes / (1 << 20)) if held is not None else None,
        "MiB/s": round(held / (1 << 20), 2) if held is not None else None,
        "of the rate": round(held / (rate * moving.later), 3) if held is not None and moving.keys else None,
        "p99 before, ms": round(before, 1),
        "p99 beside, ms": round(beside, 1),
        "ratio": round(beside / before, 2),
        "p50 before, ms": round(_percentile_ms(before_ms, 50), 1),
        "p50 beside, ms": round(_percentile_ms(beside_ms, 50), 1),
    }


def _percentile_ms(latencies_ms: list[float], percent: int) -> float:
    return sorted(latencies_ms)[len(latencies_ms) * percent // 100]


def measure(moves: Mapping[str, Moving], mib: int, rate: int) -> Report:
    with TemporaryDirectory(prefix="kraft-throttled-") as parent:
        home = Path(parent, "cluster")
        directories = {number: ",".join(str(home / f"node-{number}" / name) for name in "ab") for number in (1, 2)}
        node_overrides = {number: {"log.dirs": each} for number, each in directories.items()}
        with (
            Cluster(3, home, node_overrides=node_overrides) as cluster,
            Admin(cluster.bootstrap_servers) as admin,
        ):
            kafka_admin = KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap_servers.split(","))
            everything = {f"{side}.replicas": "*" for side in (LEADER, FOLLOWER)}
            kafka_admin.create_topics(
                [
                    NewTopic(MOVED, replica_assignments={0: [1]}, topic_configs=everything),
                    NewTopic(CLIENT, replica_assignments={0: [1, 2]}),
                ]
            )
            _fill(cluster, mib)
            site = Site(cluster, admin, kafka_admin)
            rows = [_measure_one(site, moving, rate) for moving in moves.values()]
            kafka_admin.close()
    return Report(
        title=f"A partition moves at {rate / (1 << 20):g} MiB/s",
        durability="acknowledged by two brokers, which sync",
        rows=rows,
        notes=(
            "The rate of a move is that of the whole of it, from the request to the new in-sync replica.",
            "Where the rate is doubled amid the move, it is that of the rest, compared with the doubled rate.",
        ),
    )


app = typer.Typer(add_completion=False)


@app.command()
def main(
    only: Annotated[str, typer.Option(help="Moves whose names have this in them.")] = "",
    mib: Annotated[int, typer.Option(help="Size of the partition.")] = 300,
    mib_per_second: Annotated[float, typer.Option(help="The rate.")] = 10.0,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """How fast a partition moves, and what a client notices of it."""
    moves = {each.name: each for each in MOVES if only in each.name}
    print_report(measure(moves, mib, round(mib_per_second * (1 << 20))), output)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.throttled_moves")
