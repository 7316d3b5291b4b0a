"""A small turn of `kafka_kill_runs`, which makes 30 of them."""

from __future__ import annotations

import pytest

from tests.soak import kafka_kill_runs


@pytest.mark.slow
def test_an_idempotent_producer_of_kafka_notices_nothing_of_a_leader_that_dies_but_a_pause() -> None:
    verdict = kafka_kill_runs.run(times=2, seed=1)
    assert verdict.is_as_promised, str(verdict)
    assert len(verdict.kills) == 2
