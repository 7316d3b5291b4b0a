"""Which brokers in service have no process any more, found out sooner than their sessions end.

Every broker holds a call to the active controller open: it attends. The kernel ends the call together with the process,
so who does not attend may be dead, and is dialled where it says that it listens. When nobody listens there, twice
in a row, its process is gone. Anything else proves nothing (a process that is paused still has its sockets, a network
that is cut gives no answer), and the session counts. A controller that has just become active knows of nobody who
attends, so it dials all brokers once: the controller before it may have died together with a broker.

A verdict that is wrong costs availability alone, because leader and broker epochs fence whoever lost a leadership. It
may be wrong where something between the two refuses connections for a broker that lives. Then the broker's next
heartbeat brings it back into service, and in that life of it no dialling counts any more.

A machine that only an active controller has, like `BrokerSessions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.model.endpoint import Endpoint
from kraft.model.ids import BrokerEpoch, BrokerId

REFUSALS_FOR_A_VERDICT: Final = 2
"""The first one may come from a listener that is just being opened."""

CONFIRM_AFTER_MS: Final = 100
DIAL_INTERVAL_MS: Final = 1_000
"""Between two tries at a broker that does not attend and is not gone."""

DIALLED_AT_ONCE_MAX: Final = 64

_Life = tuple[BrokerId, BrokerEpoch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Absentee:
    """A broker to be dialled at all its endpoints."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    endpoints: tuple[Endpoint, ...]


@dataclass(slots=True)
class _Presence:
    calls: int = 0
    refusals: int = 0
    dial_at_ms: int = 0
    is_being_dialled: bool = False
    was_taken_for_gone: bool = False
    is_exempt: bool = False


class BrokerPresence:
    """By broker and its epoch, so that nothing of an earlier life counts in a later one."""

    def __init__(self) -> None:
        self._known: dict[_Life, _Presence] = {}

    def begin_anew(self) -> None:
        """A term begins or ends: the streams opened in an earlier one count no more."""
        self._known = {}

    def liveness_stream_opened(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """The broker opened a call, to be ended with `left`; it may have several while it changes connections."""
        presence = self._of(broker_id, broker_epoch)
        presence.calls += 1
        presence.refusals = 0

    def left(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """A call has ended. After the last one the broker is dialled at once."""
        presence = self._of(broker_id, broker_epoch)
        presence.calls = max(0, presence.calls - 1)
        presence.dial_at_ms = 0

    def heard(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """A heartbeat came: the process lives, whatever its address told."""
        presence = self._known.get((broker_id, broker_epoch))
        if presence is not None:
            presence.refusals = 0
            presence.is_exempt = presence.is_exempt or presence.was_taken_for_gone

    def to_dial(self, image: MetadataImage, now_ms: int) -> list[Absentee]:
        """Brokers in service that do not attend and whose turn it is. `dialled` is to be called for each of them."""
        # Also of those that are fenced: who is back into service was perhaps wrongly taken for gone.
        lives = {(registration.broker_id, registration.broker_epoch) for registration in image.brokers.values()}
        self._known = {life: each for life, each in self._known.items() if life in lives or each.calls}
        due: list[Absentee] = []
        for registration in image.alive_brokers():
            presence = self._of(registration.broker_id, registration.broker_epoch)
            if presence.calls or presence.is_exempt or presence.is_being_dialled or now_ms < presence.dial_at_ms:
                continue
            if len(due) == DIALLED_AT_ONCE_MAX:
                break
            presence.is_being_dialled = True
            presence.dial_at_ms = now_ms + DIAL_INTERVAL_MS
            due.append(
                Absentee(
                    broker_id=registration.broker_id,
                    broker_epoch=registration.broker_epoch,
                    endpoints=tuple(registration.endpoints),
                )
            )
        return due

    def dialled(self, absentee: Absentee, *, nobody_listens: bool, now_ms: int) -> bool:
        """Whether the broker's process is gone. To be told again, should it still be in service later."""
        presence = self._known.get((absentee.broker_id, absentee.broker_epoch))
        if presence is None:
            return False
        presence.is_being_dialled = False
        if not nobody_listens or presence.calls:
            presence.refusals = 0
            return False
        presence.refusals += 1
        if presence.refusals < REFUSALS_FOR_A_VERDICT:
            presence.dial_at_ms = now_ms + CONFIRM_AFTER_MS
            return False
        presence.was_taken_for_gone = True
        return not presence.is_exempt

    def _of(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> _Presence:
        return self._known.setdefault((broker_id, broker_epoch), _Presence())
