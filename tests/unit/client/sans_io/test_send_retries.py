"""A batch is sent again as often as `retries` allows."""

from __future__ import annotations

import pytest

from kraft.client.model.errors import NoRetriesLeft
from kraft.client.sans_io.send_buffer import BatchOutcome, Delivered, Failed
from kraft.model.errors import ErrorCode
from tests.unit.client.sans_io.sends import buffer_with, drain, put, result


@pytest.mark.parametrize("retries", [1, 2])
def test_a_batch_fails_after_so_many_retries_with_the_last_reason(retries: int) -> None:
    buffer = buffer_with(retries=retries)
    put(buffer, b"a")
    outcomes: list[BatchOutcome] = []
    for now_ms in range(0, 10_000 * (retries + 1), 10_000):
        assert not outcomes
        (attempt,) = drain(buffer, now_ms=now_ms)
        outcomes += buffer.answered(attempt, result(ErrorCode.NOT_ENOUGH_REPLICAS), now_ms)
    (failed,) = outcomes
    assert isinstance(failed, Failed)
    assert str(failed.error) == (
        f"orders-0: not acknowledged, and retries={retries} allows no further attempt; last reason: NOT_ENOUGH_REPLICAS"
    )
    assert buffer.memory_used == 0


def test_what_follows_a_batch_without_retries_left_gets_new_sequences() -> None:
    buffer = buffer_with(retries=1)
    put(buffer, b"a", b"b")
    a, b = drain(buffer)
    buffer.lost(a, "the stream broke", 0)
    buffer.lost(b, "the stream broke", 0)
    a, b = drain(buffer, now_ms=10_000)
    (failed,) = buffer.lost(a, "the stream broke", 10_000)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, NoRetriesLeft)
    assert failed.batch is a.batch
    # The second one may be stored, so it is not sent under another identity.
    (stored,) = buffer.answered(b, result(base_offset=2), 10_000)
    assert isinstance(stored, Delivered)
