"""What clients use of their quotas, and how long each has to wait once it has used more.

The methods take the client and the time, and return a wait in milliseconds, 0 for none. They never wait themselves.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from kraft.metadata.quota_decisions import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from kraft.metadata.settings import QuotaSubject
from kraft.quotas.precedence import Client, QuotasInEffect
from kraft.quotas.rate import KAFKAS_WINDOWS, Rate, Windows
from kraft.quotas.token_bucket import TokenBucket

Key = TypeVar("Key")
Meter = TypeVar("Meter")

IDLE_MS_MAX: Final = 3_600_000
"""A client that uses nothing for this long is forgotten, as in Kafka."""

METERS_MAX: Final = 10_000
"""Clients that are measured for one quota. Beyond it the one that was idle longest is forgotten: clients choose their
ids, and each id may have a quota of its own by default."""

TOLD_MS: Final = 1_000
"""What a client is told to wait at a time, where its broker can hold it back for the rest: a client keeps to what it
was told, and notices within this time that its quota was removed."""

_PERCENT_PER_NS: Final = 100 / 1_000_000_000


def told_to_producer(wait_ms: int, timeout_ms: int) -> int:
    """Return how much of its wait a producer is told. For the rest its connection is not read.

    Its next request waits there unread, which is no more than a third of `timeout_ms`: so long the producer says that
    it waits for an answer.
    """
    return min(wait_ms, max(TOLD_MS, wait_ms - max(0, timeout_ms) // 3))


class Meters(Generic[Key, Meter]):
    """One meter for each client that was measured lately, the one that has been idle longest first."""

    def __init__(self) -> None:
        self._meters: OrderedDict[Key, tuple[Meter, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._meters)

    def get(self, key: Key, now_ms: int) -> Meter | None:
        """Return the meter, which is used now; None if there is none."""
        self._forget_idle(now_ms)
        found = self._meters.get(key)
        if found is None:
            return None
        self.put(key, found[0], now_ms)
        return found[0]

    def put(self, key: Key, meter: Meter, now_ms: int) -> None:
        self._meters[key] = meter, now_ms
        self._meters.move_to_end(key)
        if len(self._meters) > METERS_MAX:
            self._meters.popitem(last=False)

    def _forget_idle(self, now_ms: int) -> None:
        while self._meters:
            key, (_, used_at_ms) = next(iter(self._meters.items()))
            if now_ms - used_at_ms < IDLE_MS_MAX:
                return
            del self._meters[key]


class ClientQuotas:
    """The quotas of one broker: each broker measures what it does itself."""

    def __init__(self, windows: Windows = KAFKAS_WINDOWS, mutation_windows: Windows = KAFKAS_WINDOWS) -> None:
        """`mutation_windows`: those of changes of topics."""
        self._windows = windows
        # For bytes what Kafka's rate lets pass at once, for changes of topics what its bucket holds.
        self._burst_s: dict[str, float] = {
            PRODUCER_BYTE_RATE: windows.burst_s,
            CONSUMER_BYTE_RATE: windows.burst_s,
            CONTROLLER_MUTATION_RATE: mutation_windows.measured_s,
        }
        self._in_effect = QuotasInEffect({})
        self._buckets: dict[str, Meters[Client, TokenBucket]] = {key: Meters() for key in self._burst_s}
        self._work: Meters[Client, Rate] = Meters()
        self._addresses: Meters[str, Rate] = Meters()
        self.has_any = False
        """Whether any client may have a quota. False: nothing needs to be measured."""

        self.measures_time = False
        """Whether any client has a quota of processor time."""

        self.limits_addresses = False
        self.exceeded = Counter(dict.fromkeys((*self._burst_s, REQUEST_PERCENTAGE, CONNECTION_CREATION_RATE), 0))
        """How often a client had used more than its quota, by the quota's name."""
        self.exceeded_ms = Counter[str]()
        """The waits that followed from it. Those of one client may overlap."""

    @property
    def in_effect(self) -> QuotasInEffect:
        return self._in_effect

    def reconfigure(self, entries: Mapping[QuotaSubject, Mapping[str, float]]) -> None:
        """Go on with these quotas. What was used counts on where there is still a quota."""
        self._in_effect = QuotasInEffect(entries)
        keys = self._in_effect.keys
        self.has_any = bool(keys)
        self.measures_time = REQUEST_PERCENTAGE in keys
        self.limits_addresses = self._in_effect.has_addresses
        for key in self._buckets.keys() - keys:
            self._buckets[key] = Meters()
        if not self.measures_time:
            self._work = Meters()
        if not self.limits_addresses:
            self._addresses = Meters()

    # --- records and processor time ---------------------------------------------------------------------------------

    def produced(self, client: Client, size_bytes: int, now_ms: int) -> int:
        """Count the bytes of a Produce request."""
        return self._counted(PRODUCER_BYTE_RATE, self._take(PRODUCER_BYTE_RATE, client, size_bytes, now_ms))

    def fetched(self, client: Client, size_bytes: int, now_ms: int) -> int:
        """Count the bytes of a response with records."""
        return self._counted(CONSUMER_BYTE_RATE, self._take(CONSUMER_BYTE_RATE, client, size_bytes, now_ms))

    def fetch_wait_ms(self, client: Client, now_ms: int) -> int:
        """Return the wait before the client may fetch records."""
        return self._take(CONSUMER_BYTE_RATE, client, 0, now_ms)

    def fetch_bytes_max(self, client: Client) -> int | None:
        """Return how much of records one response should have at most: the quota of a second. None: any number.

        So no wait is much longer than that, unless a batch alone is larger.
        """
        quota = self._in_effect.of(CONSUMER_BYTE_RATE, client)
        return None if quota is None else max(1, int(quota.limit))

    def worked(self, client: Client, cpu_ns: int, now_ms: int) -> int:
        """Count processor time that a request has taken."""
        quota = self._in_effect.of(REQUEST_PERCENTAGE, client)
        if quota is None:
            return 0
        rate = self._work.get(quota.counted, now_ms)
        if rate is None:
            rate = Rate(self._windows)
            self._work.put(quota.counted, rate, now_ms)
        rate.count(cpu_ns * _PERCENT_PER_NS, now_ms)
        # The time that one request takes is not known before: no wait is longer than a window, as in Kafka.
        return self._counted(REQUEST_PERCENTAGE, min(rate.throttle_ms(quota.limit, now_ms), self._windows.size_ms))

    # --- changes of topics ------------------------------------------------------------------------------------------

    def mutation_wait_ms(self, client: Client, now_ms: int) -> int:
        """Return the wait before the client may create or delete partitions."""
        return self._take(CONTROLLER_MUTATION_RATE, client, 0, now_ms)

    def mutated(self, client: Client, partitions: int, now_ms: int) -> int:
        """Count partitions that are created or deleted. A negative number was counted, and is not done after all."""
        return self._counted(CONTROLLER_MUTATION_RATE, self._take(CONTROLLER_MUTATION_RATE, client, partitions, now_ms))

    def _counted(self, key: str, wait_ms: int) -> int:
        if wait_ms:
            self.exceeded[key] += 1
            self.exceeded_ms[key] += wait_ms
        return wait_ms

    def _take(self, key: str, client: Client, count: int, now_ms: int) -> int:
        quota = self._in_effect.of(key, client)
        if quota is None:
            return 0
        buckets = self._buckets[key]
        bucket = buckets.get(quota.counted, now_ms)
        if bucket is None:
            bucket = TokenBucket(quota.limit, self._burst_s[key], now_ms)
            buckets.put(quota.counted, bucket, now_ms)
        bucket.take(count, quota.limit, now_ms)
        return bucket.throttle_ms(quota.limit, now_ms)

    # --- connections ------------------------------------------------------------------------------------------------

    def connected(self, address: str, now_ms: int) -> int:
        """Count a connection. With a wait above 0 it is not counted, and has to be closed, as in Kafka."""
        quota = self._in_effect.of_address(address)
        if quota is None:
            return 0
        rate = self._addresses.get(address, now_ms)
        if rate is None:
            rate = Rate(self._windows)
            self._addresses.put(address, rate, now_ms)
        rate.count(1, now_ms)
        limit, _ = quota
        wait_ms = rate.throttle_ms(limit, now_ms)
        if wait_ms:
            rate.count(-1, now_ms)
        return self._counted(CONNECTION_CREATION_RATE, min(wait_ms, self._windows.size_ms))
