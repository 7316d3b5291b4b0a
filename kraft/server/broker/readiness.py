"""Whether a broker is ready: in service by the last that it heard, with the metadata applied and its logs open."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

BEHIND_S_MAX: Final = 10.0
"""Time for which a broker may lack metadata that it knows to be committed."""


class BrokerStanding(Struct, frozen=True, kw_only=True):
    """How far a broker has come, and what it knows of its session."""

    broker_id: int
    is_registered: bool
    registration_problem: str = ""
    """Why the last attempt to register failed; empty without one."""

    has_applied_metadata: bool
    """Logs are open then, too."""

    is_listening: bool
    is_fenced: bool
    is_fenced_by_operator: bool = False
    silent_s: float
    """Time since a controller has answered a heartbeat."""

    session_timeout_s: float
    behind_s: float = 0.0
    """Time for which metadata is missing that was committed."""


def why_not_ready(standing: BrokerStanding) -> str | None:
    """Return what is missing, in words; None if the broker is ready."""
    if not standing.is_registered:
        problem = f": {standing.registration_problem}" if standing.registration_problem else ""
        return f"it is not registered yet{problem}"
    if not standing.has_applied_metadata:
        return "it has not applied the metadata and opened its logs yet"
    if not standing.is_listening:
        return "its listeners are not open yet"
    if standing.is_fenced_by_operator:
        return f"it is fenced by an operator, which 'kraft brokers unfence {standing.broker_id}' ends"
    if standing.is_fenced:
        return "it is fenced: the controller has not unfenced it yet"
    if standing.silent_s > standing.session_timeout_s:
        return f"no controller has answered for {standing.silent_s:.0f} s, so it may have been fenced"
    if standing.behind_s > BEHIND_S_MAX:
        return f"it lacks metadata that was committed {standing.behind_s:.0f} s ago"
    return None


class CatchingUp:
    """For how long a broker has lacked metadata that it knows to be committed: some is always on its way."""

    def __init__(self) -> None:
        self._goal_index = 0
        self._goal_set_s = 0.0

    def behind_s(self, applied_index: int, committed_index: int, now_s: float) -> float:
        """Return the age of the oldest index that is known to be committed, and was not applied; call it often."""
        if applied_index >= self._goal_index:
            self._goal_index, self._goal_set_s = committed_index, now_s
        return now_s - self._goal_set_s if applied_index < self._goal_index else 0.0
