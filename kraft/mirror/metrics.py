"""Metrics of one worker, at /metrics of metrics.address."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from kraft.mirror.config import PairConfig
from kraft.mirror.copying import Counts
from kraft.mirror.translation import PartitionState
from kraft.model.errors import KraftError
from kraft.model.ids import TopicPartition
from kraft.server.config.values import Listener
from kraft.server.http.listener import HttpListener
from kraft.server.http.messages import Request, Response
from kraft.server.metrics.metric import Metric, counter, gauge
from kraft.server.metrics.rendering import format_of, render
from kraft.server.metrics.snapshot import Snapshot, Values

RECORDS: Final = counter("kraft_mirror_records", "Records copied by this worker.", "pair")
BYTES: Final = counter("kraft_mirror_bytes", "Bytes of batches copied by this worker, as they are stored.", "pair")
ROUNDS: Final = counter("kraft_mirror_commits", "Commits of records with their positions.", "pair")
RECODED: Final = counter(
    "kraft_mirror_recoded_batches",
    "Batches that could not be copied as they are stored, and were encoded again.",
    "pair",
)
RESTARTS: Final = counter("kraft_mirror_restarts", "Times that a shard began again after an error.", "pair")
SHARDS: Final = gauge("kraft_mirror_shards", "Shards that this worker copies.", "pair")
LAG: Final = gauge(
    "kraft_mirror_lag_records",
    "Offsets of the source that are not mirrored yet, of this worker's shards.",
    "pair",
    "topic",
)
LAG_S: Final = gauge(
    "kraft_mirror_lag_seconds",
    "Age of the last mirrored record of the partition that is furthest behind; 0 without lag. Absent while a partition "
    "with lag has no mirrored record.",
    "pair",
    "topic",
)
SKIPPED: Final = gauge(
    "kraft_mirror_skipped_offsets", "Offsets that the source deleted before they were mirrored.", "pair", "topic"
)
EVERY: Final[tuple[Metric, ...]] = (RECORDS, BYTES, ROUNDS, RECODED, RESTARTS, SHARDS, LAG, LAG_S, SKIPPED)


class InvalidAddress(KraftError):
    """metrics.address is no address, or cannot be bound."""


class MeasuredPair(Protocol):
    """The part of a pair that metrics show."""

    pair: PairConfig
    counts: Counts

    @property
    def shards(self) -> list[int]: ...
    @property
    def states(self) -> dict[TopicPartition, PartitionState]: ...
    @property
    def lags(self) -> dict[TopicPartition, int]: ...


def values_of(pairs: Iterable[MeasuredPair], now_ms: int) -> Values:
    snapshot = Snapshot()
    for each in pairs:
        name, counts = each.pair.name, each.counts
        snapshot.add(RECORDS, counts.records, name)
        snapshot.add(BYTES, counts.bytes, name)
        snapshot.add(ROUNDS, counts.rounds, name)
        snapshot.add(RECODED, counts.recoded_batches, name)
        snapshot.add(RESTARTS, counts.restarts, name)
        snapshot.add(SHARDS, len(each.shards), name)
        lags, ages_s, skipped = _by_topic(each, now_ms)
        for topic in sorted(skipped):
            snapshot.add(LAG, lags.get(topic, 0), name, topic)
            if (of_topic_s := worst_s(ages_s[topic])) is not None:
                snapshot.add(LAG_S, of_topic_s, name, topic)
            snapshot.add(SKIPPED, skipped[topic], name, topic)
    return snapshot.values


def age_s(state: PartitionState, lag: int, now_ms: int) -> float | None:
    """Return how old the last mirrored record is, if there are later ones; None if there is none yet."""
    if not lag:
        return 0.0
    return max(0, now_ms - state.timestamp_ms) / 1_000 if state.timestamp_ms else None


def worst_s(ages_s: Sequence[float | None]) -> float | None:
    """Return the age of the partition that is furthest behind; None if that of one is not known."""
    known = [each for each in ages_s if each is not None]
    return max(known, default=0.0) if len(known) == len(ages_s) else None


def _by_topic(pair: MeasuredPair, now_ms: int) -> tuple[dict[str, int], dict[str, list[float | None]], dict[str, int]]:
    lags: dict[str, int] = {}
    ages_s: dict[str, list[float | None]] = {}
    skipped: dict[str, int] = {}
    of_partitions = pair.lags
    for partition, state in pair.states.items():
        lag, topic = of_partitions.get(partition, 0), partition.topic
        lags[topic] = lags.get(topic, 0) + lag
        ages_s.setdefault(topic, []).append(age_s(state, lag, now_ms))
        skipped[topic] = skipped.get(topic, 0) + state.skipped
    return lags, ages_s, skipped


def metrics_listener(address: str, pairs: Sequence[MeasuredPair]) -> HttpListener | None:
    """Return the listener of /metrics; None without an address. Raises InvalidAddress."""
    if not address:
        return None
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise InvalidAddress(f"metrics.address={address} is not HOST:PORT")

    loop = asyncio.get_running_loop()

    async def collected() -> Values:
        return values_of(pairs, time.time_ns() // 1_000_000)

    async def scraped(request: Request) -> Response:
        # The listener has a thread of its own, and the values belong to the worker's loop.
        values = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(collected(), loop))
        form = format_of(request.accept)
        return Response(body=b"", more=await render(values, form), content_type=form.content_type)

    return HttpListener(Listener("METRICS", host.strip("[]"), int(port)), {"/metrics": scraped})
