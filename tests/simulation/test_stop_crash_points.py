"""The power fails at every point of a stop: while the logs are closed, and when the clean shutdown marker is written.

Once the marker is durable, the next process reads nothing again that the stop left as it was: so all of it is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import pytest

from kraft.log.change import run_now
from kraft.log.partition_log import PartitionLog
from kraft.model.ids import LogDirectory, Offset, TopicPartition
from kraft.server.identity.storage import CLEAN_SHUTDOWN_FILE
from tests.support.cluster_images import cluster, with_topic
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import SimDisk
from tests.support.log.log_building import SMALL_SEGMENTS, append, roll, sync
from tests.support.log.log_expectations import read_bytes
from tests.support.log.transactional_log import ABORT, end, send
from tests.support.server.replicas import Broker, append_to, batch
from tests.unit.server.replica.publishing import Host

ROOT = LogDirectory("data")
MARKER: Final = f"{ROOT}/{CLEAN_SHUTDOWN_FILE}"


def does_nothing(log: PartitionLog) -> None:
    pass


def is_synced(log: PartitionLog) -> None:
    append(log, "synced")
    sync(log)


def is_unsynced(log: PartitionLog) -> None:
    is_synced(log)
    append(log, "unsynced")


def aborts(log: PartitionLog) -> None:
    send(log, 8, 0, "aborted")
    end(log, 8, ABORT)


def aborts_and_syncs(log: PartitionLog) -> None:
    aborts(log)
    sync(log)


def rolls(log: PartitionLog) -> None:
    append(log, "last of a segment")
    roll(log)


def is_truncated(log: PartitionLog) -> None:
    run_now(log.truncating_to(Offset(log.log_end_offset - 1)))


def begins_anew(log: PartitionLog) -> None:
    run_now(log.starting_at(Offset(200)))


def settles_and_goes_on(log: PartitionLog) -> None:
    is_unsynced(log)
    log.settle()
    append(log, "after it")


def deletes(log: PartitionLog) -> None:
    run_now(log.advancing_log_start(Offset(2)))


WORK: Final[dict[str, Callable[[PartitionLog], None]]] = {
    each.__name__: each
    for each in (
        does_nothing,
        is_synced,
        is_unsynced,
        aborts,
        aborts_and_syncs,
        rolls,
        is_truncated,
        begins_anew,
        settles_and_goes_on,
        deletes,
    )
}

NEED_RECORDS: Final = ("is_truncated", "deletes")


def opened(disk: SimDisk, name: str) -> PartitionLog:
    """Open a log as the next process does."""
    return PartitionLog.open(
        disk, f"{ROOT}/{name}-0", SMALL_SEGMENTS, TopicPartition(name, 0), clean_shutdown=disk.exists(MARKER)
    )


def stop(disk: SimDisk, logs: dict[str, PartitionLog]) -> None:
    for log in logs.values():
        log.close()
    disk.write_atomically(MARKER, b"version=1\n")


def worked(was_stopped: bool) -> tuple[SimDisk, dict[str, PartitionLog]]:
    """Return the logs after their work, in a process that found them empty, or closed cleanly with some records."""
    disk = SimDisk()
    disk.make_dir(ROOT)
    disk.sync_dir("")
    logs = {name: opened(disk, name) for name in WORK}
    if was_stopped:
        for log in logs.values():
            send(log, 7, 0, "of an earlier process")
            end(log, 7, ABORT)
            append(log, "plain")
        stop(disk, logs)
        logs = {name: opened(disk, name) for name in WORK}
        disk.remove(MARKER)
        disk.sync_dir(ROOT)
    for name, work in WORK.items():
        if was_stopped or name not in NEED_RECORDS:
            work(logs[name])
    return disk, logs


Held = tuple[object, ...]


def held(log: PartitionLog) -> Held:
    start, log_end = log.log_start_offset, log.log_end_offset
    aborted = log.transactions.aborted(start, log_end)
    return start, log_end, read_bytes(log), log.epoch_cache.entries, aborted, log.producers


@pytest.mark.parametrize("was_stopped", [False, True])
@pytest.mark.parametrize("mode", CrashMode)
def test_a_crash_anywhere_in_a_stop_loses_nothing(mode: CrashMode, was_stopped: bool) -> None:
    disk, logs = worked(was_stopped)
    expected = {name: held(log) for name, log in logs.items()}
    synced = {name: log.synced_end_offset for name, log in logs.items()}
    moments: list[SimDisk] = []
    disk.on_point = lambda: moments.append(disk.clone())
    stop(disk, logs)
    disk.on_point = None
    assert len(moments) > 60
    stopped_cleanly = 0
    # Each point in half of the modes, which is enough and takes half the time.
    for seed, moment in enumerate([*moments[[*CrashMode].index(mode) % 2 :: 2], *[disk.clone()] * 5]):
        operation = moment.last_operation
        crashed = moment.clone()
        crashed.crash(mode, Random(seed))
        is_clean = crashed.exists(MARKER)
        stopped_cleanly += is_clean
        for name in WORK:
            log = opened(crashed, name)
            if is_clean:
                assert held(log) == expected[name], (name, operation)
            else:
                assert log.log_end_offset >= synced[name], (name, operation)
                assert cast(bytes, expected[name][2]).startswith(read_bytes(log)), (name, operation)
            log.release()
    assert stopped_cleanly >= 5


async def test_a_stop_writes_nothing_for_logs_that_have_not_changed() -> None:
    disk = SimDisk()
    disk.make_dir(ROOT)
    disk.sync_dir("")
    image = with_topic(cluster(1, 2), [1], [1], [1, 2], [2, 1])

    def host_of(*, clean_shutdown: bool) -> Host:
        return Host(Broker(Path(ROOT), disk=cast(Any, disk))).start(clean_shutdown=clean_shutdown)

    operations: list[str] = []
    for log_end, values in ((0, []), (2, ["a", "b"]), (2, []), (3, ["c"])):
        host = host_of(clean_shutdown=disk.exists(MARKER))
        await host.act_on(image)
        for value in values:
            append_to(host.partition(), batch(value), 1)
        assert host.partition().log.log_end_offset == log_end
        operations.clear()
        disk.on_point = lambda: operations.append(disk.last_operation)
        await host.publisher.close()
        disk.on_point = None
        directory = f"{ROOT}/orders-0"
        assert [each for each in operations if directory not in each] == []
        syncs = [each for each in operations if each.startswith("sync ")]
        # The records; two indexes, a snapshot and the checkpoint, each with its name.
        assert len(syncs) == (9 if values else 0)
        disk.write_atomically(MARKER, b"version=1\n")
