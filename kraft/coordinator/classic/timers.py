"""Timers of classic groups: the keys by which the host sets, replaces and removes them."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class SessionTimer(Struct, frozen=True):
    """Ends when a member, or a member id that was given out, has not been heard of for its session timeout."""

    group_id: str
    member_id: str


class JoinTimer(Struct, frozen=True):
    """Ends when a rebalance waits no longer for members to join."""

    group_id: str


class SyncTimer(Struct, frozen=True):
    """Ends when a generation waits no longer for its members to sync."""

    group_id: str


ClassicTimer: TypeAlias = SessionTimer | JoinTimer | SyncTimer
