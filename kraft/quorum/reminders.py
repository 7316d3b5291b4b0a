"""Warnings about what keeps a voter from counting, repeated while it lasts, with what the operator can do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import structlog
from msgspec import Struct, field

from kraft.quorum.membership import Membership

log = structlog.get_logger(__name__)

FIRST_AFTER_MS: Final = 1_000
"""Most obstacles are gone within this time: all start together, or a leader admits the learner."""

CHANGED_AFTER_MS: Final = 5_000
AGAIN_AFTER_MS: Final = 30_000


class Obstacle(Struct, frozen=True, kw_only=True):
    """What keeps a voter from counting: `event` and the other fields are those of the log."""

    event: str
    waits_for: list[int]
    remedy: str


class Peers(Struct, frozen=True, kw_only=True):
    """The other voters of a voter: all, those that it reaches, learners, and why others do not agree with it."""

    all: Collection[int]
    connected: Collection[int] = ()
    learners: Collection[int] = ()
    refusals: Mapping[int, str] = field(default_factory=dict)


def obstacle(membership: Membership, peers: Peers) -> Obstacle | None:
    """Return what keeps the voter from counting; None if it counts, or needs nobody's help."""
    if not membership.is_new and not membership.is_learner:
        return None
    missing = sorted(set(peers.all) - set(peers.connected))
    refused = {peer: peers.refusals[peer] for peer in missing if peers.refusals.get(peer)}
    if membership.is_new:
        if not missing:
            return None
        if refused:
            return Obstacle(
                event="quorum not formed: a controller forms none with this one",
                waits_for=missing,
                remedy=_remedy_of_refused(refused),
            )
        return Obstacle(
            event="quorum not formed yet: it needs all controllers once",
            waits_for=missing,
            remedy=to_start(len(missing), missing),
        )
    majority = (len(peers.all) + 1) // 2 + 1
    complete = sorted(set(peers.all) - set(peers.learners))
    missing = [peer for peer in missing if peer in complete]
    return Obstacle(
        event="controller is a learner: it does not count until the leader has admitted it",
        waits_for=missing,
        remedy=_remedy_of_learner(complete, missing, majority),
    )


def _remedy_of_refused(refused: Mapping[int, str]) -> str:
    peer, reason = min(refused.items())
    return (
        f"controller {peer} says why: {reason}. If it has formed a quorum of fewer, grow that one"
        " first: see 'kraft storage grow-quorum --help'"
    )


def _remedy_of_learner(complete: list[int], missing: list[int], majority: int) -> str:
    if not complete:
        return "none: no controller has the metadata log any more"
    if len(complete) < majority:
        only = "controller" if len(complete) == 1 else "controllers"
        return (
            f"none yet: a majority has lost the metadata log, and only {only} {', '.join(map(str, complete))} may have"
            " it: do not delete it"
        )
    needed = majority - (len(complete) - len(missing))
    if needed <= 0:
        return "none is needed while there is a leader; if this lasts, see the logs of the other controllers"
    return to_start(needed, missing)


def to_start(count: int, missing: Collection[int]) -> str:
    """Return in words that so many of the missing controllers are to be started."""
    which = ", ".join(map(str, sorted(missing)))
    if len(missing) == 1:
        return f"start controller {which}"
    return f"start controllers {which}" if count == len(missing) else f"start {count} of controllers {which}"


class Reminder:
    """Logs a voter's obstacle after a second, again every 30 s while it lasts, and earlier if it has changed."""

    def __init__(self, node_id: int, now_ms: int) -> None:
        self._node_id = node_id
        self._said: Obstacle | None = None
        self._free_since_ms = now_ms
        self._said_ms = now_ms

    def check(self, found: Obstacle | None, now_ms: int) -> None:
        if found is None:
            self._said, self._free_since_ms = None, now_ms
            return
        if self._said is None:
            is_due = now_ms - self._free_since_ms >= FIRST_AFTER_MS
        else:
            pause_ms = AGAIN_AFTER_MS if found == self._said else CHANGED_AFTER_MS
            is_due = now_ms - self._said_ms >= pause_ms
        if is_due:
            self._said, self._said_ms = found, now_ms
            log.warning(found.event, node=self._node_id, waits_for=found.waits_for, remedy=found.remedy)
