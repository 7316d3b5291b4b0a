"""Positions that may be committed, whatever the order in which requests end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.model.ids import TopicPartition
from kraft.sink.progress import Progress

ONE, TWO = TopicPartition("logs", 1), TopicPartition("logs", 2)


def test_what_is_settled_behind_an_open_batch_is_not_committed() -> None:
    progress = Progress()
    progress.added(1, ONE, 10)
    progress.added(2, ONE, 20)
    progress.settled(2)
    assert progress.committable() == {}
    progress.settled(1)
    assert progress.committable() == {ONE: 20}


def test_what_is_committed_is_not_committed_again() -> None:
    progress = Progress()
    progress.added(1, ONE, 10)
    progress.settled(1)
    progress.committed(progress.committable())
    assert progress.committable() == {}


def test_a_partition_of_another_member_is_not_committed_any_more() -> None:
    progress = Progress()
    progress.added(1, ONE, 10)
    progress.added(1, TWO, 5)
    progress.forget([ONE])
    progress.settled(1)
    assert progress.committable() == {TWO: 5}


@given(st.permutations(range(8)), st.integers(0, 8), st.data())
def test_no_record_of_an_open_batch_is_ever_below_a_committed_offset(
    order: list[int], settled_count: int, data: st.DataObject
) -> None:
    progress = Progress()
    ends: dict[tuple[int, TopicPartition], int] = {}
    offsets = {ONE: 0, TWO: 0}
    for batch in range(8):
        for partition in data.draw(st.sets(st.sampled_from([ONE, TWO]))):
            offsets[partition] += data.draw(st.integers(1, 5))
            ends[batch, partition] = offsets[partition]
            progress.added(batch, partition, offsets[partition])
    settled = set(order[:settled_count])
    committed: dict[TopicPartition, int] = {}
    for batch in order[:settled_count]:
        progress.settled(batch)
        committed |= progress.committable()
        progress.committed(progress.committable())
    for partition in (ONE, TWO):
        opens = [end for (batch, owner), end in ends.items() if owner == partition and batch not in settled]
        below = [end for (_, owner), end in ends.items() if owner == partition and end < min(opens, default=10**9)]
        assert committed.get(partition) == (max(below) if below else None)
