from __future__ import annotations

import pytest

from kraft.log.leader_epochs import EpochStart, LeaderEpochCache
from kraft.log.segment.batches import Continuity, checked_bytes
from kraft.model.errors import Corruption
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.log.log_building import stored

EPOCHS = LeaderEpochCache((EpochStart(LeaderEpoch(3), Offset(0)),))
FIRST, SECOND = stored("a", offset=0, epoch=3), stored("b", "c", offset=1, epoch=3)


def continuity(is_sparse: bool = False) -> Continuity:
    return Continuity("0.log", EPOCHS, is_sparse, next_offset=0)


def test_only_whole_batches_below_the_upper_offset_count() -> None:
    assert checked_bytes(FIRST + SECOND, 0, 3, continuity()) == len(FIRST + SECOND)
    assert checked_bytes(FIRST + SECOND, 0, 2, continuity()) == len(FIRST)
    assert checked_bytes(FIRST + SECOND[:-1], 0, 3, continuity()) == len(FIRST)
    assert checked_bytes(b"", 0, 3, continuity()) == 0


def test_a_batch_whose_checksum_is_wrong_is_named_by_its_position() -> None:
    with pytest.raises(Corruption, match="checksum") as raised:
        checked_bytes(FIRST + SECOND[:-1] + b"\xff", 1_000, 3, continuity())
    assert raised.value.position == 1_000 + len(FIRST)


def test_a_hole_is_corruption_unless_the_log_is_sparse() -> None:
    behind_a_hole = stored("d", offset=5, epoch=3)
    with pytest.raises(Corruption, match="base offset 5, expected 1"):
        checked_bytes(FIRST + behind_a_hole, 0, 6, continuity())
    assert checked_bytes(FIRST + behind_a_hole, 0, 6, continuity(is_sparse=True)) == len(FIRST + behind_a_hole)


def test_a_batch_of_another_epoch_is_corrupt() -> None:
    with pytest.raises(Corruption, match="has leader epoch 2, expected 3"):
        checked_bytes(stored("a", offset=0, epoch=2), 0, 1, continuity())
