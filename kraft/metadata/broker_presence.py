"""Detects brokers in service whose process is gone, sooner than their sessions end (ADR 18).

Every broker holds a liveness stream open to the active controller. The kernel closes the stream together with the
process, so a broker without a stream may be dead, and the controller dials its endpoints. If all of them refuse the
connection, twice in a row, the process is gone. Any other outcome proves nothing: a paused process still has its
sockets, and a network that is cut does not answer. Then only the session counts. A controller that has just become
active has no streams yet, so it dials all brokers once: the previous controller may have died together with a broker.

A wrong verdict costs only availability, because leader and broker epochs fence a broker that lost a leadership. It is
wrong if something between the two refuses connections although the broker is alive. Then the broker's next heartbeat
brings it back into service, and it is not dialled again under the same broker epoch.

A machine that only an active controller has, like `BrokerSessions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.metadata.broker_registration import BrokerRegistration
from kraft.metadata.image import MetadataImage
from kraft.model.ids import BrokerEpoch, BrokerId

REFUSALS_FOR_A_VERDICT: Final = 2
"""The first refusal may come from a listener that is just being opened."""

CONFIRM_AFTER_MS: Final = 100
DIAL_INTERVAL_MS: Final = 1_000
"""Time between two attempts to dial a broker that has no liveness stream and is not known to be gone."""

DIALLED_AT_ONCE_MAX: Final = 64

_Registration = tuple[BrokerId, BrokerEpoch]


@dataclass(slots=True)
class _Presence:
    streams: int = 0
    refusals: int = 0
    dial_at_ms: int = 0
    is_being_dialled: bool = False
    was_declared_gone: bool = False
    is_exempt: bool = False


class BrokerPresence:
    """Liveness streams and dial attempts, by broker and broker epoch: nothing carries over to a new registration."""

    def __init__(self) -> None:
        self._known: dict[_Registration, _Presence] = {}

    def reset(self) -> None:
        """Forget everything: streams opened in an earlier term no longer count."""
        self._known = {}

    def liveness_stream_opened(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """Note an open stream, until `liveness_stream_closed`; a broker may have several while it reconnects."""
        presence = self._of(broker_id, broker_epoch)
        presence.streams += 1
        presence.refusals = 0

    def liveness_stream_closed(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """Note the end of a stream. After its last one the broker is dialled at once."""
        presence = self._of(broker_id, broker_epoch)
        presence.streams = max(0, presence.streams - 1)
        presence.dial_at_ms = 0

    def heard(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """Note a heartbeat: the process is alive, even if its endpoints refuse connections."""
        presence = self._known.get((broker_id, broker_epoch))
        if presence is not None:
            presence.refusals = 0
            presence.is_exempt = presence.is_exempt or presence.was_declared_gone

    def to_dial(self, image: MetadataImage, now_ms: int) -> list[BrokerRegistration]:
        """Return brokers in service without a stream that are due, to be dialled at all their endpoints.

        The caller calls `dialled` for each of them.
        """
        # Fenced brokers are kept too: one that comes back into service may have been declared gone by mistake.
        registered = {(each.broker_id, each.broker_epoch) for each in image.brokers.values()}
        self._known = {key: each for key, each in self._known.items() if key in registered or each.streams}
        due: list[BrokerRegistration] = []
        for registration in image.alive_brokers():
            presence = self._of(registration.broker_id, registration.broker_epoch)
            if presence.streams or presence.is_exempt or presence.is_being_dialled or now_ms < presence.dial_at_ms:
                continue
            if len(due) == DIALLED_AT_ONCE_MAX:
                break
            presence.is_being_dialled = True
            presence.dial_at_ms = now_ms + DIAL_INTERVAL_MS
            due.append(registration)
        return due

    def dialled(self, broker: BrokerRegistration, *, nobody_listens: bool, now_ms: int) -> bool:
        """Take the outcome of dialling; return whether the broker's process is gone.

        A broker that is gone and still in service is returned by `to_dial` again.
        """
        presence = self._known.get((broker.broker_id, broker.broker_epoch))
        if presence is None:
            return False
        presence.is_being_dialled = False
        if not nobody_listens or presence.streams:
            presence.refusals = 0
            return False
        presence.refusals += 1
        if presence.refusals < REFUSALS_FOR_A_VERDICT:
            presence.dial_at_ms = now_ms + CONFIRM_AFTER_MS
            return False
        presence.was_declared_gone = True
        return not presence.is_exempt

    def _of(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> _Presence:
        return self._known.setdefault((broker_id, broker_epoch), _Presence())
