"""The last values of what clients pushed, for scrapes: within limits, until the clients are silent.

Limits, and so the most memory: CLIENTS_MAX clients, SERIES_MAX series, and TEXT_BYTES_MAX of their names and labels.
What would exceed them is left out, and what is there goes on.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msgspec import Struct

from kraft.model.errors import ErrorCode, Refusal
from kraft.server.client_metrics.instances import kept_ms
from kraft.server.client_metrics.payload import COUNTER_SUFFIX, Payload, SeriesKey
from kraft.server.client_metrics.pushing_client import PushingClient

CLIENTS_MAX: Final = 10_000
SERIES_MAX: Final = 50_000
FAMILIES_MAX: Final = 1_000
LABEL_NAMES_MAX: Final = 16
"""Different names of labels that the series of one name have, those of all clients together."""

TEXT_BYTES_MAX: Final = 16 << 20

SWEPT_SERIES_MAX: Final = 5_000
SWEPT_AFTER_MS: Final = 1_000
"""Time between two looks for silent clients, while there is no room."""

OWN_LABELS: Final = ("client_instance_id", "client_id")

RESOURCE_LABELS: Final = ("client_rack", "group_id", "group_instance_id", "group_member_id", "transactional_id")
"""Attributes of the client itself that are shown (KIP-714)."""

INFO_LABELS: Final = (
    *OWN_LABELS,
    "client_software_name",
    "client_software_version",
    "client_address",
    "principal",
    *RESOURCE_LABELS,
)

_RESOURCE_TEXT_MAX: Final = 249


class Family:
    """The series of one name."""

    __slots__ = ("is_counter", "label_names", "name", "series_count")

    def __init__(self, name: str, *, is_counter: bool) -> None:
        self.name = name
        self.is_counter = is_counter
        self.label_names = list(OWN_LABELS)
        """They only become more."""

        self.series_count = 0


class Series(Struct, gc=False):
    """One series."""

    labels: tuple[str, ...]
    """Values of the first label names of its family; of those that came later it has none."""

    value: float
    text_bytes: int


class ReceivedClient:
    """A client that pushed, with its series."""

    __slots__ = ("info", "interval_ms", "principal", "pushed_ms", "series")

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.info: tuple[str, ...] = ()
        self.pushed_ms = 0
        self.interval_ms = 0
        self.series: dict[SeriesKey, Series] = {}

    def is_silent(self, now_ms: int) -> bool:
        return now_ms - self.pushed_ms > kept_ms(self.interval_ms)


class ReceivedMetrics:
    """What all clients pushed to this broker."""

    def __init__(
        self,
        clients_max: int = CLIENTS_MAX,
        series_max: int = SERIES_MAX,
        text_bytes_max: int = TEXT_BYTES_MAX,
    ) -> None:
        self._clients_max: Final = clients_max
        self._series_max: Final = series_max
        self._text_bytes_max: Final = text_bytes_max
        self._clients: dict[UUID, ReceivedClient] = {}
        self._families: dict[str, Family] = {}
        self._swept_ms = -SWEPT_AFTER_MS
        self.series_count = 0
        self.text_bytes = 0
        self.cut_pushes = 0
        """Pushes of which something was left out."""

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def families(self) -> list[Family]:
        return list(self._families.values())

    def ids(self) -> list[UUID]:
        return list(self._clients)

    def alive(self, instance_id: UUID, now_ms: int) -> ReceivedClient | None:
        """Return the client; None if it is gone, as one is that was silent for too long."""
        client = self._clients.get(instance_id)
        if client is not None and client.is_silent(now_ms):
            self._remove(instance_id)
            return None
        return client

    def check_owner(self, instance_id: UUID, principal: str, now_ms: int) -> None:
        """Raise Refusal if the instance is another user's: with its id it could change that one's series."""
        known = self.alive(instance_id, now_ms)
        if known is not None and known.principal != principal:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"client instance {instance_id} belongs to another user")

    def take(self, instance_id: UUID, pushing: PushingClient, interval_ms: int, payload: Payload, now_ms: int) -> None:
        """Keep the values of a push. Raises Refusal as `check_owner`."""
        self.check_owner(instance_id, pushing.principal, now_ms)
        client = self._client(instance_id, pushing.principal, now_ms)
        if client is None:
            self.cut_pushes += 1
            return
        resource = (payload.resource.get(name, "")[:_RESOURCE_TEXT_MAX] for name in RESOURCE_LABELS)
        own = str(instance_id), pushing.client_id
        software = pushing.software_name, pushing.software_version
        client.info = (*own, *software, pushing.host, pushing.principal, *resource)
        client.pushed_ms, client.interval_ms = now_ms, interval_ms
        is_cut = payload.is_cut
        for key, value in payload.added.items():
            series = self._series(client, own, key, now_ms)
            if series is not None:
                series.value += value
            is_cut = is_cut or series is None
        for key, value in payload.set.items():
            series = self._series(client, own, key, now_ms)
            if series is not None:
                series.value = value
            is_cut = is_cut or series is None
        self.cut_pushes += is_cut

    def _client(self, instance_id: UUID, principal: str, now_ms: int) -> ReceivedClient | None:
        """Return the client; None if there is no room for another one."""
        known = self.alive(instance_id, now_ms)
        if known is not None:
            return known
        if len(self._clients) >= self._clients_max:
            self._sweep(now_ms)
            if len(self._clients) >= self._clients_max:
                return None
        client = self._clients[instance_id] = ReceivedClient(principal)
        return client

    def _series(self, client: ReceivedClient, own: tuple[str, str], key: SeriesKey, now_ms: int) -> Series | None:
        known = client.series.get(key)
        if known is not None:
            return known
        labels = dict(key.labels)
        text_bytes = len(key.name) + sum(_bytes_of(name) + _bytes_of(value) for name, value in key.labels)
        if not self._has_room(text_bytes):
            self._sweep(now_ms)
            if not self._has_room(text_bytes):
                return None
        family = self._family_for(key, labels)
        if family is None:
            return None
        values = (*own, *(labels.get(name, "") for name in family.label_names[len(OWN_LABELS) :]))
        series = client.series[key] = Series(labels=values, value=0.0, text_bytes=text_bytes)
        family.series_count += 1
        self.series_count += 1
        self.text_bytes += text_bytes
        return series

    def _has_room(self, text_bytes: int) -> bool:
        return self.series_count < self._series_max and self.text_bytes + text_bytes <= self._text_bytes_max

    def _family_for(self, key: SeriesKey, labels: dict[str, str]) -> Family | None:
        """Return the family that can have the series; None if there is none, and no room for it."""
        family = self._families.get(_family_name(key.name))
        if family is None:
            if len(self._families) >= FAMILIES_MAX:
                return None
            family = Family(key.name, is_counter=key.is_counter)
        new = [name for name in labels if name not in family.label_names]
        is_another = family.name != key.name or family.is_counter != key.is_counter
        if is_another or len(family.label_names) + len(new) > LABEL_NAMES_MAX:
            return None
        family.label_names += new
        self._families[_family_name(key.name)] = family
        return family

    def _sweep(self, now_ms: int) -> None:
        """Remove silent clients, some at a time, unless that was tried just before."""
        if now_ms - self._swept_ms < SWEPT_AFTER_MS:
            return
        self._swept_ms, before = now_ms, self.series_count
        for instance_id in self.ids():
            self.alive(instance_id, now_ms)
            if before - self.series_count >= SWEPT_SERIES_MAX:
                break

    def _remove(self, instance_id: UUID) -> None:
        client = self._clients.pop(instance_id)
        for key, series in client.series.items():
            family = self._families[_family_name(key.name)]
            family.series_count -= 1
            if not family.series_count:
                del self._families[_family_name(key.name)]
            self.text_bytes -= series.text_bytes
        self.series_count -= len(client.series)


def _family_name(series_name: str) -> str:
    """Return the name of the family, in which OpenMetrics allows series of one kind only."""
    return series_name.removesuffix(COUNTER_SUFFIX)


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)
