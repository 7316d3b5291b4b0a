from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.leader_epochs import EpochStart, LeaderEpochCache
from kraft.model.errors import Corruption
from kraft.model.ids import LeaderEpoch, Offset


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(tuple(EpochStart(LeaderEpoch(epoch), Offset(start)) for epoch, start in entries))


def entries(of: LeaderEpochCache) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in of.entries]


@pytest.mark.parametrize(
    ("known", "asked", "answer"),
    [
        # The latest epoch ends where the log does.
        ([(0, 0)], 0, (0, 100)),
        ([(2, 10), (5, 40)], 5, (5, 100)),
        # An earlier one ends where its successor starts.
        ([(2, 10), (5, 40)], 2, (2, 40)),
        # KIP-279: an epoch that this log never saw is answered with the largest below it.
        ([(2, 10), (5, 40)], 3, (2, 40)),
        ([(2, 10), (5, 40), (9, 70)], 8, (5, 70)),
        # Older than all that is known: the divergence is at the start.
        ([(2, 10), (5, 40)], 1, (1, 10)),
        # Later than all that is known, or nothing known: no answer.
        ([(2, 10), (5, 40)], 6, (-1, -1)),
        ([], 0, (-1, -1)),
        ([(2, 10)], -1, (-1, -1)),
    ],
)
def test_the_end_of_an_epoch(known: list[tuple[int, int]], asked: int, answer: tuple[int, int]) -> None:
    assert cache(*known).end_offset_for(LeaderEpoch(asked), Offset(100)) == answer


def test_kip_101_a_follower_keeps_what_the_new_leader_has() -> None:
    # A wrote offset 1 as leader of epoch 0 and B has it too, but B's high watermark lags when B restarts. Truncating to
    # it would lose the record; the leader's answer for epoch 0 does not.
    leader = cache((0, 0))
    assert leader.end_offset_for(LeaderEpoch(0), Offset(2)) == (0, 2)


def test_kip_101_diverging_logs_meet_where_the_epochs_part() -> None:
    # B led epoch 1 from offset 1; A, back with its own record at offset 1 of epoch 0, asks where epoch 0 ended.
    assert cache((0, 0), (1, 1)).end_offset_for(LeaderEpoch(0), Offset(2)) == (0, 1)


def test_kip_279_two_fast_fail_overs() -> None:
    # The follower's latest epoch is 1, the leader went from 0 to 2: both find the end of epoch 0 in common.
    leader, follower = cache((0, 0), (2, 11)), cache((0, 0), (1, 10))
    epoch, end = leader.end_offset_for(follower.latest_epoch, Offset(12))
    assert (epoch, end) == (0, 11)
    assert min(end, follower.end_offset_for(epoch, Offset(20))[1]) == 10


def test_assigning_the_same_epoch_again_changes_nothing() -> None:
    epochs = cache((0, 0)).with_epoch(LeaderEpoch(1), Offset(10))
    assert entries(epochs) == [(0, 0), (1, 10)]
    assert epochs.with_epoch(LeaderEpoch(1), Offset(15)) == epochs


def test_an_epoch_that_wrote_nothing_gives_way_to_its_successor() -> None:
    epochs = cache((0, 0), (1, 10)).with_epoch(LeaderEpoch(2), Offset(10))
    assert entries(epochs) == [(0, 0), (2, 10)]
    assert epochs.end_offset_for(LeaderEpoch(1), Offset(20)) == (0, 10)


@pytest.mark.parametrize(
    ("end", "left"),
    [(41, [(2, 10), (5, 40)]), (40, [(2, 10)]), (10, []), (0, [])],
)
def test_truncating_the_end_forgets_epochs_that_start_there(end: int, left: list[tuple[int, int]]) -> None:
    assert entries(cache((2, 10), (5, 40)).up_to(Offset(end))) == left


@pytest.mark.parametrize(
    ("start", "left"),
    [(5, [(2, 10), (5, 40)]), (20, [(2, 10), (5, 40)]), (40, [(2, 10), (5, 40)]), (41, [(5, 40)]), (90, [(5, 40)])],
)
def test_truncating_the_start_keeps_the_epoch_of_the_record_before(start: int, left: list[tuple[int, int]]) -> None:
    assert entries(cache((2, 10), (5, 40)).starting_at(Offset(start))) == left


def test_the_epoch_of_an_offset() -> None:
    epochs = cache((2, 10), (5, 40))
    assert [epochs.epoch_at(Offset(offset)) for offset in (9, 10, 39, 40, 99)] == [-1, 2, 2, 5, 5]


def test_golden_the_checkpoint_has_kafkas_lines_and_a_checksum() -> None:
    data = cache((2, 10), (5, 40)).encode()
    assert data.startswith(b"0\n2\n2 10\n5 40\n# crc32c=")
    assert entries(LeaderEpochCache.decode(data, "checkpoint")) == [(2, 10), (5, 40)]


def test_a_checkpoint_written_by_kafka_is_read() -> None:
    assert entries(LeaderEpochCache.decode(b"0\n1\n7 123\n", "checkpoint")) == [(7, 123)]


def test_every_flipped_bit_of_a_checkpoint_is_noticed() -> None:
    data = cache((2, 10), (5, 40)).encode()
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corruption):
            LeaderEpochCache.decode(bytes(flipped), "checkpoint")


@pytest.mark.parametrize("data", [b"", b"0\n", b"1\n0\n", b"0\n2\n1 1\n", b"0\n1\n1\n", b"0\n2\n1 5\n1 6\n", b"0\nx\n"])
def test_a_file_that_is_no_checkpoint_is_corruption(data: bytes) -> None:
    with pytest.raises(Corruption, match="not a leader epoch checkpoint"):
        LeaderEpochCache.decode(data, "checkpoint")


@given(st.binary(max_size=60), st.integers(0, 20), st.binary(max_size=3))
def test_any_bytes_end_in_corruption(noise: bytes, position: int, patch: bytes) -> None:
    whole = cache((2, 10), (5, 40)).encode()
    damaged = whole[:position] + patch + whole[position + len(patch) :]
    for content in (noise, b"0\n1\n" + noise, damaged, sealed(noise), sealed(damaged)):
        try:
            found = LeaderEpochCache.decode(content, "checkpoint")
        except Corruption:
            continue
        assert LeaderEpochCache.decode(found.encode(), "again").entries == found.entries


def sealed(content: bytes) -> bytes:
    content = content.rpartition(b"# crc32c=")[0] or content
    return content + f"# crc32c={crc32c(content):08x}\n".encode()
