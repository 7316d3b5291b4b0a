"""Elections out of the eligible replicas: the scenarios of KIP-966, and any course of events."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraft.model.ids import NO_BROKER
from tests.simulation.eligible_world import BROKERS, REPLICAS, AcknowledgedIsLost, Variant, World

WITHOUT_ELR = Variant(keeps_eligible_replicas=False)


def leader_of(world: World) -> int | None:
    return world.leader


def leave(world: World, *brokers: int) -> None:
    """Kill brokers one after the other; the controller notices each time."""
    for broker in brokers:
        world.kill(broker)
        world.fence(broker)


def acknowledge(world: World, records: int = 1) -> None:
    for _ in range(records):
        world.produce()
        for follower in REPLICAS:
            world.fetch(follower)


def last_replica_standing_loses_its_tail(variant: Variant) -> World:
    """Three records are acknowledged; 3 and 2 die; 1 goes on alone, loses power, and is the first one back."""
    world = World(variant)
    acknowledge(world, 3)
    leave(world, 3, 2)
    assert world.state.isr == (1,)
    world.produce()
    assert len(world.acknowledged) == 3, "R9: below the minimum nothing is committed"
    world.lose_power(1, kept=1)
    world.fence(1)
    world.come_back(1)
    return world


def test_r8_the_last_replica_standing_that_lost_its_unsynced_tail_does_not_lead_again() -> None:
    world = last_replica_standing_loses_its_tail(Variant())
    assert leader_of(world) is None
    assert (world.state.isr, world.state.elr, world.state.last_known_elr) == ((2,), (), (1,))
    world.come_back(3)
    assert leader_of(world) is None, "3 left while there were still enough without it"
    world.come_back(2)
    assert (leader_of(world), world.state.isr) == (2, (2,))
    acknowledge(world)
    assert world.acknowledged == [1, 2, 3, 5]
    assert world.losses == 0
    assert sorted(world.state.isr) == [1, 2, 3]
    assert (world.state.elr, world.state.last_known_elr) == ((), ())


def test_r8_without_eligible_replicas_it_leads_and_what_was_acknowledged_is_lost() -> None:
    world = last_replica_standing_loses_its_tail(WITHOUT_ELR)
    assert (leader_of(world), world.losses) == (1, 1)


@pytest.mark.parametrize("acknowledges_from_memory", [True, False])
def test_r8_is_nothing_when_what_is_acknowledged_was_synced(acknowledges_from_memory: bool) -> None:
    world = World()
    acknowledge(world, 3)
    leave(world, 3, 2)
    world.lose_power(1, kept=3, acknowledges_from_memory=acknowledges_from_memory)
    world.fence(1)
    world.come_back(1)
    # A broker that acknowledged from memory cannot tell that nothing is missing.
    assert leader_of(world) == (None if acknowledges_from_memory else 1)


@pytest.mark.parametrize("keeps_its_directory_id", [True, False])
def test_r22_a_broker_that_returns_with_an_empty_directory_does_not_lead(keeps_its_directory_id: bool) -> None:
    world = World()
    acknowledge(world, 3)
    leave(world, 3, 2, 1)
    assert (world.state.isr, world.state.leader, world.state.elr) == ((1,), NO_BROKER, (2,))
    if keeps_its_directory_id:
        world.clear_directory(1)
    else:
        world.empty_disk(1)
    world.come_back(1)
    assert leader_of(world) is None
    assert (world.state.isr, world.state.last_known_elr) == ((2,), (1,))
    world.come_back(2)
    assert (leader_of(world), world.losses) == (2, 0)
    world.tell_of_loss(1)
    acknowledge(world)
    assert set(world.acknowledged) == {1, 2, 3, 4}
    assert 1 in world.state.isr


def test_r22_without_eligible_replicas_nobody_leads_though_another_has_it_all() -> None:
    world = World(WITHOUT_ELR)
    acknowledge(world, 3)
    leave(world, 3, 2, 1)
    world.empty_disk(1)
    world.come_back(1)
    world.come_back(2)
    world.come_back(3)
    assert (leader_of(world), world.state.isr) == (None, (1,))


def test_r22_an_eligible_broker_with_an_empty_directory_is_not_elected() -> None:
    world = World()
    acknowledge(world, 3)
    leave(world, 3, 2, 1)
    world.clear_directory(2)
    world.start(2)
    # It is put into service, and elected, before its report is there. It serves nothing, and gives the place back.
    world.heartbeat(2)
    assert (world.state.leader, world.state.elr) == (2, (1,))
    world.tell_of_loss(2)
    assert (leader_of(world), world.state.isr, world.state.last_known_elr) == (None, (1,), (2,))
    world.come_back(1)
    assert (leader_of(world), world.losses) == (1, 0)


def test_r9_a_leader_with_a_lower_minimum_of_its_own_commits_nothing_while_others_are_counted_on() -> None:
    world = World(leaders_minimum=1)
    acknowledge(world, 2)
    leave(world, 3, 2)
    world.produce()
    assert len(world.acknowledged) == 2
    leave(world, 1)
    world.come_back(2)
    assert (leader_of(world), world.losses) == (2, 0)


def test_r9_would_be_seen_if_leaders_looked_at_their_own_minimum_only() -> None:
    world = World(Variant(leader_minds_elr=False), leaders_minimum=1)
    acknowledge(world, 2)
    leave(world, 3, 2)
    world.produce()
    leave(world, 1)
    with pytest.raises(AcknowledgedIsLost):
        world.come_back(2)


def test_a_partition_whose_last_in_sync_replica_stays_away_does_not_wait_for_it() -> None:
    world = World()
    acknowledge(world)
    leave(world, 1, 2, 3)
    world.come_back(2)
    assert (leader_of(world), world.state.isr, world.state.elr) == (2, (2,), (3,))
    world.come_back(1)
    world.fetch(1)
    assert (sorted(world.state.isr), world.state.elr) == ([1, 2], ()), "enough are in sync, nobody else is needed"


def test_without_eligible_replicas_it_waits() -> None:
    world = World(WITHOUT_ELR)
    acknowledge(world)
    leave(world, 1, 2, 3)
    world.come_back(2)
    world.come_back(1)
    assert leader_of(world) is None


def test_the_very_last_that_is_there_leads_with_what_it_has() -> None:
    world = World()
    acknowledge(world, 3)
    for broker in (1, 2, 3):
        world.lose_power(broker, kept=broker)
        world.fence(broker)
    for broker in (1, 2, 3):
        world.come_back(broker)
    assert leader_of(world) is not None
    assert world.losses <= 1


# --- any course of events ------------------------------------------------------------------------------------

# The time to draw events depends on the load of the machine, and must fail no test.
AT_LEISURE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

Draw = st.DataObject
A_BROKER = st.sampled_from(BROKERS)
TARGETS = st.lists(A_BROKER, min_size=1, max_size=3, unique=True)


def come_back_and_fetch(world: World, broker: int) -> None:
    world.come_back(broker)
    world.fetch(broker)


ORDINARY: list[Callable[[World, int, Draw], object]] = [
    lambda world, _, data: world.produce(),
    lambda world, broker, data: world.fetch(broker),
    lambda world, broker, data: world.drop_laggard(broker),
    lambda world, broker, data: world.fence(broker),
    lambda world, broker, data: world.heartbeat(broker),
    lambda world, broker, data: world.kill(broker),
    lambda world, broker, data: world.start(broker),
    lambda world, broker, data: world.heartbeat(broker, wants_shutdown=True),
    lambda world, _, data: world.elect_preferred(),
    lambda world, _, data: world.reassign(*data.draw(TARGETS)),
    lambda world, _, data: world.reassign(),
    lambda world, _, data: world.restart_with_minimum(data.draw(st.integers(1, 3))),
]
# Events that make progress are drawn more often, so that there is something to lose.
PROGRESS: list[Callable[[World, int, Draw], object]] = [
    lambda world, _, data: acknowledge(world),
    lambda world, broker, data: come_back_and_fetch(world, broker),
    lambda world, broker, data: leave(world, broker),
]
LOSSES: list[Callable[[World, int, Draw], object]] = [
    lambda world, broker, data: world.lose_power(broker, kept=data.draw(st.integers(0, 5))),
    lambda world, broker, data: world.empty_disk(broker),
    lambda world, broker, data: world.clear_directory(broker),
    lambda world, broker, data: world.tell_of_loss(broker),
]
WITHOUT_LOSSES = ORDINARY + 3 * PROGRESS


def run(world: World, data: Draw, events: list[Callable[[World, int, Draw], object]]) -> None:
    for _ in range(data.draw(st.integers(1, 40))):
        data.draw(st.sampled_from(events))(world, data.draw(A_BROKER), data)
        world.check()


@AT_LEISURE
@given(st.data(), st.integers(1, 3), st.integers(1, 3))
def test_every_electable_replica_has_all_that_was_acknowledged(data: Draw, minimum: int, leaders_minimum: int) -> None:
    """I4, I7, I8 where nothing that was acknowledged can be lost from a disk."""
    world = World(minimum=minimum, leaders_minimum=leaders_minimum)
    run(world, data, WITHOUT_LOSSES)
    assert world.losses == 0


@AT_LEISURE
@given(st.data(), st.integers(1, 3), st.integers(1, 3))
def test_a_replica_that_may_have_lost_records_is_not_elected_while_another_has_not(
    data: Draw, minimum: int, leaders_minimum: int
) -> None:
    run(World(minimum=minimum, leaders_minimum=leaders_minimum), data, WITHOUT_LOSSES + LOSSES)
