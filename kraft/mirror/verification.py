"""Compares both ends of a mirror, up to what is mirrored: every record of the source has to be at the target once.

A record is compared by a checksum of its timestamp, key, value and headers, in memory: 8 bytes a record and side, one
partition after the other. Records that only one end has deleted, by retention, are told apart by where they are: before
the first record that both have. An end has deleted some if its log starts after the first mirrored record.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import AsyncIterator
from hashlib import blake2b

import msgspec
from msgspec import Struct

from kraft.client.aio import Consumer
from kraft.log.format.record_codec import RecordColumns
from kraft.mirror import clients
from kraft.mirror.config import MirrorConfig, PairConfig
from kraft.mirror.status import aliases_of, view_of
from kraft.mirror.translation import PartitionState, Run
from kraft.model.ids import TopicPartition


class PartitionVerdict(Struct, frozen=True, kw_only=True):
    """The comparison of one partition, in records."""

    pair: str
    source: str
    target: str
    compared: int
    missing: int
    """At the source, and not at the target."""

    twice: int
    """More often at the target than at the source, or only there."""

    in_order: bool
    checksum: str
    """Of all compared records at the source, in their order."""

    @property
    def is_same(self) -> bool:
        return not self.missing and not self.twice and self.in_order


async def verdicts(config: MirrorConfig) -> AsyncIterator[PartitionVerdict]:
    """Yield the verdict of each partition that has a position. Raises KraftError if a cluster does not answer."""
    aliases = aliases_of(config)
    for pair in config.pairs:
        async with clients.admin_of(pair.source) as source, clients.admin_of(pair.target) as target:
            view = await view_of(config.name, pair, aliases, source, target)
        async with clients.consumer_of(pair.source) as here, clients.consumer_of(pair.target) as there:
            for partition, state in sorted(view.states.items()):
                topic = view.topics.get(partition.topic)
                if topic is not None and state.topic_id == topic.topic_id:
                    yield await _compared(pair, here, there, state, TopicPartition(topic.target, partition.partition))


async def _compared(
    pair: PairConfig, here: Consumer, there: Consumer, state: PartitionState, target: TopicPartition
) -> PartitionVerdict:
    source = TopicPartition(state.topic, state.partition)
    began = state.runs[0] if state.runs else Run(0, 0, 0)
    start_here = (await here.beginning_offsets([source]))[source]
    start_there = (await there.beginning_offsets([target]))[target]
    mine = await _checksums(here, source, start_here, state.next_offset)
    # What the target had before is no record of the source.
    theirs = await _checksums(there, target, max(start_there, began.target), state.target_end)
    if start_there > began.target:
        mine = without_beginning(mine, theirs)
    if start_here > began.source:
        theirs = without_beginning(theirs, mine)
    missing, twice = Counter(mine), Counter(theirs)
    missing.subtract(theirs)
    twice.subtract(mine)
    return PartitionVerdict(
        pair=pair.name,
        source=str(source),
        target=str(target),
        compared=len(mine),
        missing=sum((+missing).values()),
        twice=sum((+twice).values()),
        in_order=mine == theirs or len(mine) != len(theirs),
        checksum=blake2b(mine.tobytes(), digest_size=8).hexdigest(),
    )


def without_beginning(longer: array[int], shorter: array[int]) -> array[int]:
    """Return the first one without what it has before the beginning of the other, which has deleted it."""
    before = len(longer) - len(shorter)
    return longer[before:] if before > 0 and shorter and longer[before] == shorter[0] else longer


async def _checksums(consumer: Consumer, partition: TopicPartition, start: int, end: int) -> array[int]:
    found = array("Q")
    if start >= end:
        return found
    async for part in consumer.read_columns(partition, start, end):
        found.extend(checksums(part.columns))
    return found


def checksums(columns: RecordColumns) -> list[int]:
    """Return a checksum of each record, of all but its offset."""
    encode = msgspec.msgpack.encode
    return [
        int.from_bytes(blake2b(encode(each), digest_size=8).digest())
        for each in zip(columns.timestamps_ms, columns.keys, columns.values, columns.headers, strict=True)
    ]
