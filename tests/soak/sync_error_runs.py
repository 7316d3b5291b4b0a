"""A disk whose syncs fail: a node ends at once, starts again, and then the power fails; nothing acknowledged is lost.

The disk does what a kernel may do: it reports a failed sync once and marks the pages clean. They stay readable, also
for the next process, and no later sync writes them. Only a power loss shows what was durable.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from chaos.nemesis.power_loss import Loss, PowerLossDisk
from kraft.testing import Cluster
from tests.soak.loads.numbered_load import Contents, NumberedLoad, compare
from tests.support.records import create_topic

_TOPIC: Final = "unsynced"
_END_DEADLINE_S: Final = 30.0
_ONLINE_DEADLINE_S: Final = 60.0
_LOAD_S: Final = (0.0, 0.5)
_SYNC_MS_MAX: Final = 10.0
"""A sync that takes some time leaves more to be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncError:
    """One node that met failing syncs, came back, and lost power."""

    only_log: bool
    """Only the syncs of the partition's `.log` failed; otherwise those of every file."""

    last_words: str
    """The last line of the node's output."""

    failed_bytes: int
    """Bytes that the failed syncs did not write, and that were readable at the new start."""

    acknowledged_before: int
    """Numbers acknowledged when the node had ended."""

    contents: Contents
    """Contents after the power loss, with everything acknowledged before and after the first new start."""


def run(*, times: int, seed: int, directory: Path, tell: Callable[[SyncError], None]) -> list[SyncError]:
    """One node each time, alternately with the syncs of the partition's log failing and with all. Mounts below
    `directory`.

    Raises CannotMount, and AssertionError if the node did not end as it should or the load had an error.
    """
    chance = Random(seed)
    found = []
    for number in range(times):
        found.append(_run_one(directory / str(number), only_log=number % 2 == 0, chance=chance))
        tell(found[-1])
    return found


def _run_one(directory: Path, *, only_log: bool, chance: Random) -> SyncError:
    place = directory / "cluster" / "node-1"
    with (
        PowerLossDisk(directory / "disk", place, sync_ms_max=_SYNC_MS_MAX, seed=chance.getrandbits(32)) as disk,
        Cluster(nodes=1, directory=directory / "cluster") as cluster,
    ):
        node = cluster.node(1)
        create_topic(cluster.bootstrap_servers, _TOPIC, partitions=1, replication_factor=1)
        with NumberedLoad(cluster.bootstrap_servers, _TOPIC) as load:
            load.wait_for_acknowledgements(100)
            time.sleep(chance.uniform(*_LOAD_S))
            disk.fail_syncs(f"/{_TOPIC}-0/{0:020d}.log" if only_log else "")
            _wait_until_ended(lambda: node.is_running)
            last_words = _last_words(node.log_path, node.exit_code)
            acknowledged_before = load.acknowledged_count
            failed_bytes = disk.heal_syncs()
            node.start()
            cluster.wait_ready(_ONLINE_DEADLINE_S)
            # What was sent before and is found in the log is acknowledged now, as a duplicate.
            load.wait_for_acknowledgements(1, _ONLINE_DEADLINE_S)
            load.pause(_ONLINE_DEADLINE_S)
            assert not load.errors, f"the load failed: {dict(load.errors)}"
            disk.cut_power()
            node.kill()
            disk.restore_power(Loss.ALL, chance.getrandbits(32))
            node.start()
            cluster.wait_ready(_ONLINE_DEADLINE_S)
            contents = compare(cluster.bootstrap_servers, _TOPIC, load)
            assert contents.is_exact, str(contents)
        return SyncError(
            only_log=only_log,
            last_words=last_words,
            failed_bytes=failed_bytes,
            acknowledged_before=acknowledged_before,
            contents=contents,
        )


def _wait_until_ended(is_running: Callable[[], bool]) -> None:
    until_s = time.monotonic() + _END_DEADLINE_S
    while is_running():
        assert time.monotonic() < until_s, f"the node still runs {_END_DEADLINE_S:.0f} s after its syncs began to fail"
        time.sleep(0.01)


def _last_words(log_path: Path, exit_code: int | None) -> str:
    """The last line of the node's output, which has to say in words what was wrong."""
    text = log_path.read_text()
    assert exit_code == 1, f"the node ended with exit code {exit_code}"
    assert "Traceback" not in text, text
    last = text.splitlines()[-1]
    assert last.startswith("kraft: "), last
    assert "Input/output error" in last, last
    return last
