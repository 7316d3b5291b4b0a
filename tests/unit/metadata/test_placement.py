from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kraft.metadata.placement import place_more_partitions, place_partitions
from kraft.model.errors import ErrorCode, Refusal
from tests.support.cluster_images import cluster, ids


def place_with_fenced(
    racks: dict[int, str], fenced: set[int], *, partitions: int, replication_factor: int, start: int = 0
) -> list[list[int]]:
    brokers = [
        replace(broker, fenced=broker.broker_id in fenced) for broker in cluster(*racks, racks=racks).active_brokers()
    ]
    placed = place_partitions(
        partitions=partitions, replication_factor=replication_factor, brokers=brokers, start=start
    )
    return [list(replicas) for replicas in placed]


def place(racks: dict[int, str], *, partitions: int, replication_factor: int, start: int = 0) -> list[list[int]]:
    brokers = cluster(*racks, racks=racks).active_brokers()
    placed = place_partitions(
        partitions=partitions, replication_factor=replication_factor, brokers=brokers, start=start
    )
    return [list(replicas) for replicas in placed]


def without_racks(*broker_ids: int) -> dict[int, str]:
    return dict.fromkeys(broker_ids, "")


def test_leaders_go_round_and_each_follower_is_the_next_broker() -> None:
    assert place(without_racks(0, 2, 3), partitions=3, replication_factor=2) == [[0, 2], [2, 3], [3, 0]]


@given(
    racks=st.dictionaries(st.integers(0, 30), st.sampled_from(["", "a", "b", "c", "d"]), min_size=1, max_size=9),
    partitions=st.integers(1, 40),
    start=st.integers(0, 100),
    data=st.data(),
)
def test_replicas_are_distinct_leaders_even_and_racks_covered(
    racks: dict[int, str], partitions: int, start: int, data: st.DataObject
) -> None:
    replication_factor = data.draw(st.integers(1, len(racks)))
    placed = place(racks, partitions=partitions, replication_factor=replication_factor, start=start)
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == replication_factor
        assert len({racks[replica] for replica in replicas}) == min(replication_factor, len(set(racks.values())))
    leaders = Counter(dict.fromkeys(racks, 0))
    leaders.update(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.values()) <= 1


@given(brokers=st.integers(1, 8), rounds=st.integers(1, 5), start=st.integers(0, 50), data=st.data())
def test_without_racks_whole_rounds_give_every_broker_the_same_number_of_replicas(
    brokers: int, rounds: int, start: int, data: st.DataObject
) -> None:
    replication_factor = data.draw(st.integers(1, brokers))
    aligned_start = start * brokers
    placed = place(
        without_racks(*range(brokers)),
        partitions=brokers * rounds,
        replication_factor=replication_factor,
        start=aligned_start,
    )
    assert set(Counter(chain.from_iterable(placed)).values()) == {rounds * replication_factor}


def test_a_fenced_broker_follows_last_and_leads_nothing() -> None:
    assert place_with_fenced(without_racks(1, 2, 3), {2}, partitions=4, replication_factor=3) == [
        [1, 3, 2],
        [3, 1, 2],
        [1, 3, 2],
        [3, 1, 2],
    ]


def test_a_fenced_broker_gets_nothing_while_there_are_enough_in_service() -> None:
    placed = place_with_fenced(without_racks(1, 2, 3), {2}, partitions=4, replication_factor=2)
    assert set(chain.from_iterable(placed)) == {1, 3}


def test_the_spread_over_racks_comes_before_being_in_service() -> None:
    placed = place_with_fenced({1: "a", 2: "a", 3: "b"}, {3}, partitions=2, replication_factor=2)
    assert placed == [[1, 3], [2, 3]]


def test_those_in_service_come_first_also_where_the_spread_over_racks_chose_a_fenced_one_before() -> None:
    placed = place_with_fenced({1: "a", 2: "a", 3: "b"}, {3}, partitions=2, replication_factor=3)
    assert placed == [[1, 2, 3], [2, 1, 3]]


def test_fenced_brokers_take_turns() -> None:
    placed = place_with_fenced(without_racks(1, 2, 3), {2, 3}, partitions=10, replication_factor=2)
    assert Counter(chain.from_iterable(placed)) == {1: 10, 2: 5, 3: 5}


@given(
    racks=st.dictionaries(st.integers(0, 30), st.sampled_from(["", "a", "b", "c", "d"]), min_size=1, max_size=9),
    partitions=st.integers(1, 40),
    start=st.integers(0, 100),
    data=st.data(),
)
def test_with_fenced_brokers_leaders_are_even_over_those_in_service_and_racks_covered(
    racks: dict[int, str], partitions: int, start: int, data: st.DataObject
) -> None:
    fenced = data.draw(st.sets(st.sampled_from(sorted(racks)), max_size=len(racks) - 1))
    replication_factor = data.draw(st.integers(1, len(racks)))
    placed = place_with_fenced(racks, fenced, partitions=partitions, replication_factor=replication_factor, start=start)
    leaders = Counter(dict.fromkeys(racks.keys() - fenced, 0))
    leaders.update(replicas[0] for replicas in placed)
    assert leaders.keys().isdisjoint(fenced)
    assert max(leaders.values()) - min(leaders.values()) <= 1
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == replication_factor
        assert len({racks[replica] for replica in replicas}) == min(replication_factor, len(set(racks.values())))
        down = [replica in fenced for replica in replicas]
        assert down == sorted(down), "a fenced broker stands before one in service"
        unused = racks.keys() - fenced - set(replicas)
        for replica in set(replicas) & fenced:
            # A fenced broker is only taken where its rack has no other, or no rack with fewer replicas has one.
            assert racks[replica] not in {racks[each] for each in unused}


def test_with_nobody_in_service_no_placement_is_possible() -> None:
    with pytest.raises(Refusal, match="2 brokers are registered, 0 of them in service: start brokers first"):
        place_with_fenced(without_racks(1, 2), {1, 2}, partitions=1, replication_factor=2)


def test_more_replicas_than_registered_brokers_are_refused_with_both_numbers() -> None:
    with pytest.raises(Refusal) as refused:
        place_with_fenced(without_racks(1, 2, 3), {3}, partitions=1, replication_factor=4)
    assert refused.value.message == (
        "the replication factor is 4, but 3 brokers are registered, 2 of them in service: start more brokers or ask "
        "for at most 3"
    )


@pytest.mark.parametrize("partitions", [0, -1])
def test_fewer_than_one_partition_is_refused(partitions: int) -> None:
    with pytest.raises(Refusal) as refused:
        place(without_racks(1), partitions=partitions, replication_factor=1)
    assert refused.value.error_code == ErrorCode.INVALID_PARTITIONS


# --- more partitions -----------------------------------------------------------------------------------------


@given(brokers=st.integers(1, 7), existing=st.integers(1, 30), partitions=st.integers(1, 30), data=st.data())
def test_partitions_that_are_added_go_on_with_the_pattern(
    brokers: int, existing: int, partitions: int, data: st.DataObject
) -> None:
    replication_factor = data.draw(st.integers(1, brokers))
    racks = without_racks(*range(brokers))
    whole = place(racks, partitions=existing + partitions, replication_factor=replication_factor)
    added = place_more(racks, whole[:existing], partitions=partitions, replication_factor=replication_factor)
    assert added == whole[existing:]


@given(
    racks=st.dictionaries(st.integers(0, 30), st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=9),
    leaders=st.lists(st.integers(0, 30), min_size=1, max_size=20),
    start=st.integers(0, 100),
    data=st.data(),
)
def test_a_whole_round_that_is_added_gives_each_broker_one_and_covers_the_racks(
    racks: dict[int, str], leaders: list[int], start: int, data: st.DataObject
) -> None:
    replication_factor = data.draw(st.integers(1, len(racks)))
    existing = [[leader] for leader in leaders]
    added = place_more(racks, existing, partitions=len(racks), replication_factor=replication_factor, start=start)
    assert sorted(replicas[0] for replicas in added) == sorted(racks)
    for replicas in added:
        assert len(set(replicas)) == replication_factor
        assert len({racks[replica] for replica in replicas}) == min(replication_factor, len(set(racks.values())))


def place_more(
    racks: dict[int, str], existing: list[list[int]], *, partitions: int, replication_factor: int, start: int = 0
) -> list[list[int]]:
    placed = place_more_partitions(
        existing=[ids(*replicas) for replicas in existing],
        partitions=partitions,
        replication_factor=replication_factor,
        brokers=cluster(*racks, racks=racks).active_brokers(),
        start=start,
    )
    return [list(replicas) for replicas in placed]


MACHINES = {1: "machine:1", 1001: "machine:1", 2001: "machine:1", 2: "machine:2", 1002: "machine:2", 2002: "machine:2"}


def test_no_machine_gets_two_replicas_and_every_process_leads() -> None:
    placed = place(MACHINES, partitions=12, replication_factor=2)
    assert all({MACHINES[each] for each in replicas} == {"machine:1", "machine:2"} for replicas in placed)
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(MACHINES, 2)


@given(
    racks=st.dictionaries(
        st.integers(0, 30), st.sampled_from(["", "a", "machine:1", "machine:2", "machine:3"]), min_size=1, max_size=12
    ),
    start=st.integers(0, 100),
    data=st.data(),
)
def test_as_many_replicas_as_machines_are_placed_and_no_more(
    racks: dict[int, str], start: int, data: st.DataObject
) -> None:
    machines = {rack if rack.startswith("machine:") else str(broker_id) for broker_id, rack in racks.items()}
    replication_factor = data.draw(st.integers(1, len(machines)))
    for replicas in place(racks, partitions=20, replication_factor=replication_factor, start=start):
        on = Counter(racks[each] for each in replicas if racks[each].startswith("machine:"))
        assert len(set(replicas)) == replication_factor
        assert max(on.values(), default=1) == 1
    with pytest.raises(Refusal) as refused:
        place(racks, partitions=1, replication_factor=len(machines) + 1)
    assert refused.value.error_code is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    ("racks", "replication_factor", "message"),
    [
        (
            {1: "machine:1", 1001: "machine:1"},
            2,
            (
                "the replication factor is 2, but 1 machine has brokers in service (machine:1), and no machine gets "
                "two replicas of a partition: start brokers on more machines or ask for at most 1"
            ),
        ),
        (
            {1: "machine:1", 1001: "machine:1", 2: "", 3: "a"},
            4,
            (
                "the replication factor is 4, but 3 machines have brokers in service (broker 2, broker 3, machine:1), "
                "and no machine gets two replicas of a partition: start brokers on more machines or ask for at most 3"
            ),
        ),
    ],
)
def test_more_replicas_than_machines_are_refused_with_their_names(
    racks: dict[int, str], replication_factor: int, message: str
) -> None:
    with pytest.raises(Refusal) as refused:
        place(racks, partitions=1, replication_factor=replication_factor)
    assert (refused.value.error_code, refused.value.message) == (ErrorCode.INVALID_REPLICATION_FACTOR, message)
