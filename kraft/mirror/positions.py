"""The positions topic of a pair: a compacted topic at the target, with a partition for each shard.

A record is the state of one partition of the source (`PartitionState`, as JSON), written in the transaction of the
records that it covers. The key `mirror` says between which clusters it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

import msgspec
from msgspec import Struct

from kraft.client.aio import Admin, Consumer
from kraft.client.model.values import NewTopic
from kraft.mirror.config import PairConfig
from kraft.mirror.patterns import Chosen, compiled
from kraft.mirror.translation import PartitionState
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.model.ids import TopicPartition
from kraft.wire.schema.metadata import MetadataResponseTopic

IDENTITY_KEY: Final = b"mirror"
_KNOWN_S_MAX: Final = 30.0
"""Longest time until the brokers know a new topic."""

COMPACT: Final = "compact"
"""The cleanup.policy of the positions topic."""

_CONFIGS: Final = {"cleanup.policy": COMPACT, "segment.bytes": "16777216", "min.cleanable.dirty.ratio": "0.5"}


class MirrorIdentity(Struct, frozen=True, kw_only=True):
    """Between which clusters the positions are, by cluster id, whether names stay as they are, and which are chosen."""

    source: str
    target: str
    prefixed: bool
    separator: str | None = None
    """Between the alias and a name; None if an older mirror did not write it."""

    topics: tuple[str, ...] | None = None
    """Patterns of the topics; None if an older mirror did not write them."""

    topics_left_out: tuple[str, ...] = ()

    alias: str | None = None
    """Of the source; None if an older mirror did not write it."""

    shards: int = 0
    """Parts among which partitions are divided since the first start; 0: an older mirror, with as many as the positions
    topic has partitions."""

    @property
    def chosen(self) -> Chosen | None:
        """The topics that this mirror takes; None where that is not known. Raises InvalidPattern."""
        if self.topics is None:
            return None
        return Chosen(taken=compiled(self.topics), left_out=compiled(self.topics_left_out))

    def fills_with(self, identity: MirrorIdentity, topics: Chosen) -> bool:
        """Return whether this mirror and another, which chooses `topics`, may fill a topic from different sources."""
        is_apart = self.chosen is not None and self.chosen.is_apart(topics)
        is_merged = self.source != identity.source and self.target == identity.target
        return is_merged and not (self.prefixed or identity.prefixed or is_apart)

    def shares(self, other: MirrorIdentity, names: Iterable[str]) -> list[str]:
        """Return those of the other one's topics that this mirror copies to the same topics; they are at the source."""
        is_same_start = not self.prefixed or (self.alias is not None and self.alias == other.alias)
        if self.chosen is None or not is_same_start or not self.has_same_names(other):
            return []
        return sorted(filter(self.chosen.has, names))

    def has_same_names(self, other: MirrorIdentity) -> bool:
        """Return whether topics have the same names at the target as with the other one of the same alias."""
        if self.prefixed != other.prefixed:
            return False
        return not self.prefixed or None in (self.separator, other.separator) or self.separator == other.separator

    def names_said(self, alias: str) -> str:
        """Say how topics are called at the target; `alias` is that of the source."""
        return f"topics begin with '{alias}{self.separator or '.'}'" if self.prefixed else "topics keep their names"


_encode: Final = msgspec.json.encode
_state: Final = msgspec.json.Decoder(PartitionState)
_identity: Final = msgspec.json.Decoder(MirrorIdentity)


def key_of(partition: TopicPartition) -> bytes:
    return str(partition).encode()


def value_of(state: PartitionState | MirrorIdentity) -> bytes:
    return _encode(state)


def shard_of(partition: TopicPartition, shards: int) -> int:
    """Return the shard that mirrors a partition of the source."""
    return crc32(key_of(partition)) % shards


async def ensure_topic(admin: Admin, topic: str, pair: PairConfig) -> MetadataResponseTopic:
    """Create the positions topic if it is missing, and return it. Raises Refusal."""
    found = await admin.find_topics([topic])
    if topic not in found:
        factor = pair.positions_replication_factor
        new = NewTopic(
            topic=topic,
            partitions=pair.shards,
            replication_factor=pair.replication_factor if factor == -1 else factor,
            configs=_CONFIGS,
        )
        try:
            await admin.create_topics([new])
        except Refusal as refusal:
            if refusal.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            # Another worker was first, perhaps with another number.
        found = await _found_soon(admin, topic)
    return found[topic]


async def _found_soon(admin: Admin, topic: str) -> dict[str, MetadataResponseTopic]:
    """Return the new topic, which the broker that answers may not know for a moment."""
    until_s = asyncio.get_running_loop().time() + _KNOWN_S_MAX
    while topic not in (found := await admin.find_topics([topic])):
        if asyncio.get_running_loop().time() > until_s:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} was created, and no broker knows it")
        await asyncio.sleep(0.1)
    return found


class Positions:
    """What the positions topic says, read on from where the last reading ended."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self._consumer = consumer
        self.topic = topic
        self._read: dict[TopicPartition, int] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        """By partition of the source."""
        self.identity: MirrorIdentity | None = None

    async def read(self, shards: Sequence[int]) -> None:
        """Read the committed positions of these shards. Raises InvalidBatch for a record that is none."""
        places = [TopicPartition(self.topic, each) for each in shards]
        firsts = await self._consumer.beginning_offsets(places)
        ends = await self._consumer.end_offsets(places)
        for place in places:
            start = max(firsts[place], self._read.get(place, 0))
            async for part in self._consumer.read_columns(place, start, ends[place]):
                for key, value in zip(part.columns.keys, part.columns.values, strict=True):
                    self._take(place, key, value)
            self._read[place] = ends[place]

    def _take(self, place: TopicPartition, key: bytes | None, value: bytes | None) -> None:
        try:
            if key == IDENTITY_KEY:
                self.identity = _identity.decode(value or b"")
            elif value is not None:
                state = _state.decode(value)
                self.states[TopicPartition(state.topic, state.partition)] = state
        except msgspec.DecodeError as error:
            raise InvalidBatch(
                f"{place} has a record that no mirror wrote: {error}. Nobody else may write there: delete the mirrored "
                "topics at the target, and give the mirror another name, as name=..."
            ) from None
