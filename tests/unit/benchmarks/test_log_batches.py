"""The load of the benchmarks is what an idempotent producer sends."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from benchmarks.log_append import open_log
from benchmarks.log_batches import BASE_TIMESTAMP_MS, batches, stamp
from kraft.log.change import run_now
from kraft.log.format.record_batch import decode_batch, validate
from kraft.model.ids import LeaderEpoch


@pytest.mark.parametrize("size_bytes", [1 << 10, 16 << 10, 1 << 20])
def test_a_batch_is_whole_and_no_larger_than_asked_for(size_bytes: int) -> None:
    for number, stamped in enumerate(islice(batches(size_bytes, timestamp_step_ms=7), 3)):
        header = validate(stamp(stamped))
        assert size_bytes * 0.9 < header.size_bytes <= size_bytes
        assert header.max_timestamp_ms == BASE_TIMESTAMP_MS + 7 * number
        assert len(decode_batch(bytes(stamped[0]))) == header.record_count


def test_batches_that_share_a_buffer_continue_the_sequence(tmp_path: Path) -> None:
    load = list(islice(batches(1 << 20), 10))
    assert len({id(buffer) for buffer, _ in load}) < len(load)
    log = open_log(tmp_path)
    try:
        for stamped in load:
            # The log itself refuses a gap, and says when it was there before.
            assert not log.append_as_leader(stamp(stamped), LeaderEpoch(0), BASE_TIMESTAMP_MS, run_now).duplicate
    finally:
        log.release()
