"""Compares both ends of a mirror, up to what is mirrored: every record of the source has to be at the target once.

A record is compared by a checksum of its timestamp, key, value and headers, in memory: 8 bytes a record and side.
Partitions with few records are read several at once. Records that only one end has deleted, by retention, are told
apart by where they are: before the first record that both have. An end has deleted some if its log starts after the
first mirrored record.

Where a topic is compacted at either end, each end may have taken other records, at its own time. So a record that only
one end has is not compared if a later one of its key is there, or if it is a tombstone whose key the other end has no
longer. A record that the target has more often than the source is twice there, compacted or not.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import Struct, field, structs

from kraft.client.aio import Admin, Consumer
from kraft.log.format.record_codec import RecordColumns
from kraft.mirror import clients
from kraft.mirror.config import MirrorConfig, PairConfig
from kraft.mirror.patterns import plain_list
from kraft.mirror.several import Room, in_order
from kraft.mirror.status import aliases_of, view_of
from kraft.mirror.translation import PartitionState, Run
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.ids import TopicPartition

COMPACT: Final = "compact"
DELETE: Final = "delete"
_NONE: Final[frozenset[str]] = frozenset()

PARTITIONS_AT_ONCE: Final = 8
RECORDS_AT_ONCE_MAX: Final = 1_000_000
"""Of both ends; a partition with more is read alone."""

READS_MAX: Final = 5
"""Attempts to read a partition of which an end deletes records meanwhile."""


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
    """Of all compared records at the source, in their order; of a compacted topic, of all that are there."""

    compacted: int = 0
    """Records that only one end has, because the other has compacted them; not compared."""

    skipped: int = 0
    """Offsets that the source deleted before they were mirrored: no end has them."""

    @property
    def is_same(self) -> bool:
        return not self.missing and not self.twice and self.in_order


class Difference(Struct, frozen=True, kw_only=True):
    """How the target differs from the source, in records; see `PartitionVerdict`."""

    compared: int
    missing: int
    twice: int
    in_order: bool
    compacted: int = 0


class Place(Struct, frozen=True, kw_only=True):
    """A partition of the source, with what is mirrored of it."""

    state: PartitionState
    target: TopicPartition
    policies: frozenset[str]
    """Cleanup policies of both ends."""

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.state.topic, self.state.partition)


class Records(Struct, kw_only=True):
    """One end of a partition: checksums of records, in their order."""

    checksums: array[int] = field(default_factory=lambda: array("Q"))
    keys: array[int] = field(default_factory=lambda: array("Q"))
    """Of their keys, where the topic is compacted."""

    tombstones: set[int] = field(default_factory=set)
    """Rows of records without a value, where the topic is compacted."""


async def verdicts(config: MirrorConfig) -> AsyncIterator[PartitionVerdict]:
    """Yield the verdict of each partition that has a position. Raises KraftError if a cluster does not answer."""
    aliases = aliases_of(config)
    for pair in config.pairs:
        async with clients.command_admin_of(pair.source) as source, clients.command_admin_of(pair.target) as target:
            view = await view_of(config.name, pair, aliases, source, target)
            here_policies = await _policies(source, [each.topic for each in view.topics.values()])
            there_policies = await _policies(target, [each.target for each in view.topics.values()])
        async with clients.consumer_of(pair.source) as here, clients.consumer_of(pair.target) as there:
            places = []
            for partition, state in sorted(view.states.items()):
                topic = view.topics.get(partition.topic)
                if topic is not None and state.next_offset:
                    policies = here_policies.get(topic.topic, _NONE) | there_policies.get(topic.target, _NONE)
                    there_too = TopicPartition(topic.target, partition.partition)
                    places.append(Place(state=state, target=there_too, policies=policies))
            async with aclosing(verdicts_of(pair, here, there, places)) as found:
                async for verdict in found:
                    yield verdict


async def verdicts_of(
    pair: PairConfig, here: Consumer, there: Consumer, places: Iterable[Place]
) -> AsyncGenerator[PartitionVerdict, None]:
    """Yield the verdicts in the order of the places."""
    room = Room(RECORDS_AT_ONCE_MAX)

    async def compared(place: Place) -> PartitionVerdict:
        try:
            return await _compared(pair, here, there, place, room)
        except KraftError as error:
            error.add_note(f"{pair.name}: {place.source} could not be compared with {place.target}")
            raise

    async with aclosing(in_order(map(compared, places), PARTITIONS_AT_ONCE)) as found:
        async for verdict in found:
            yield verdict


async def _policies(admin: Admin, topics: list[str]) -> dict[str, frozenset[str]]:
    """Return the cleanup policies of each topic."""
    found = await admin.describe_configs_of_topics(topics)
    return {
        topic: frozenset(plain_list(each.value or ""))
        for topic, configs in found.items()
        for each in configs
        if each.name == "cleanup.policy"
    }


async def _compared(pair: PairConfig, here: Consumer, there: Consumer, place: Place, room: Room) -> PartitionVerdict:
    for _ in range(READS_MAX - 1):
        try:
            return await _compared_now(pair, here, there, place, room)
        except Refusal as refusal:
            # An end deleted records after its beginning was looked up: while this waited for room, or read.
            if refusal.error_code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
    return await _compared_now(pair, here, there, place, room)


async def _compared_now(
    pair: PairConfig, here: Consumer, there: Consumer, place: Place, room: Room
) -> PartitionVerdict:
    state, source, target = place.state, place.source, place.target
    is_compacted = COMPACT in place.policies
    began = state.runs[0] if state.runs else Run(0, 0, 0)
    start_here = (await here.beginning_offsets([source]))[source]
    start_there = (await there.beginning_offsets([target]))[target]
    # What the target had before is no record of the source.
    offsets = range(start_here, state.next_offset), range(max(start_there, began.target), state.target_end)
    # An end that has deleted all of it leaves nothing to compare.
    if not offsets[0] or (state.runs and not offsets[1]):
        offsets = range(0), range(0)
    async with room.taken(len(offsets[0]) + len(offsets[1])):
        mine = await _read(here, source, offsets[0], is_compacted)
        theirs = await _read(there, target, offsets[1], is_compacted)
    ours, others = mine.checksums, theirs.checksums
    if is_compacted:
        found = compacted_difference(mine, theirs, is_deleted=DELETE in place.policies)
    else:
        if start_there > began.target:
            ours = without_beginning(ours, others)
        if start_here > began.source:
            others = without_beginning(others, ours)
        found = _difference(ours, others)
    return PartitionVerdict(
        pair=pair.name,
        source=str(source),
        target=str(target),
        skipped=state.skipped,
        checksum=blake2b(ours.tobytes(), digest_size=8).hexdigest(),
        **structs.asdict(found),
    )


def _difference(mine: array[int], theirs: array[int]) -> Difference:
    missing, twice = Counter(mine), Counter(theirs)
    missing.subtract(theirs)
    twice.subtract(mine)
    return Difference(
        compared=len(mine),
        missing=sum((+missing).values()),
        twice=sum((+twice).values()),
        in_order=mine == theirs or len(mine) != len(theirs),
    )


def compacted_difference(mine: Records, theirs: Records, *, is_deleted: bool) -> Difference:
    """Return how the target differs where either end may have compacted. `is_deleted`: retention takes records, too."""
    missing, only_here, again_here = _alone(mine, theirs, is_deleted)
    unknown, only_there, again_there = _alone(theirs, mine, is_deleted)
    both = set(mine.checksums) & set(theirs.checksums)
    return Difference(
        compared=len(mine.checksums) - only_here - again_here,
        missing=missing,
        twice=unknown + again_there,
        in_order=_last_places(mine.checksums, both) == _last_places(theirs.checksums, both),
        compacted=only_here + again_here + only_there,
    )


def _alone(side: Records, other: Records, is_deleted: bool) -> tuple[int, int, int]:
    """Count records that the other end does not have: without a reason, compacted or deleted there, and same ones."""
    left = Counter(other.checksums)
    known, other_keys = set(left), set(other.keys)
    last = {key: row for row, key in enumerate(side.keys)}
    first_common = next((row for row, each in enumerate(side.checksums) if each in known), 0)
    missing = compacted = again = 0
    # From the end: of records that are the same, compaction keeps the last one.
    for row in range(len(side.checksums) - 1, -1, -1):
        checksum, key = side.checksums[row], side.keys[row]
        is_superseded = last[key] != row or (row in side.tombstones and key not in other_keys)
        if left[checksum] > 0:
            left[checksum] -= 1
        elif checksum in known:
            again += 1
        elif is_superseded or (is_deleted and row < first_common):
            compacted += 1
        else:
            missing += 1
    return missing, compacted, again


def _last_places(checksums: array[int], both: set[int]) -> list[int]:
    """Return those that both ends have, each once, in the order of their last places."""
    return [each for each in dict.fromkeys(reversed(checksums)) if each in both]


def without_beginning(longer: array[int], shorter: array[int]) -> array[int]:
    """Return the first one without what it has before the beginning of the other, which has deleted it."""
    before = len(longer) - len(shorter)
    return longer[before:] if before > 0 and shorter and longer[before] == shorter[0] else longer


async def _read(consumer: Consumer, partition: TopicPartition, offsets: range, is_compacted: bool) -> Records:
    found = Records()
    if not offsets:
        return found
    async for part in consumer.read_columns(partition, offsets.start, offsets.stop):
        add(found, part.columns, is_compacted)
    return found


def add(records: Records, columns: RecordColumns, is_compacted: bool) -> None:
    """Append these, with what compaction goes by if it matters."""
    if is_compacted:
        first = len(records.checksums)
        records.keys.extend(_checksum(each) for each in columns.keys)
        records.tombstones.update(first + row for row, value in enumerate(columns.values) if value is None)
    records.checksums.extend(checksums(columns))


def checksums(columns: RecordColumns) -> list[int]:
    """Return a checksum of each record, of all but its offset."""
    rows = zip(columns.timestamps_ms, columns.keys, columns.values, columns.headers, strict=True)
    return [_checksum(each) for each in rows]


def _checksum(value: object) -> int:
    return int.from_bytes(blake2b(msgspec.msgpack.encode(value), digest_size=8).digest())
