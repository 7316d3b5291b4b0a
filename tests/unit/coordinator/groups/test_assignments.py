"""Target assignments that a thread computes: what they bring is taken, or dropped if it is late."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.coordinator.consumer.assignment_run import AssignmentRun, GiveUpRun, TakeTargets
from kraft.coordinator.consumer.group import ConsumerGroup
from kraft.coordinator.consumer.requests import ConsumerHeartbeatResponse
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.groups.assignments import AFTER_A_FAILURE_MS
from kraft.coordinator.groups.settings import GroupShardSettings
from tests.unit.coordinator.consumer.coordinator import image_of, partitions
from tests.unit.coordinator.groups.coordinator import GROUP, Coordinator, joining_consumer

INTERVAL_MS = 1_000
SETTINGS = GroupShardSettings(
    consumer=GroupSettings(assignment_interval_ms=INTERVAL_MS, assigned_at_once_max=0, partitions_per_slice=1)
)


class Offloading(Coordinator):
    """A coordinator that computes every assignment in a run, with a slice for each member."""

    def __init__(self) -> None:
        super().__init__(SETTINGS, orders=4)

    @property
    def group(self) -> ConsumerGroup:
        return self.groups.consumer[GROUP]

    def joined(self, *member_ids: str, **fields: Any) -> AssignmentRun:
        """Let members join, and return the run that begins then."""
        for member_id in member_ids:
            self.join_consumer(member_id, **fields)
        return self.run()

    def run(self) -> AssignmentRun:
        self.advance(INTERVAL_MS)
        (run,) = self.work
        assert isinstance(run, AssignmentRun)
        self.work.clear()
        return run

    def take(self, command: TakeTargets) -> object:
        return self.replies[self.request(command)]

    def finish(self, run: AssignmentRun) -> None:
        *slices, last = run.commands()
        assert [self.take(each) for each in slices] == [True] * len(slices)
        assert self.take(last) is False
        assert GROUP not in self.volatile.assigning


@pytest.fixture
def shard() -> Offloading:
    return Offloading()


def test_a_member_that_leaves_during_the_run_gets_no_target(shard: Offloading) -> None:
    run = shard.joined("m", "n")
    shard.leave_consumer("n")
    shard.finish(run)
    assert shard.group.targets.keys() == {"m"}


def test_a_static_member_that_is_replaced_during_the_run_hands_its_target_on(shard: Offloading) -> None:
    run = shard.joined("m", instance_id="i")
    left = joining_consumer("m", member_epoch=-2, instance_id="i", topics=None)
    shard.answer(shard.request(left), ConsumerHeartbeatResponse)
    shard.join_consumer("n", instance_id="i")
    shard.finish(run)
    assert shard.group.targets == {"n": partitions("orders", 0, 1, 2, 3)}


def test_a_run_of_a_group_that_was_deleted_is_dropped(shard: Offloading) -> None:
    slices = shard.joined("m").commands()
    shard.leave_consumer("m")
    shard.delete()
    assert shard.take(slices[0]) is False
    assert GROUP not in shard.groups.consumer
    assert GROUP not in shard.volatile.assigning


def test_a_run_of_a_group_that_was_deleted_is_dropped_by_the_group_that_has_its_id_now(shard: Offloading) -> None:
    earlier = shard.joined("m")
    shard.leave_consumer("m")
    shard.delete()
    run = shard.joined("n")
    assert run.group.epoch == earlier.group.epoch
    assert [shard.take(each) for each in earlier.commands()] == [False] * len(earlier.commands())
    assert shard.group.targets == {}
    shard.finish(run)
    assert shard.group.targets.keys() == {"n"}


def test_a_run_is_dropped_by_the_coordinator_that_was_loaded_since(shard: Offloading) -> None:
    earlier = shard.joined("m")
    first, *rest = earlier.commands()
    assert shard.take(first) is True
    shard.load()
    assert {shard.take(each) for each in rest} == {False}
    assert shard.group.assignment_epoch == 1
    shard.finish(shard.run())
    assert shard.group.assignment_epoch == 2


def test_after_a_run_that_has_failed_the_next_one_waits(shard: Offloading) -> None:
    run = shard.joined("m")
    shard.request(GiveUpRun(group_id=GROUP, run_id=run.run_id))
    shard.join_consumer("n")
    shard.advance(AFTER_A_FAILURE_MS - INTERVAL_MS)
    assert shard.work == []
    again = shard.run()
    shard.request(GiveUpRun(group_id=GROUP, run_id=run.run_id))
    shard.finish(again)


def test_the_pause_after_a_failed_run_does_not_end_a_run_of_the_group_that_has_its_id_now(shard: Offloading) -> None:
    failed = shard.joined("m")
    shard.request(GiveUpRun(group_id=GROUP, run_id=failed.run_id))
    shard.leave_consumer("m")
    shard.delete()
    run = shard.joined("n")
    shard.advance(AFTER_A_FAILURE_MS)
    assert shard.work == []
    shard.finish(run)


def test_a_group_without_members_is_not_assigned(shard: Offloading) -> None:
    shard.join_consumer("m")
    shard.leave_consumer("m")
    shard.advance(INTERVAL_MS)
    assert shard.work == []


def test_a_run_computes_from_what_was_when_it_began(shard: Offloading) -> None:
    run = shard.joined("m")
    shard.image = image_of({"orders": 9})
    shard.finish(run)
    assert shard.group.target("m") == partitions("orders", 0, 1, 2, 3)
