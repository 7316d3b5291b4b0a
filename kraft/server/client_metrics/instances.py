"""Instances of clients: what each was asked for, and when it may ask or push again. Kafka's rules (KIP-714).

An instance is known by the id that it got with its first answer. A broker that does not know it makes it anew: what it
is asked for, and the id of that, follow from the subscriptions and the id of the instance. So nothing is lost with one
that is forgotten but the times of its requests.
"""

from __future__ import annotations

from math import inf
from typing import Final
from uuid import UUID

from kraft.metadata.client_metrics import Subscription, Wanted, subscription_id
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.push_telemetry import PushTelemetryRequest

INSTANCES_MAX: Final = 16_384
"""Kafka's limit: of more, those that were silent longest are forgotten."""

KEPT_MS_MIN: Final = 60_000
KEPT_INTERVALS: Final = 3
"""An instance that was silent for so many intervals, and for KEPT_MS_MIN, is gone."""

RESERVED_IDS: Final = (ZERO_UUID, UUID(int=1))
"""Ids that are nobody's."""

CODECS: Final = range(5)
"""None, gzip, snappy, lz4 and zstd, by Kafka's numbers."""

_ASKS_AGAIN_AFTER: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""After these a client has to ask before its interval is over."""


def kept_ms(interval_ms: int) -> int:
    """Return how long a client that pushes at this interval may be silent."""
    return max(KEPT_MS_MIN, KEPT_INTERVALS * interval_ms)


class Instance:
    """One client instance, as of one set of subscriptions: with others it is another one."""

    __slots__ = (
        "_asked_ms",
        "_last_error",
        "_pushed_ms",
        "is_terminating",
        "subscription_id",
        "subscriptions",
        "used_ms",
        "wanted",
    )

    def __init__(self, instance_id: UUID, subscriptions: tuple[Subscription, ...], wanted: Wanted) -> None:
        self.subscriptions = subscriptions
        """All of the cluster, by which it was decided what is wanted."""

        self.wanted = wanted
        self.subscription_id = subscription_id(wanted, instance_id)
        self.is_terminating = False
        """It has said that it ends, with a push that was its last."""

        self.used_ms = 0
        self._asked_ms = self._pushed_ms = -inf
        self._last_error: int = ErrorCode.NONE

    def ask(self, now_ms: int) -> None:
        """Note that it asks what is wanted. Raises Refusal if it is too early."""
        if now_ms - max(self._asked_ms, self._pushed_ms) >= self.wanted.interval_ms:
            self._asked_ms = now_ms
        elif self._last_error not in _ASKS_AGAIN_AFTER:
            raise _too_early(self.wanted.interval_ms)
        self._last_error = ErrorCode.NONE

    def push(self, request: PushTelemetryRequest, now_ms: int, bytes_max: int) -> None:
        """Note that it pushes. Raises Refusal if it may not, or not so."""
        try:
            self._check_time(request, now_ms)
            if request.subscription_id != self.subscription_id:
                problem = f"there is no subscription {request.subscription_id}: ask for the current one"
                raise Refusal(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, problem)
            if request.compression_type not in CODECS:
                problem = f"there is no compression type {request.compression_type}"
                raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, problem)
            if len(request.metrics) > bytes_max:
                problem = f"the push has {len(request.metrics)} bytes, more than telemetry.max.bytes={bytes_max}"
                raise Refusal(ErrorCode.TELEMETRY_TOO_LARGE, problem)
        except Refusal as refusal:
            self.failed(refusal.error_code)
            raise
        finally:
            self.is_terminating = request.terminating

    def failed(self, error_code: int) -> None:
        """Note what its push was refused with; NONE if it was not."""
        self._last_error = error_code

    def _check_time(self, request: PushTelemetryRequest, now_ms: int) -> None:
        if self.is_terminating:
            raise Refusal(ErrorCode.INVALID_REQUEST, "the client said that its last push was the last")
        # A client that has just asked may push at once: it waits for a random part of the interval, or longer.
        if self._asked_ms > self._pushed_ms or now_ms - self._pushed_ms >= self.wanted.interval_ms:
            self._pushed_ms = now_ms
        elif not request.terminating:
            raise _too_early(self.wanted.interval_ms)


def _too_early(interval_ms: int) -> Refusal:
    return Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"the client's interval of {interval_ms} ms is not over yet")


class Instances:
    """All instances that this broker knows, those that were silent longest first."""

    def __init__(self, count_max: int = INSTANCES_MAX) -> None:
        self._count_max: Final = count_max
        self._by_id: dict[UUID, Instance] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, instance_id: UUID) -> bool:
        return instance_id in self._by_id

    def find(self, instance_id: UUID, subscriptions: tuple[Subscription, ...], now_ms: int) -> Instance | None:
        """Return the instance, which is used now; None if there is none as of these subscriptions."""
        self._drop_silent(now_ms)
        found = self._by_id.pop(instance_id, None)
        if found is None or _is_silent(found, now_ms):
            return None
        self._by_id[instance_id] = found
        if found.subscriptions is not subscriptions:
            return None
        found.used_ms = now_ms
        return found

    def add(self, instance_id: UUID, instance: Instance, now_ms: int) -> None:
        """Add an instance, in place of the one with this id as of other subscriptions."""
        self._by_id.pop(instance_id, None)
        while len(self._by_id) >= self._count_max:
            del self._by_id[next(iter(self._by_id))]
        instance.used_ms = now_ms
        self._by_id[instance_id] = instance

    def forget(self, instance_id: UUID) -> None:
        self._by_id.pop(instance_id, None)

    def _drop_silent(self, now_ms: int) -> None:
        # One at each request is enough: none adds more than one.
        oldest = next(iter(self._by_id), None)
        if oldest is not None and _is_silent(self._by_id[oldest], now_ms):
            del self._by_id[oldest]


def _is_silent(instance: Instance, now_ms: int) -> bool:
    return now_ms - instance.used_ms > kept_ms(instance.wanted.interval_ms)
