"""Compaction compared with a plain model of it, for any order of writes and cleanings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.log.cleaning.compaction import OffsetMapTooSmall
from kraft.log.format.record_batch import (
    check_crc,
)
from kraft.log.topic_config import TopicConfig
from tests.support.log.compacted_log import (
    CODECS,
    COMPACT,
    MAP_BYTES,
    NOW_MS,
    CompactedLog,
    Pair,
    new_log,
    view,
)


@dataclass
class ModelBatch:
    records: list[tuple[int, str | None, str | None]]
    end_offset: int
    horizon_ms: int | None = None


@dataclass
class Model:
    """The rules once more, over lists, and the result that a reader of the whole log must get."""

    batches: list[ModelBatch] = field(default_factory=list)
    everything: list[tuple[int, str | None, str | None]] = field(default_factory=list)
    first_met_ms: dict[int, int] = field(default_factory=dict)
    """Time at which a cleaning first kept a tombstone, by its offset."""

    def append(self, offset: int, pairs: list[Pair]) -> None:
        records = [(offset + index, key, value) for index, (key, value) in enumerate(pairs)]
        self.batches.append(ModelBatch(records, offset + len(pairs)))
        self.everything += records

    def clean(self, end: int, now_ms: int, retention_ms: int, went: set[int]) -> None:
        """Apply one cleaning. `went` are the offsets that the real cleaning dropped.

        If the map was full in the middle of a batch, some keys of that batch have removed older records nevertheless.
        """
        below = [batch for batch in self.batches if batch.end_offset <= end]
        partly = next((batch for batch in self.batches if batch.end_offset > end), ModelBatch([], 0))
        partly_known = {key for _, key, _ in partly.records}
        newest = {key: offset for batch in below for offset, key, _ in batch.records}
        for batch in below:
            kept: list[tuple[int, str | None, str | None]] = [
                (offset, key, value)
                for offset, key, value in batch.records
                if key is not None and newest[key] == offset and not (key in partly_known and offset in went)
            ]
            if any(value is None for _, _, value in kept):
                if batch.horizon_ms is None:
                    batch.horizon_ms = now_ms + retention_ms
                elif batch.horizon_ms <= now_ms:
                    kept = [record for record in kept if record[2] is not None]
            batch.records = kept
            for offset, _, value in kept:
                if value is None:
                    self.first_met_ms.setdefault(offset, now_ms)

    @property
    def records(self) -> list[tuple[int, str | None, str | None]]:
        return [record for batch in self.batches for record in batch.records]


keys = st.sampled_from(["a", "b", "c", "d", "e", "long key " * 20, "", None])
values = st.sampled_from(["1", "2", "", None, None])
appends = st.tuples(
    st.just("append"), st.lists(st.tuples(keys, values), min_size=1, max_size=6), st.sampled_from(CODECS)
)
rolls = st.just(("roll",))
cleanings = st.tuples(
    st.just("clean"), st.sampled_from([0, 1, 600, 1_000, 5_000]), st.sampled_from([100, 250, 400, 1_200, MAP_BYTES])
)


@settings(max_examples=400, deadline=None)
@given(
    steps=st.lists(st.one_of(appends, appends, rolls, cleanings), max_size=40),
    segment_bytes=st.sampled_from([200, 500, 1 << 20]),
)
def test_whatever_is_written_and_cleaned_when_the_log_equals_a_plain_model(
    steps: list[tuple[Any, ...]], segment_bytes: int
) -> None:
    config = replace(COMPACT, segment_bytes=segment_bytes)
    log, model, now_ms = new_log(), Model(), NOW_MS
    for step in steps:
        match step:
            case ("append", pairs, codec):
                model.append(log.next_offset, pairs)
                log.append(*pairs, codec=codec)
            case ("roll",):
                log.roll()
            case _:
                _, passed_ms, map_bytes_max = step
                now_ms += passed_ms
                model_cleans(model, log, config, now_ms, map_bytes_max)
    assert log.pairs() == model.records
    assert view(log.pairs()) == view(model.everything)


def model_cleans(model: Model, log: CompactedLog, config: TopicConfig, now_ms: int, map_bytes_max: int) -> None:
    plan = log.plan(config, now_ms)
    if plan is None:
        return
    before = log.pairs()
    try:
        result = log.compact(config, now_ms, map_bytes_max)
    except OffsetMapTooSmall:
        assert log.pairs() == before
        return
    assert plan.dirty_offset < result.end_offset <= plan.end_offset
    after = log.pairs()
    went = {offset for offset, _, _ in before} - {offset for offset, _, _ in after}
    is_partial = result.end_offset < plan.end_offset
    model.clean(result.end_offset, now_ms, config.delete_retention_ms, went if is_partial else set())
    assert after == model.records
    assert set(after) <= set(before)
    assert all(earlier < later for (earlier, _, _), (later, _, _) in pairwise(after))
    below = [key for offset, key, _ in after if offset < result.end_offset]
    assert len(below) == len(set(below)), "a key stands twice in the clean part"
    keys_by_offset = {offset: key for offset, key, _ in before}
    for offset, _, value in set(before) - set(after):
        # A tombstone that went was either outdated or had been kept for its time.
        newer = any(key == keys_by_offset[offset] for later, key, _ in before if later > offset)
        met_ms = model.first_met_ms.get(offset)
        assert value is not None or newer or met_ms is None or met_ms + config.delete_retention_ms <= now_ms
    for header, batch in log.batches():
        check_crc(header, batch)
