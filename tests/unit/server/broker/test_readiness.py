from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kraft.server.broker.readiness import BEHIND_S_MAX, BrokerStanding, CatchingUp, why_not_ready

IN_SERVICE = BrokerStanding(
    broker_id=4,
    is_registered=True,
    has_applied_metadata=True,
    is_listening=True,
    is_fenced=False,
    silent_s=1.0,
    session_timeout_s=9.0,
)


def test_a_broker_in_service_is_ready() -> None:
    assert why_not_ready(IN_SERVICE) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"is_registered": False}, "it is not registered yet"),
        (
            {"is_registered": False, "registration_problem": "no controller answers"},
            "it is not registered yet: no controller answers",
        ),
        ({"has_applied_metadata": False}, "it has not applied the metadata and opened its logs yet"),
        ({"is_listening": False}, "its listeners are not open yet"),
        ({"is_fenced": True}, "it is fenced: the controller has not unfenced it yet"),
        (
            {"is_fenced": True, "is_fenced_by_operator": True},
            "it is fenced by an operator, which 'kraft brokers unfence 4' ends",
        ),
        ({"silent_s": 12.0}, "no controller has answered for 12 s, so it may have been fenced"),
        ({"behind_s": BEHIND_S_MAX + 1}, "it lacks metadata that was committed 11 s ago"),
    ],
)
def test_what_is_missing_is_said_the_first_cause_before_its_effects(changes: dict[str, Any], why: str) -> None:
    assert why_not_ready(replace(IN_SERVICE, **changes)) == why
    at_start = {"has_applied_metadata": False, "is_listening": False, "is_fenced": True}
    if not changes.get("is_registered", True):
        assert why_not_ready(replace(IN_SERVICE, **{**at_start, **changes})) == why


def test_metadata_that_is_always_on_its_way_is_not_behind() -> None:
    catching_up = CatchingUp()
    for second in range(100):
        assert catching_up.behind_s(second * 10, second * 10 + 5, float(second)) <= 1.0


def test_metadata_that_does_not_arrive_is_behind_since_it_was_committed() -> None:
    catching_up = CatchingUp()
    assert catching_up.behind_s(7, 7, 0.0) == 0.0
    assert catching_up.behind_s(7, 9, 5.0) == 0.0
    assert catching_up.behind_s(7, 20, 9.0) == 4.0
    assert catching_up.behind_s(9, 20, 10.0) == 0.0
    assert catching_up.behind_s(9, 30, 13.0) == 3.0
