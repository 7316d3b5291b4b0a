"""Real nodes on disks that fail, that run full, and under kill -9: the short forms of `disk_fault_runs`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end import full_disk_runs, kill_runs, sync_error_runs
from tests.end_to_end.full_disk_runs import CannotMount
from tests.end_to_end.sync_error_runs import CannotInject, synced_end

LOG = "/data/orders-0/00000000000000000000.log"


@pytest.mark.parametrize(("nodes", "times"), [(1, 2), (3, 1)])
def test_what_was_acknowledged_is_there_exactly_once_after_kill_9_under_load(nodes: int, times: int) -> None:
    kills = kill_runs.run(times=times, nodes=nodes, seed=nodes, load_s=(0.2, 0.8), tell=print)
    assert len(kills) == times
    for made in kills:
        assert made.contents.is_exact, str(made.contents)
        assert made.contents.acknowledged > 0


def test_a_node_whose_syncs_fail_ends_and_has_acknowledged_nothing_that_was_not_synced() -> None:
    try:
        errors = sync_error_runs.run(times=2, seed=1, tell=print)
    except CannotInject as reason:
        pytest.skip(str(reason))
    assert [met.only_log for met in errors] == [True, False]
    # Without anything that was written and not synced, nothing would have been shown.
    assert errors[0].cut_bytes > 0
    assert all(met.contents.acknowledged > met.acknowledged_before for met in errors)


@pytest.mark.parametrize(
    ("head_room_bytes", "times"), [(full_disk_runs.HEAD_ROOM_BYTES, 2), (0, 1)], ids=["head-room", "last byte"]
)
def test_a_full_disk_refuses_producers_serves_readers_and_is_worked_on_again(
    tmp_path: Path, head_room_bytes: int, times: int
) -> None:
    try:
        found = full_disk_runs.run(times=times, head_room_bytes=head_room_bytes, directory=tmp_path, tell=print)
    except CannotMount as reason:
        pytest.skip(str(reason))
    for met in found:
        assert met.resumed_s <= full_disk_runs.RESUMED_WITHIN_S
        # One append may reach into the head-room; the node's own files take little.
        assert met.free_bytes > head_room_bytes // 2 or head_room_bytes == 0


# --- reading what strace wrote -------------------------------------------------------------------------------


def test_a_sync_covers_what_was_written_before_it_began() -> None:
    trace = [
        f"17 pwritev2(9<{LOG}>, [...], 2, 100, 0) = 50",
        f"18 fdatasync(9<{LOG}> <unfinished ...>",
        f"17 pwritev2(9<{LOG}>, [...], 2, 150, 0) = 50",
        "18 <... fdatasync resumed>)              = 0",
    ]
    assert synced_end(trace, LOG) == 150


def test_a_sync_that_failed_covers_nothing() -> None:
    trace = [
        f"17 pwrite64(9<{LOG}>, ..., 50, 100) = 50",
        f"18 fdatasync(9<{LOG}>) = -1 EIO (Input/output error) (INJECTED)",
        f"18 fdatasync(9<{LOG}> <unfinished ...>",
    ]
    assert synced_end(trace, LOG) == 0


def test_a_write_counts_from_its_end_and_a_sync_for_its_own_file_only() -> None:
    trace = [
        f"17 pwritev(9<{LOG}>, [...], 2, 100 <unfinished ...>",
        f"18 fdatasync(9<{LOG}>) = 0",
        "17 <... pwritev resumed>) = 50",
        "18 fdatasync(7</data/other-0/00000000000000000000.log>) = 0",
        f"17 pwrite64(9<{LOG}>, ..., 50, 150) = 50",
    ]
    assert synced_end(trace, LOG) == 0
    assert synced_end([*trace, f"18 fsync(9<{LOG}>)  = 0"], LOG) == 200
