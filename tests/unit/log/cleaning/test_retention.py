from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kraft.log.cleaning.retention import segments_to_drop
from kraft.log.segment.segment_facts import SegmentFacts
from kraft.log.topic_config import COMPACT, DELETE, TopicConfig
from kraft.model.ids import Offset

NOW_MS = 1_000_000
KEEP_ALL = {"retention_ms": -1, "retention_bytes": -1}


def segments(*ages_ms: int | None, size_bytes: int = 100) -> list[SegmentFacts]:
    """Ten records each; the last is the active one. None is the age of a segment without timestamps."""
    return [
        SegmentFacts(
            base_offset=Offset(10 * at),
            end_offset=Offset(10 * at + 10),
            size_bytes=size_bytes,
            max_timestamp_ms=-1 if age_ms is None else NOW_MS - age_ms,
            first_timestamp_ms=-1 if age_ms is None else NOW_MS - age_ms,
            path=f"orders-0/{10 * at:020}.log",
        )
        for at, age_ms in enumerate(ages_ms)
    ]


def dropped(facts: Sequence[SegmentFacts], high_watermark: int = 1_000, log_start: int = 0, **config: Any) -> int:
    return segments_to_drop(
        facts, TopicConfig(**{**KEEP_ALL, **config}), Offset(log_start), Offset(high_watermark), NOW_MS
    )


# --- by age --------------------------------------------------------------------------------------------------


def test_segments_whose_newest_record_is_too_old_go_oldest_first() -> None:
    assert dropped(segments(500, 300, 100, 0), retention_ms=200) == 2


def test_the_first_segment_that_stays_keeps_all_behind_it() -> None:
    assert dropped(segments(500, 100, 500, 0), retention_ms=200) == 1


def test_a_segment_exactly_as_old_as_allowed_stays() -> None:
    assert dropped(segments(200, 0), retention_ms=200) == 0
    assert dropped(segments(201, 0), retention_ms=200) == 1


def test_the_active_segment_goes_as_well_when_all_of_it_is_expired() -> None:
    assert dropped(segments(500, 300), retention_ms=200) == 2


def test_an_active_segment_without_records_is_left_alone() -> None:
    facts = [*segments(500), *segments(None, None, size_bytes=0)[1:]]
    assert dropped(facts, retention_ms=200) == 1
    assert dropped(segments(None, size_bytes=0), retention_ms=0, retention_bytes=0) == 0


def test_a_segment_with_a_timestamp_in_the_future_does_not_expire() -> None:
    assert dropped(segments(500, -9_000, 500), retention_ms=200) == 1


def test_unlimited_keeps_whatever_its_age() -> None:
    assert dropped(segments(NOW_MS, NOW_MS - 1)) == 0


def test_a_segment_without_timestamps_goes_with_a_later_one_that_expires() -> None:
    assert dropped(segments(None, None, 500, 0), retention_ms=200) == 3


def test_a_segment_without_timestamps_stays_while_none_behind_it_expires() -> None:
    assert dropped(segments(None, 100), retention_ms=200) == 0
    assert dropped(segments(500, None), retention_ms=200) == 1
    assert dropped(segments(None, None), retention_ms=0) == 0


def test_a_timestamp_of_zero_is_one() -> None:
    assert dropped(segments(NOW_MS, 0), retention_ms=200) == 1


# --- by size -------------------------------------------------------------------------------------------------


def test_the_oldest_segments_go_while_the_log_still_holds_the_bound() -> None:
    assert dropped(segments(0, 0, 0, 0), retention_bytes=200) == 2
    assert dropped(segments(0, 0, 0, 0), retention_bytes=201) == 1


def test_a_log_at_its_bound_is_left_alone() -> None:
    assert dropped(segments(0, 0), retention_bytes=200) == 0


def test_with_a_bound_of_zero_bytes_everything_that_is_committed_goes() -> None:
    assert dropped(segments(0, 0, 0), retention_bytes=0) == 3
    assert dropped(segments(0, 0, 0), high_watermark=20, retention_bytes=0) == 2


def test_age_is_looked_at_where_size_has_stopped() -> None:
    assert dropped(segments(500, 500, 500, 0), retention_bytes=300, retention_ms=200) == 3


# --- what holds a segment ------------------------------------------------------------------------------------


def test_a_segment_with_a_record_that_is_not_committed_stays() -> None:
    assert dropped(segments(500, 500, 500), high_watermark=19, retention_ms=200) == 1
    assert dropped(segments(500, 500, 500), high_watermark=20, retention_ms=200) == 2
    assert dropped(segments(500, 500, 500), high_watermark=0, retention_ms=200, retention_bytes=0) == 0


def test_no_segments_no_drops() -> None:
    assert dropped([]) == 0


# --- by log start --------------------------------------------------------------------------------------------


def test_segments_wholly_below_the_log_start_go_whatever_the_policy() -> None:
    for policy in ((DELETE,), (COMPACT,), ()):
        assert dropped(segments(0, 0, 0), log_start=19, cleanup_policy=policy) == 1
        assert dropped(segments(0, 0, 0), log_start=20, cleanup_policy=policy) == 2


def test_the_active_segment_goes_when_the_log_start_is_the_end_of_the_log() -> None:
    assert dropped(segments(0, 0), log_start=20, high_watermark=20) == 2


def test_a_compacted_log_loses_nothing_by_age_or_size() -> None:
    compacted: dict[str, Any] = {"cleanup_policy": (COMPACT,), "retention_ms": 200, "retention_bytes": 0}
    assert dropped(segments(500, 500, 0), **compacted) == 0
    assert dropped(segments(500, 500, 0), log_start=10, **compacted) == 1


def test_a_log_that_compacts_and_deletes_does_both() -> None:
    assert dropped(segments(500, 500, 0), cleanup_policy=(COMPACT, DELETE), retention_ms=200) == 2


# --- in general ----------------------------------------------------------------------------------------------


@given(
    ages=st.lists(st.none() | st.integers(-1_000, 1_000), max_size=8),
    high_watermark=st.integers(0, 90),
    log_start=st.integers(0, 90),
    retention_ms=st.integers(-1, 1_000),
    retention_bytes=st.integers(-1, 1_000),
    deletes=st.booleans(),
)
def test_only_committed_segments_go_and_a_higher_high_watermark_never_keeps_more(
    ages: list[int | None], high_watermark: int, log_start: int, retention_ms: int, retention_bytes: int, deletes: bool
) -> None:
    facts = segments(*ages)
    policy = (DELETE,) if deletes else ()
    config: dict[str, Any] = {
        "retention_ms": retention_ms,
        "retention_bytes": retention_bytes,
        "cleanup_policy": policy,
    }
    count = dropped(facts, high_watermark, log_start, **config)
    assert all(segment.end_offset <= high_watermark for segment in facts[:count])
    assert count <= dropped(facts, high_watermark + 10, log_start, **config)
    if deletes and retention_bytes >= 0 and count < len(facts) and facts[count].end_offset <= high_watermark:
        assert sum(segment.size_bytes for segment in facts[count:]) < retention_bytes + facts[count].size_bytes
