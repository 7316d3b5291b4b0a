"""A disk that runs full repeatedly: producers are refused, readers are not, and work continues once there is space.

The disk is a small tmpfs with ballast files on it; removing some of them frees space.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from kraft.client import Admin, DeliveryTimeout, ErrorCode, Producer
from kraft.testing import Cluster
from tests.soak.loads.numbered_load import Contents, NumberedLoad, compare
from tests.support.command_line import run as run_command
from tests.support.records import create_topic

MIB: Final = 1 << 20
DISK_BYTES: Final = 64 * MIB
HEAD_ROOM_BYTES: Final = 4 * MIB
RESUMED_WITHIN_S: Final = 5.0

_TOPIC: Final = "full"
_BALLAST_BYTES: Final = 56 * MIB
_FREED_BYTES_MAX: Final = 6 * MIB
"""Space that is freed each time, if the ballast lasts for that."""
_VALUE_BYTES: Final = 2_000
_SEGMENT_BYTES: Final = 4 * MIB
_FULL_DEADLINE_S: Final = 60.0
_QUIET_S: Final = 0.3
"""Time without an acknowledgement after which a probe is sent; the refusal of the probe counts, not the time."""
_COMMAND_DEADLINE_S: Final = 60.0


class CannotMount(Exception):
    """This machine does not allow mounting a file system; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullDisk:
    """One time that the disk was full, until work continued."""

    head_room_bytes: int
    """`log.free.space.min.bytes` of the node; 0 lets it write until the disk itself refuses."""

    refusal: str
    """The error that a producer got."""

    free_bytes: int
    """Free bytes when the producer got it."""

    while_full: Contents
    """Records read while the disk was full."""

    resumed_s: float
    """Time from freeing space to the first acknowledgement."""


def run(*, times: int, head_room_bytes: int, directory: Path, tell: Callable[[FullDisk], None]) -> list[FullDisk]:
    """Fill the disk of one node that many times, and free a part of it. Mounts below `directory`.

    Raises CannotMount, and AssertionError if a record is lost or duplicated, the node ends, the refusal is not
    retriable, or the load had an error.
    """
    found = []
    with small_disk(directory / "disk") as disk:
        ballast = _lay_ballast(disk, times)
        settings = {
            "log.dirs": str(disk / "data"),
            "log.segment.bytes": str(_SEGMENT_BYTES),
            "log.free.space.min.bytes": str(head_room_bytes),
        }
        if head_room_bytes == 0:
            # Without a reserve, only the partitions' logs are guaranteed to survive a completely full disk.
            settings["metadata.log.dir"] = str(directory / "metadata")
        with Cluster(nodes=1, directory=directory / "cluster", overrides=settings) as cluster:
            create_topic(cluster.bootstrap_servers, _TOPIC, partitions=1, replication_factor=1)
            pid = cluster.node(1).pid
            with NumberedLoad(cluster.bootstrap_servers, _TOPIC, value_bytes=_VALUE_BYTES) as load:
                for _ in range(times):
                    found.append(_fill_and_free(cluster, load, disk, head_room_bytes, ballast))
                    tell(found[-1])
                    assert cluster.node(1).pid == pid, "the node was restarted"
                _free(ballast)
                load.pause(_FULL_DEADLINE_S)
                assert not load.errors, f"the load failed: {dict(load.errors)}"
                final = compare(cluster.bootstrap_servers, _TOPIC, load)
                assert final.is_exact, str(final)
                assert final.acknowledged == load.sent, "a number without an outcome"
        verify(disk / "data")
    return found


def create_on_full_disk(directory: Path) -> str:
    """Create a topic while the disk of one node is full to the last byte, free space, and send a record.

    Mounts below `directory`. Returns the error that producers got while the disk was full. Raises CannotMount, and
    AssertionError if the node ends or its logs are not sound in the end.
    """
    with small_disk(directory / "disk") as disk:
        settings = {
            "log.dirs": str(disk / "data"),
            "log.free.space.min.bytes": "0",
            # Without a reserve, only the partitions' logs are guaranteed to survive a completely full disk.
            "metadata.log.dir": str(directory / "metadata"),
        }
        with Cluster(nodes=1, directory=directory / "cluster", overrides=settings) as cluster:
            pid = cluster.node(1).pid
            ballast = fill(disk)
            with Admin(cluster.bootstrap_servers) as admin:
                admin.create_topic(_TOPIC, partitions=1, replication_factor=1)
            refusal = _wait_until_offline(cluster.bootstrap_servers)
            _free(ballast)
            with Producer(cluster.bootstrap_servers, delivery_timeout_ms=int(_FULL_DEADLINE_S * 1_000)) as producer:
                producer.send(_TOPIC, b"late", partition=0).result(timeout=2 * _FULL_DEADLINE_S)
            assert cluster.node(1).pid == pid, "the node was restarted"
        verify(disk / "data")
    return refusal


def fill(disk: Path) -> list[Path]:
    """Write a ballast file until nothing more fits on the disk."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (MIB, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    return [ballast]


def _wait_until_offline(bootstrap_servers: str) -> str:
    """Return the error with which records for the new topic are refused."""
    until_s = time.monotonic() + _FULL_DEADLINE_S
    while time.monotonic() < until_s:
        refusal = _refusal(bootstrap_servers)
        if refusal is not None and _code(refusal) is ErrorCode.KAFKA_STORAGE_ERROR:
            return refusal
    raise TimeoutError(f"the new topic was not refused within {_FULL_DEADLINE_S:.0f} s")


def verify(directory: Path) -> None:
    """Check the logs with `kraft log verify`. Raises AssertionError with its output."""
    finished = run_command("log", "verify", directory)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def check_mount() -> None:
    """Raises CannotMount."""
    with tempfile.TemporaryDirectory() as directory, small_disk(Path(directory) / "disk"):
        pass


@contextmanager
def small_disk(mount_point: Path) -> Iterator[Path]:
    """Mount a disk of `DISK_BYTES` there. Raises CannotMount."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        raise CannotMount("mounting a tmpfs takes root, and the command mount")
    mount_point.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "kraft-full-disk", str(mount_point)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_DEADLINE_S, check=False)
    if finished.returncode != 0:
        raise CannotMount(f"mounting a tmpfs is not permitted: {finished.stderr.strip()}")
    try:
        yield mount_point
    finally:
        # Lazily: an exception's traceback may still hold something open.
        subprocess.run(["umount", "-l", str(mount_point)], timeout=_COMMAND_DEADLINE_S, check=True)


def _lay_ballast(disk: Path, times: int) -> list[Path]:
    """Create one ballast file for each time that space is freed, and one for the end; return them. One more stays."""
    size_bytes = min(_BALLAST_BYTES // (times + 1), _FREED_BYTES_MAX)
    files = [disk / f"ballast-{number}" for number in range(times + 1)]
    for file in files:
        file.write_bytes(bytes(size_bytes))
    (disk / "ballast").write_bytes(bytes(_BALLAST_BYTES - size_bytes * len(files)))
    return files


def _fill_and_free(
    cluster: Cluster, load: NumberedLoad, disk: Path, head_room_bytes: int, ballast: list[Path]
) -> FullDisk:
    refusal = _wait_until_refused(cluster.bootstrap_servers, load)
    free_bytes = shutil.disk_usage(disk).free
    code = _code(refusal)
    assert code is not None, refusal
    assert code.retriable, f"a full disk is refused with {refusal}, which clients do not retry"
    while_full = compare(cluster.bootstrap_servers, _TOPIC, load)
    assert while_full.is_exact, str(while_full)
    cluster.node(1).check_running()
    before = load.acknowledged_count
    _free(ballast)
    resumed_s = load.wait_for_acknowledgements(1, _FULL_DEADLINE_S)
    assert load.acknowledged_count > before
    return FullDisk(
        head_room_bytes=head_room_bytes,
        refusal=refusal,
        free_bytes=free_bytes,
        while_full=while_full,
        resumed_s=resumed_s,
    )


def _free(ballast: list[Path]) -> None:
    ballast.pop().unlink()


_probes = count(1)


def _wait_until_refused(bootstrap_servers: str, load: NumberedLoad) -> str:
    """Wait until nothing is acknowledged any more; return the producer's error: an error code's name, and text."""
    until_s = time.monotonic() + _FULL_DEADLINE_S
    while time.monotonic() < until_s:
        before = load.acknowledged_count
        time.sleep(_QUIET_S)
        load.check()
        if load.acknowledged_count == before and (refusal := _refusal(bootstrap_servers)) is not None:
            return refusal
    raise TimeoutError(f"the disk was not full within {_FULL_DEADLINE_S:.0f} s")


def _refusal(bootstrap_servers: str) -> str | None:
    """Send one more record of the load's size; return its error, or None if it was stored or got no response."""
    # Negative, so that it differs from the load's numbers.
    value = (b"%d" % -next(_probes)).ljust(_VALUE_BYTES)
    with Producer(bootstrap_servers, linger_ms=0, request_timeout_ms=600, delivery_timeout_ms=700) as producer:
        try:
            producer.send(_TOPIC, value, partition=0).result(timeout=30)
        except DeliveryTimeout as late:
            # Without a response in time, the reason does not begin with an error's name.
            return late.reason if _code(late.reason) is not None else None
    return None


def _code(reason: str) -> ErrorCode | None:
    return ErrorCode.__members__.get(reason.partition(":")[0])
