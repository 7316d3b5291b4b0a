"""The power fails at every point of a log's life: see `tests.simulation.crash_points`."""

from __future__ import annotations

from random import Random

import pytest

from kraft.log.topic_config import TopicConfig
from kraft.model.ids import LeaderEpoch, Offset
from tests.simulation.crash_points import crash_everywhere
from tests.simulation.half_deleted import delete_halves
from tests.support.disks.sim_content import CrashMode
from tests.support.disks.sim_disk import SimDisk
from tests.support.log.log_building import append, read_all, stored
from tests.support.log.modelled_log import new_disk, open_log

STEPS = 100
"""Some of every kind; `tests.soak.crash_points` runs longer ones with more seeds."""


@pytest.mark.slow
@pytest.mark.parametrize("workload_seed", [0, 4, 15])
def test_every_crash_point_recovers_to_a_prefix_that_holds_everything_synced(workload_seed: int) -> None:
    tally = crash_everywhere(workload_seed, STEPS)
    print(f"workload {workload_seed}: {tally}")
    assert tally.points >= 500


@pytest.mark.parametrize("mode", CrashMode)
def test_a_follower_killed_inside_restart_at_takes_records_of_an_earlier_epoch(mode: CrashMode) -> None:
    """It led epoch 5 for one record; the leader of epoch 6 has records of epoch 4, and its log starts above our end."""
    disk = new_disk()
    log = open_log(disk, TopicConfig())
    append(log, "a", epoch=4)
    append(log, "b", epoch=5)
    moments: list[SimDisk] = []
    disk.on_point = lambda: moments.append(disk.clone())
    log.truncate_fully_and_start_at(Offset(200))
    for number, moment in enumerate(moments):
        moment.crash(mode, Random(number))
        follower = open_log(moment, TopicConfig())
        if follower.log_end_offset < 200:
            follower.truncate_fully_and_start_at(Offset(200))
        assert follower.append_as_follower(stored("c", offset=200, epoch=4)) == 200, moment.last_operation
        assert read_all(follower) == ["c"]
        assert follower.latest_epoch == LeaderEpoch(4)


@pytest.mark.parametrize("workload_seed", [0, 1])
def test_a_partly_deleted_log_is_refused_or_keeps_its_front(workload_seed: int) -> None:
    tried, refused = delete_halves(workload_seed, steps=60)
    print(f"{tried} half deleted directories, {refused} of them refused")
    assert tried - refused > 10
    assert refused > 10
