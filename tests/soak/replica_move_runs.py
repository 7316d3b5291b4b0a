"""`python -m tests.soak.replica_move_runs`: kill -9 of a broker whose replica moves between two log directories.

The replica is the only one of its partition, so what it loses is lost. A client of Kafka moves it to and fro without a
pause, while another one sends 0, 1, 2, ... to it; the broker is repeatedly killed at random moments and started again.
At the end each number is there once, in order, and no move has left any files.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import kafka
import typer
from kafka.admin import KafkaAdminClient

from kraft.testing import Cluster
from tests.support.kafka.kafka_numbered_loads import Comparison, LibrdkafkaLoad, compare, read_numbers
from tests.support.records import create_topic
from tests.support.waiting import until
from tests.support.working_thread import WorkingThread

_TOPIC: Final = "moving"
_REPLICA: Final = f"{_TOPIC}-0"
_ACKNOWLEDGED_AFTERWARDS: Final = 20
_KILL_WITHIN_S: Final = 0.5
_PAUSE_S: Final = 0.01
_STOP_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`left_by_kills` counts the kills that found a move under way, by what it had left: `-future`, `-moved`."""

    kills: int
    moves: int
    left_by_kills: dict[str, int]
    comparison: Comparison
    leftovers: list[str]

    @property
    def is_exact(self) -> bool:
        return self.comparison.is_exact and not self.leftovers

    def __str__(self) -> str:
        left = ", ".join(f"{times} amid {name}" for name, times in self.left_by_kills.items())
        return f"{self.kills} kills ({left}), {self.moves} moves: {self.comparison}, left over {self.leftovers}"


class Mover(WorkingThread):
    """Has the replica moved, again as soon as it is there, until the end of the `with`."""

    def __init__(self, servers: str, directories: list[Path]) -> None:
        super().__init__("mover", _STOP_DEADLINE_S)
        self.moves = 0
        self._servers = servers
        self._directories = directories

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                admin = KafkaAdminClient(
                    bootstrap_servers=self._servers.split(","), request_timeout_ms=1_000, reconnect_backoff_max_ms=50
                )
                try:
                    while not self._stopping.wait(_PAUSE_S):
                        self._move(admin)
                finally:
                    admin.close()
            except (kafka.errors.KafkaError, OSError, TimeoutError):
                # It is being killed all the time.
                self._stopping.wait(_PAUSE_S)

    def _move(self, admin: KafkaAdminClient) -> None:
        at = places(self._directories)
        if len(at) != 1:
            return
        (target,) = [path for path in self._directories if path != at[0]]
        (error,) = admin.alter_replica_log_dirs({kafka.TopicPartitionReplica(_TOPIC, 0, 1): str(target)}).values()
        if error is not kafka.errors.NoError:
            return
        until_s = time.monotonic() + 1
        while places(self._directories) != [target] and time.monotonic() < until_s:
            self._stopping.wait(_PAUSE_S)
        self.moves += places(self._directories) == [target]


def places(directories: list[Path]) -> list[Path]:
    return [path for path in directories if (path / _REPLICA).is_dir()]


def left(directories: list[Path]) -> list[str]:
    """Return the suffixes of directories that a move, or a bug, left."""
    names = [path.name for directory in directories for path in directory.iterdir()]
    return sorted(name.rpartition("-")[2] for name in names if name.startswith(f"{_REPLICA}."))


def run(*, times: int, seed: int, tell: Callable[[str], None] = lambda _: None) -> Verdict:
    """Kill the broker repeatedly. Raises AssertionError if the producer had an error."""
    chance, found = Random(seed), dict[str, int]()
    with TemporaryDirectory(prefix="kraft-moves-") as parent:
        home = Path(parent, "cluster")
        directories = [home / "node-1" / name for name in "ab"]
        overrides = {"log.segment.bytes": str(1 << 20), "log.dirs": ",".join(map(str, directories))}
        with Cluster(1, home, overrides=overrides) as cluster:
            servers, node = cluster.kafka_bootstrap_servers, cluster.node(1)
            create_topic(cluster.bootstrap_servers, _TOPIC, partitions=1, replication_factor=1)
            with LibrdkafkaLoad(servers, _TOPIC, [0]) as load, Mover(servers, directories) as mover:
                for number in range(times):
                    load.wait_for_acknowledgements(_ACKNOWLEDGED_AFTERWARDS, time.monotonic())
                    # At a random moment.
                    time.sleep(chance.uniform(0, _KILL_WITHIN_S))
                    node.kill()
                    what = " and ".join(left(directories)) or "nothing"
                    found[what] = found.get(what, 0) + 1
                    tell(f"{number + 1}: killed after {mover.moves} moves, amid {what}")
                    node.start()
                    cluster.wait_ready()
                load.wait_for_acknowledgements(_ACKNOWLEDGED_AFTERWARDS, time.monotonic())
                load.stop()
            until(lambda: len(places(directories)) == 1 and not left(directories), "the last move is over")
            comparison = compare(load.client, 0, load.sent[0], read_numbers(servers, _TOPIC, 0))
            return Verdict(
                kills=times,
                moves=mover.moves,
                left_by_kills=found,
                comparison=comparison,
                leftovers=left(directories),
            )


def main(
    times: Annotated[int, typer.Option(min=1, help="How often the broker is killed.")] = 30,
    seed: Annotated[int, typer.Option(help="Seed of everything that is random.")] = 1,
) -> None:
    """Kills a broker whose replica moves, and counts what is lost."""
    verdict = run(times=times, seed=seed, tell=print)
    print(verdict)
    sys.exit(0 if verdict.is_exact else 1)


if __name__ == "__main__":
    typer.run(main)
