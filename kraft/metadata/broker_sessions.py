"""Which brokers the active controller still hears from.

A machine that only an active controller has; it ends with the term. Its sessions are not replicated: whoever becomes
active grants every unfenced broker a full session first, because it cannot know when each was last heard from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.model.ids import BrokerEpoch, BrokerId

DEAF_AFTER_MS: Final = 1_000
"""A controller that did not come to look for longer than this was itself stopped, or its machine slept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    broker_epoch: BrokerEpoch
    last_contact_ms: int


class BrokerSessions:
    """Last contact of each broker, by the epoch under which it was heard from."""

    def __init__(self, *, timeout_ms: int) -> None:
        """`timeout_ms` is Kafka's broker.session.timeout.ms."""
        if timeout_ms <= 0:
            raise ValueError(f"a session of {timeout_ms} ms")
        self._timeout_ms = timeout_ms
        self._sessions: dict[BrokerId, _Session] = {}
        self._listened_ms: int | None = None

    def activate(self, image: MetadataImage, now_ms: int) -> None:
        """Begins the term: every unfenced broker gets a full session, whatever was known here before."""
        self._sessions = {
            registration.broker_id: _Session(broker_epoch=registration.broker_epoch, last_contact_ms=now_ms)
            for registration in image.alive_brokers()
        }
        self._listened_ms = now_ms

    def listened(self, now_ms: int) -> None:
        """To be called many times a second while active: what could have been heard by now was heard.

        When the call comes late, the controller itself was stopped, and the brokers' heartbeats wait at its listener:
        the time since the call before is nobody's silence.
        """
        deaf_ms = 0 if self._listened_ms is None else now_ms - self._listened_ms
        if deaf_ms > DEAF_AFTER_MS:
            self._sessions = {
                broker_id: replace(session, last_contact_ms=session.last_contact_ms + deaf_ms)
                for broker_id, session in self._sessions.items()
            }
        self._listened_ms = now_ms

    def touch(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, now_ms: int) -> None:
        """The broker was heard from. A word from an earlier life of it counts for nothing."""
        known = self._sessions.get(broker_id)
        if known is None or broker_epoch >= known.broker_epoch:
            self._sessions[broker_id] = _Session(broker_epoch=broker_epoch, last_contact_ms=now_ms)

    def is_alive(self, broker_id: BrokerId, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and now_ms < self._deadline_ms(session)

    def last_contact_ms(self, broker_id: BrokerId) -> int | None:
        """None for a broker that is not watched."""
        session = self._sessions.get(broker_id)
        return None if session is None else session.last_contact_ms

    def expired(self, now_ms: int) -> list[BrokerId]:
        """Brokers to be fenced, by id. Each is told again and again until `end` is called or it is heard from."""
        return sorted(
            broker_id for broker_id, session in self._sessions.items() if now_ms >= self._deadline_ms(session)
        )

    def end(self, broker_id: BrokerId) -> None:
        """The broker is fenced, so there is nothing left to watch until it is heard from again."""
        self._sessions.pop(broker_id, None)

    def next_deadline_ms(self) -> int | None:
        """When `expired` next has something new to tell; None without sessions. In the past when it has already."""
        return min(map(self._deadline_ms, self._sessions.values()), default=None)

    def _deadline_ms(self, session: _Session) -> int:
        return session.last_contact_ms + self._timeout_ms
