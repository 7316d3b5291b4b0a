"""The sessions of brokers: the time of the last contact with each.

A machine that only an active controller has; it ends with the term. Sessions are not replicated: a controller that
becomes active gives every unfenced broker a full session, because it does not know the last contacts of the one before.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.metadata.image import MetadataImage
from kraft.model.ids import BrokerEpoch, BrokerId

PAUSED_AFTER_MS: Final = 1_000
"""If `tick` is not called for longer than this, the controller's process was paused, or its machine slept."""


class _Session(Struct, frozen=True, kw_only=True):
    broker_epoch: BrokerEpoch
    last_contact_ms: int


class BrokerSessions:
    """Last contact of each broker, with its broker epoch at that time."""

    def __init__(self, *, timeout_ms: int) -> None:
        """`timeout_ms` is Kafka's broker.session.timeout.ms."""
        if timeout_ms <= 0:
            raise ValueError(f"the session timeout is {timeout_ms} ms, but must be above 0")
        self._timeout_ms = timeout_ms
        self._sessions: dict[BrokerId, _Session] = {}
        self._last_tick_ms: int | None = None

    def activate(self, image: MetadataImage, now_ms: int) -> None:
        """Begin the term: give every unfenced broker a full session."""
        self._sessions = {
            registration.broker_id: _Session(broker_epoch=registration.broker_epoch, last_contact_ms=now_ms)
            for registration in image.alive_brokers()
        }
        self._last_tick_ms = now_ms

    def tick(self, now_ms: int) -> None:
        """Note that the controller is running; called many times a second while active.

        If the call comes late, the controller itself was paused, and heartbeats may wait unread at its listener. Every
        session is then extended by the time since the previous call.
        """
        paused_ms = 0 if self._last_tick_ms is None else now_ms - self._last_tick_ms
        if paused_ms > PAUSED_AFTER_MS:
            self._sessions = {
                broker_id: replace(session, last_contact_ms=session.last_contact_ms + paused_ms)
                for broker_id, session in self._sessions.items()
            }
        self._last_tick_ms = now_ms

    def touch(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, now_ms: int) -> None:
        """Note a contact with the broker; one under an earlier broker epoch is ignored."""
        known = self._sessions.get(broker_id)
        if known is None or broker_epoch >= known.broker_epoch:
            self._sessions[broker_id] = _Session(broker_epoch=broker_epoch, last_contact_ms=now_ms)

    def is_alive(self, broker_id: BrokerId, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and now_ms < self._deadline_ms(session)

    def last_contact_ms(self, broker_id: BrokerId) -> int | None:
        """Return the time of the last contact; None for a broker without a session."""
        session = self._sessions.get(broker_id)
        return None if session is None else session.last_contact_ms

    def expired(self, now_ms: int) -> list[BrokerId]:
        """Return the brokers to be fenced, by id. Each is returned again until `end` or `touch` is called for it."""
        return sorted(
            broker_id for broker_id, session in self._sessions.items() if now_ms >= self._deadline_ms(session)
        )

    def end(self, broker_id: BrokerId, broker_epoch: BrokerEpoch | None = None) -> None:
        """Remove the session of a broker that is fenced; its next contact begins a new one.

        With a broker epoch, the session of a later registration is kept.
        """
        known = self._sessions.get(broker_id)
        if known is not None and (broker_epoch is None or broker_epoch >= known.broker_epoch):
            del self._sessions[broker_id]

    def _deadline_ms(self, session: _Session) -> int:
        return session.last_contact_ms + self._timeout_ms
