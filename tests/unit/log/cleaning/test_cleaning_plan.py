from __future__ import annotations

from typing import Any

import pytest

from kraft.log.cleaning.cleaning_plan import plan_cleaning
from kraft.log.segment.segment_facts import SegmentFacts
from kraft.log.topic_config import TopicConfig
from kraft.model.ids import Offset
from tests.support.log.compacted_log import ANY_OFFSET, COMPACT, facts

DAY_MS = 86_400_000
NOW_MS = 10 * DAY_MS


def planned(segments: list[SegmentFacts], cleaned_end: int = 0, upper: int = ANY_OFFSET, **config: Any) -> list[int]:
    """Base offsets of the segments that would be cleaned."""
    settings = {"cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0, **config}
    plan = plan_cleaning(segments, TopicConfig(**settings), Offset(cleaned_end), Offset(upper), NOW_MS)
    return [] if plan is None else [segment.base_offset for segment in plan.segments]


THREE = [facts(0, 10), facts(10, 20), facts(20, 30), facts(30, 35)]


def test_the_active_segment_is_never_cleaned() -> None:
    assert planned(THREE) == [0, 10, 20]
    assert planned(THREE[-1:]) == []
    assert planned([]) == []


def test_nothing_is_cleaned_without_the_policy() -> None:
    assert planned(THREE, cleanup_policy=("delete",)) == []


@pytest.mark.parametrize(("upper", "expected"), [(30, [0, 10, 20]), (29, [0, 10]), (20, [0, 10]), (5, [])])
def test_nothing_is_cleaned_at_or_above_the_high_watermark(upper: int, expected: list[int]) -> None:
    assert planned(THREE, upper=upper) == expected


def test_nothing_is_cleaned_when_all_is_clean() -> None:
    assert planned(THREE, cleaned_end=30) == []
    assert planned([facts(0, 10), facts(10, 10, 0), facts(10, 15)], cleaned_end=10) == []


def test_clean_segments_are_cleaned_again_with_the_dirty_ones() -> None:
    plan = plan_cleaning(THREE, COMPACT, Offset(20), ANY_OFFSET, NOW_MS)
    assert plan is not None
    assert (plan.dirty_offset, plan.end_offset, plan.clean_bytes, plan.dirty_bytes) == (20, 30, 200, 100)
    assert plan.dirty_ratio == pytest.approx(1 / 3)


@pytest.mark.parametrize(("ratio", "is_due"), [(0.3, True), (0.34, False), (1.0, False), (0.0, True)])
def test_a_log_is_cleaned_when_enough_of_it_is_dirty(ratio: float, is_due: bool) -> None:
    assert bool(planned(THREE, cleaned_end=20, min_cleanable_dirty_ratio=ratio)) is is_due


def test_only_what_can_be_cleaned_counts_as_dirty() -> None:
    segments = [facts(0, 10, 900), facts(10, 20, 100), facts(20, 30, 5_000), facts(30, 31)]
    assert planned(segments, cleaned_end=10, upper=25, min_cleanable_dirty_ratio=0.2) == []
    assert planned(segments, cleaned_end=10, upper=30, min_cleanable_dirty_ratio=0.2) == [0, 10, 20]


@pytest.mark.parametrize("cleaned_end", [3, 99])
def test_a_cleaned_end_outside_of_the_log_says_nothing(cleaned_end: int) -> None:
    plan = plan_cleaning(THREE[1:], COMPACT, Offset(cleaned_end), ANY_OFFSET, NOW_MS)
    assert plan is not None
    assert plan.dirty_offset == 10


def test_a_record_stays_for_the_minimum_lag() -> None:
    young = [facts(0, 10, max_ms=NOW_MS - 500), facts(10, 20, max_ms=NOW_MS - 99), facts(20, 30), facts(30, 31)]
    assert planned(young, min_compaction_lag_ms=100) == [0]
    assert planned(young, min_compaction_lag_ms=98) == [0, 10, 20]
    assert planned(young, min_compaction_lag_ms=1_000) == []
    # What was cleaned before is not young any more, whatever its timestamps say.
    assert planned(young, cleaned_end=20, min_compaction_lag_ms=1_000) == [0, 10, 20]


def test_the_maximum_lag_forces_a_cleaning() -> None:
    hardly_dirty = [facts(0, 10, 10_000), facts(10, 20, 1, first_ms=NOW_MS - 100), facts(20, 21)]
    lazy: dict[str, Any] = {"cleaned_end": 10, "min_cleanable_dirty_ratio": 0.5}
    assert planned(hardly_dirty, **lazy, max_compaction_lag_ms=100) == []
    assert planned(hardly_dirty, **lazy, max_compaction_lag_ms=99) == [0, 10]
    assert planned(hardly_dirty, **lazy, max_compaction_lag_ms=99, upper=19) == []


def test_batches_without_timestamps_force_no_cleaning() -> None:
    segments = [facts(0, 10, 10_000), facts(10, 20, 1, first_ms=0), facts(20, 21)]
    assert planned(segments, cleaned_end=10, min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=99) == []
