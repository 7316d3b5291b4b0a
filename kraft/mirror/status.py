"""How far a mirror is, as both clusters say it; no worker is asked."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from msgspec import Struct

from kraft.client.aio import Admin
from kraft.mirror import clients
from kraft.mirror.beginning import exactly_once_at, guarantee_words
from kraft.mirror.config import MirrorConfig, PairConfig
from kraft.mirror.metrics import age_s, worst_s
from kraft.mirror.naming import positions_topic
from kraft.mirror.positions import Positions
from kraft.mirror.topics import Mirrored, PairTopics, chosen_topics, states_of
from kraft.mirror.translation import PartitionState
from kraft.model.errors import KraftError
from kraft.model.ids import TopicPartition
from kraft.model.list_offsets import LATEST_TIMESTAMP

PAIRS_AT_ONCE: Final = 8
"""Pairs whose clusters are asked at the same time."""


class TopicStatus(Struct, frozen=True, kw_only=True):
    """One mirrored topic."""

    topic: str
    target: str
    partitions: int
    records: int
    lag: int
    lag_s: float | None
    """None while a partition with lag has no mirrored record."""

    skipped: int


class PairStatus(Struct, frozen=True, kw_only=True):
    """One pair. `workers` are the members of its group at the target."""

    pair: str
    guarantee: str
    positions: str
    has_positions: bool
    """False before the first start, and if the positions topic was deleted."""

    workers: int
    topics: list[TopicStatus]
    waiting: list[str]
    """Topics that are chosen, and not at the target yet."""

    refused: dict[str, str]
    """Topics at the target whose creation, partitions or configs are refused, and why."""

    stopped: list[str]
    """Partitions that are not mirrored, because the source ends before what was mirrored."""


class UnknownStatus(Struct, frozen=True, kw_only=True):
    """A pair whose status is not known, and why."""

    pair: str
    problem: str


class PairView(Struct, frozen=True, kw_only=True):
    """What both clusters know of a pair."""

    topics: dict[str, Mirrored]
    states: dict[TopicPartition, PartitionState]
    """Without those of topics that were created again at the target."""

    has_positions: bool


async def statuses(config: MirrorConfig) -> list[PairStatus | UnknownStatus]:
    """Return the status of each pair. Those whose clusters do not answer, or refuse, keep no other from its status."""
    aliases, free = aliases_of(config), asyncio.Semaphore(PAIRS_AT_ONCE)

    async def status(pair: PairConfig) -> PairStatus | UnknownStatus:
        async with free:
            try:
                return await _status(config.name, pair, aliases)
            except KraftError as error:
                addresses = clients.addresses_of(pair)
                return UnknownStatus(pair=pair.name, problem=clients.with_alias(error, addresses))

    return await asyncio.gather(*map(status, config.pairs))


def aliases_of(config: MirrorConfig) -> frozenset[str]:
    return frozenset(each.alias for pair in config.pairs for each in (pair.source, pair.target))


async def view_of(mirror: str, pair: PairConfig, aliases: frozenset[str], source: Admin, target: Admin) -> PairView:
    """Return topics and positions; without a positions topic there are none."""
    positions = positions_topic(mirror, pair.source.alias, pair.target.alias)
    topics = await PairTopics(pair, source, target, aliases).look()
    found = await target.find_topics()
    if positions not in found:
        return PairView(topics=topics, states={}, has_positions=False)
    async with clients.consumer_of(pair.target) as reader:
        read = Positions(reader, positions)
        await read.read(range(len(found[positions].partitions)))
    return PairView(topics=topics, states=states_of(read.states, topics), has_positions=True)


async def _status(mirror: str, pair: PairConfig, aliases: frozenset[str]) -> PairStatus:
    async with clients.command_admin_of(pair.source) as source, clients.command_admin_of(pair.target) as target:
        view = await view_of(mirror, pair, aliases, source, target)
        positions = positions_topic(mirror, pair.source.alias, pair.target.alias)
        (group,) = (await target.describe_many_groups([positions])).values()
        places = [
            TopicPartition(each.topic, number)
            for each in view.topics.values()
            for number in range(each.source_partitions)
        ]
        found = await source.list_offsets(dict.fromkeys(places, LATEST_TIMESTAMP))
        ends = {each: end.offset for each, end in found.items() if not isinstance(end, KraftError)}
        chosen = chosen_topics(pair, await source.list_topics(), aliases)
        refused = await PairTopics(pair, source, target, aliases).refusals()
        return PairStatus(
            pair=pair.name,
            guarantee=guarantee_words(await exactly_once_at(pair, target)),
            positions=positions,
            has_positions=view.has_positions,
            workers=0 if isinstance(group, KraftError) else len(group.members),
            topics=[_topic(each, view, ends) for each in view.topics.values()],
            waiting=sorted(chosen.keys() - view.topics.keys()),
            refused=refused,
            stopped=[str(each) for each in places if each in ends and ends[each] < _state(each, view).next_offset],
        )


def _state(partition: TopicPartition, view: PairView) -> PartitionState:
    """Return the position; that of a topic which was created again since is none."""
    return view.states.get(partition, PartitionState(topic=partition.topic, partition=partition.partition))


def _topic(topic: Mirrored, view: PairView, ends: dict[TopicPartition, int]) -> TopicStatus:
    now_ms = time.time_ns() // 1_000_000
    records = lag = skipped = 0
    ages_s: list[float | None] = []
    for number in range(topic.source_partitions):
        partition = TopicPartition(topic.topic, number)
        state = _state(partition, view)
        its_lag = max(0, ends.get(partition, state.next_offset) - state.next_offset)
        records, lag, skipped = records + state.records, lag + its_lag, skipped + state.skipped
        ages_s.append(age_s(state, its_lag, now_ms))
    behind_s = worst_s(ages_s)
    return TopicStatus(
        topic=topic.topic,
        target=topic.target,
        partitions=topic.partitions,
        records=records,
        lag=lag,
        lag_s=None if behind_s is None else round(behind_s, 1),
        skipped=skipped,
    )
