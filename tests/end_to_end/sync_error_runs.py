"""A disk whose syncs fail: a node ends at once, has acknowledged nothing that was not synced, and starts again.

strace makes the system calls fail, and writes down which writes and syncs came before. By that the log is then cut back
to what was synced, as a power failure would: only so does it show when something was acknowledged too early.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from kraft.testing import Cluster
from tests.end_to_end.numbered_load import Contents, NumberedLoad, compare
from tests.end_to_end.records import create_topic

_TOPIC: Final = "unsynced"
_ATTACH_DEADLINE_S: Final = 20.0
_END_DEADLINE_S: Final = 30.0
_ONLINE_DEADLINE_S: Final = 60.0
_WRITES: Final = ("pwrite64", "pwritev", "pwritev2")
_SYNCS: Final = ("fsync", "fdatasync")
# A thread's number, then a call: whole, begun, or ended.
_LINE: Final = re.compile(r"^\d+ +(?P<call>.*)$")
_BEGUN: Final = re.compile(r"^(?P<call>.*) <unfinished \.\.\.>$")
_ENDED: Final = re.compile(r"^<\.\.\. \w+ resumed>(?P<rest>.*)$")
_WRITTEN: Final = re.compile(
    r"^(?:pwrite64|pwritev2?)\(\d+<(?P<path>[^>]*)>.*?, (?P<at>\d+)(?:, 0)?\) += (?P<size>\d+)$"
)
_SYNC_BEGUN: Final = re.compile(r"^(?:fsync|fdatasync)\(\d+<(?P<path>[^>]*)>")


class CannotInject(Exception):
    """This machine has no strace, or does not let it attach; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncError:
    """One node that met failing syncs, and came back."""

    only_log: bool
    """Only the syncs of the partition's `.log` failed; otherwise those of every file."""

    failed_at: int
    """Which sync of a thread was the first to fail."""

    last_words: str
    """What the node said as it ended: the last line of its output."""

    cut_bytes: int
    """Written and not synced, and so cut off before the new start."""

    acknowledged_before: int
    """Numbers acknowledged when the node had ended."""

    contents: Contents
    """After the new start, without the syncs of strace, and with everything acknowledged that was under way."""


def run(*, times: int, seed: int, tell: Callable[[SyncError], None]) -> list[SyncError]:
    """One node each time, alternately with all syncs failing and with those of the partition's log only.

    Raises CannotInject, and AssertionError when the node did not end as it should or the load had to give anything up.
    """
    check_strace()
    chance = Random(seed)
    found = []
    for number in range(times):
        found.append(_run_one(only_log=number % 2 == 0, failed_at=chance.randint(1, 30)))
        tell(found[-1])
    return found


def check_strace() -> None:
    """Raises CannotInject when there is no strace, or it may not attach to a process of ours."""
    if shutil.which("strace") is None:
        raise CannotInject("strace is not installed")
    with subprocess.Popen(["sleep", "60"]) as bystander:
        try:
            command = ["strace", "-f", "-qq", "-p", str(bystander.pid), "-o", os.devnull]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
                try:
                    _, said = strace.communicate(timeout=0.5)
                except subprocess.TimeoutExpired:
                    return
                finally:
                    strace.terminate()
            raise CannotInject(f"strace may not attach: {said.strip()}")
        finally:
            bystander.kill()


def _run_one(*, only_log: bool, failed_at: int) -> SyncError:
    with Cluster(nodes=1) as cluster:
        node = cluster.node(1)
        create_topic(cluster.bootstrap_servers, _TOPIC, partitions=1, replication_factor=1)
        log_file = cluster.directory / "node-1" / f"{_TOPIC}-0" / f"{0:020d}.log"
        trace_file = cluster.directory / "strace.out"
        with NumberedLoad(cluster.bootstrap_servers, _TOPIC) as load:
            load.wait_for_acknowledgements(100)
            # All that was sent is acknowledged now, so all that stands in the file is synced.
            load.pause()
            synced_before = log_file.stat().st_size
            with _failing_syncs(node.pid, log_file if only_log else None, failed_at, trace_file):
                load.resume()
                _wait_until_ended(lambda: node.is_running)
            last_words = _last_words(node.log_path, node.exit_code)
            acknowledged_before = load.acknowledged_count
            trace = trace_file.read_text(errors="replace").splitlines()
            cut_bytes = _lose_unsynced(log_file, max(synced_before, synced_end(trace, str(log_file))))
            node.start()
            cluster.wait_ready(_ONLINE_DEADLINE_S)
            load.wait_for_acknowledgements(1, _ONLINE_DEADLINE_S)
            load.pause(_ONLINE_DEADLINE_S)
            assert not load.errors, f"the load gave up: {dict(load.errors)}"
            contents = compare(cluster.bootstrap_servers, _TOPIC, load)
            assert contents.is_exact, str(contents)
        return SyncError(
            only_log=only_log,
            failed_at=failed_at,
            last_words=last_words,
            cut_bytes=cut_bytes,
            acknowledged_before=acknowledged_before,
            contents=contents,
        )


@contextmanager
def _failing_syncs(pid: int, only: Path | None, failed_at: int, trace_file: Path) -> Iterator[None]:
    """In that process, every sync of a thread from its `failed_at`th on fails with EIO."""
    calls = ",".join(_SYNCS)
    command = ["strace", "-f", "-y", "-s", "0", "-p", str(pid), "-o", str(trace_file)]
    command += ["-e", f"trace={calls},{','.join(_WRITES)}", "-e", f"inject={calls}:error=EIO:when={failed_at}+"]
    command += ["-P", str(only)] if only is not None else []
    said = trace_file.with_suffix(".said")
    with said.open("wb") as words, subprocess.Popen(command, stderr=words) as strace:
        try:
            _wait_until_attached(strace, said)
            yield
        finally:
            strace.terminate()


def _wait_until_attached(strace: subprocess.Popen[bytes], said: Path) -> None:
    until_s = time.monotonic() + _ATTACH_DEADLINE_S
    while "attached" not in said.read_text():
        if strace.poll() is not None or time.monotonic() > until_s:
            raise CannotInject(f"strace did not attach: {said.read_text().strip() or 'no answer in time'}")
        time.sleep(0.01)


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


def synced_end(trace: Iterable[str], path: str) -> int:
    """How far the file was durable by the last sync of it that succeeded: what had been written when that began.

    `trace` are strace's lines, with the paths of files.
    """
    written = durable = 0
    begun: dict[str, tuple[str, int]] = {}
    for line in trace:
        found = _LINE.match(line)
        if found is None:
            continue
        thread, call = line.split(" ", 1)[0], found["call"].strip()
        before = written
        if unfinished := _BEGUN.match(call):
            begun[thread] = unfinished["call"], written
            continue
        if resumed := _ENDED.match(call):
            first_half, before = begun.pop(thread, ("", 0))
            call = first_half + resumed["rest"]
        if (wrote := _WRITTEN.match(call)) and wrote["path"] == path:
            written = max(written, int(wrote["at"]) + int(wrote["size"]))
        elif (synced := _SYNC_BEGUN.match(call)) and synced["path"] == path and call.endswith("= 0"):
            durable = max(durable, before)
    return durable


def _lose_unsynced(log_file: Path, durable_bytes: int) -> int:
    written_bytes = log_file.stat().st_size
    assert durable_bytes <= written_bytes, f"{durable_bytes} bytes are said to be synced, {written_bytes} were written"
    os.truncate(log_file, durable_bytes)
    return written_bytes - durable_bytes
