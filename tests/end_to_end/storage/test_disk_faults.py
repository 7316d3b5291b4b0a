"""Real nodes on disks that fail, that run full, and under kill -9: the short forms of `disk_fault_runs`."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.nemesis import power_loss
from tests.soak import full_disk_runs, kill_runs, sync_error_runs
from tests.soak.full_disk_runs import CannotMount


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "times"), [(1, 2), (3, 1)])
def test_what_was_acknowledged_is_there_exactly_once_after_kill_9_under_load(nodes: int, times: int) -> None:
    kills = kill_runs.run(times=times, nodes=nodes, seed=nodes, load_s=(0.2, 0.8), tell=print)
    assert len(kills) == times
    for made in kills:
        assert made.contents.is_exact, str(made.contents)
        assert made.contents.acknowledged > 0


@pytest.mark.slow
def test_a_node_whose_syncs_failed_has_acknowledged_nothing_that_a_later_loss_of_power_takes(tmp_path: Path) -> None:
    try:
        errors = sync_error_runs.run(times=2, seed=1, directory=tmp_path, tell=print)
    except power_loss.CannotMount as reason:
        pytest.skip(str(reason))
    assert [met.only_log for met in errors] == [True, False]
    # If the failed syncs left nothing unwritten, this test would show nothing. One may hit a file without new bytes.
    assert sum(met.failed_bytes for met in errors) > 0
    assert all(met.contents.acknowledged > met.acknowledged_before for met in errors)


@pytest.mark.slow
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
        # One append may use the reserve; the node's own files take little.
        assert met.free_bytes > head_room_bytes // 2 or head_room_bytes == 0


def test_a_topic_that_was_created_on_a_full_disk_is_written_to_once_there_is_room(tmp_path: Path) -> None:
    try:
        refusal = full_disk_runs.create_on_full_disk(tmp_path)
    except CannotMount as reason:
        pytest.skip(str(reason))
    assert "no room on the disk to create it" in refusal
