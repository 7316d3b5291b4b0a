"""A small turn of `kafka_garbage_runs`, which sends a million malformed frames."""

from __future__ import annotations

from tests.soak import kafka_garbage_runs


def test_garbage_costs_the_connection_it_came_on_and_nobody_else_notices() -> None:
    outcome = kafka_garbage_runs.run(1_500, idle=100, unread=3, slow=5, heavy=0, megabytes=20)
    assert not outcome.objections, str(outcome)
    assert outcome.frames == 1_500
    assert outcome.pairs >= 40
