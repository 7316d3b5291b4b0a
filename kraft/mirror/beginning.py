"""What is found out before a pair begins: the two clusters, the guarantee, and other mirrors between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final, TypeAlias

import structlog
from msgspec import Struct
from msgspec.structs import replace

from kraft.client.aio import Admin
from kraft.metadata.topic_names import INTERNAL_TOPICS
from kraft.mirror import clients
from kraft.mirror.config import ClusterConfig, PairConfig
from kraft.mirror.naming import is_positions_topic, positions_topic
from kraft.mirror.positions import COMPACT, IDENTITY_KEY, MirrorIdentity, Positions, ensure_topic, value_of
from kraft.mirror.repeats import CannotMirror, filled_topics, refuse_repeats
from kraft.mirror.topics import PairTopics
from kraft.mirror.translation import PartitionState
from kraft.model.errors import ErrorCode, InvalidBatch, KraftError, Refusal
from kraft.model.ids import TopicPartition
from kraft.wire.schema.metadata import MetadataResponse, MetadataResponseTopic

TRANSACTION_FEATURE: Final = "transaction.version"
TRANSACTION_LEVEL: Final = 2

log = structlog.get_logger()

Topics: TypeAlias = Mapping[str, MetadataResponseTopic]


class Beginning(Struct, frozen=True, kw_only=True):
    """What a pair knows when it begins."""

    positions: str
    """The positions topic; the workers' group has the same name."""

    positions_id: str
    """Topic id of the positions topic."""

    shards: int
    is_exactly_once: bool
    identity: MirrorIdentity
    known: Mapping[TopicPartition, PartitionState]
    """Where other mirrors between the same clusters have ended."""

    addresses: Mapping[str, str]
    """Aliases of the clusters by the addresses of their brokers."""

    async def has_positions(self, target: Admin) -> bool:
        """Return whether the positions topic is still the one with which the pair began."""
        return self.are_positions_in(await target.find_topics([self.positions]))

    def are_positions_in(self, topics: Topics) -> bool:
        """Return whether topics of the target, as they were found, have the positions topic of the beginning."""
        found = topics.get(self.positions)
        return found is not None and str(found.topic_id) == self.positions_id


async def begin(mirror: str, pair: PairConfig, source: Admin, target: Admin, topics: PairTopics) -> Beginning:
    """Find out and create what the pair needs. Raises CannotMirror."""
    of_source, of_target = await source.describe_cluster(topics=[]), await target.describe_cluster(topics=[])
    source_id, target_id = of_source.cluster_id or "", of_target.cluster_id or ""
    if source_id == target_id and not pair.naming.prefixed:
        raise CannotMirror(
            f"{pair.name}: both aliases are cluster {source_id}, whose topics would be copied into themselves: "
            "correct bootstrap.servers, or use replication.policy.class=DefaultReplicationPolicy"
        )
    identity = MirrorIdentity(
        source=source_id,
        target=target_id,
        prefixed=pair.naming.prefixed,
        separator=pair.naming.separator,
        alias=pair.source.alias,
        topics=tuple(each.pattern for each in pair.topics.taken),
        topics_left_out=tuple(each.pattern for each in pair.topics.left_out),
    )
    positions = positions_topic(mirror, pair.source.alias, pair.target.alias)
    here, there = await source.find_topics(), await target.find_topics()
    own = await _own(pair, positions, there)
    _compare(pair, own, identity)
    known = await _same_direction(pair, target, own, identity, (here, there))
    if not pair.naming.prefixed:
        _take_further(known, await _way_back(pair, source, identity, here))
    exactly_once = await exactly_once_at(pair, target)
    if own.identity is None:

        async def are_there() -> bool:
            return (await _own(pair, positions, await target.find_topics())).identity is not None

        filled = await filled_topics(await topics.look(), target, known)
        await refuse_repeats(pair, positions, target, filled, are_there)
    topic = await ensure_topic(target, positions, pair)
    await _check_cleanup(pair, positions, target)
    identity = replace(identity, shards=_shards(pair, positions, own.identity, len(topic.partitions)))
    await _name(pair, positions, identity)
    if pair.syncs_groups and not identity.prefixed:
        await _tell_merged_groups(pair, positions, target, identity)
    log.info("pair begins", pair=pair.name, guarantee=guarantee_words(exactly_once), positions=positions)
    return Beginning(
        positions=positions,
        positions_id=str(topic.topic_id),
        shards=identity.shards,
        is_exactly_once=exactly_once,
        identity=identity,
        known=known,
        addresses={**_addresses(of_target, pair.target.alias), **_addresses(of_source, pair.source.alias)},
    )


def _addresses(cluster: MetadataResponse, alias: str) -> dict[str, str]:
    return {f"{each.host}:{each.port}": alias for each in cluster.brokers}


async def _tell_merged_groups(pair: PairConfig, own: str, target: Admin, identity: MirrorIdentity) -> None:
    """Log that another source fills topics of the same names, whose records a group that is carried over may miss."""
    there = await target.find_topics()
    for positions in filter(is_positions_topic, there):
        try:
            other = None if positions == own else (await _own(pair, positions, there)).identity
        except KraftError as error:
            # That of another mirror must not keep this one from beginning.
            log.warning("positions topic of another mirror not read", topic=positions, reason=str(error))
            continue
        if other is not None and other.fills_with(identity, pair.topics):
            log.warning(
                "a group that goes on here may miss records of another source: set sync.group.offsets.enabled=false",
                pair=pair.name,
                other=positions,
                source=other.source,
            )


def _shards(pair: PairConfig, positions: str, former: MirrorIdentity | None, partitions: int) -> int:
    """Return the number of parts, which stays what it was at the first start: positions are found by it."""
    shards = partitions if former is None else former.shards or partitions
    if partitions > shards:
        log.warning(
            "partitions were added to the positions topic, and are not used: positions stay where they are",
            pair=pair.name,
            positions=positions,
            partitions=partitions,
            used=shards,
        )
    if shards != pair.shards:
        log.warning(
            "tasks.max stays as it was", pair=pair.name, tasks=shards, reason=f"{positions} has positions for as many"
        )
    return shards


def guarantee_words(exactly_once: bool) -> str:
    return "exactly once" if exactly_once else "at least once"


async def exactly_once_at(pair: PairConfig, target: Admin) -> bool:
    """Return whether records and positions are written in transactions. Raises CannotMirror if asked in vain."""
    if pair.exactly_once is False:
        return False
    levels = {each.feature: each.finalized_level for each in (await target.describe_features()).features}
    if levels.get(TRANSACTION_FEATURE, 0) >= TRANSACTION_LEVEL:
        return True
    if pair.exactly_once:
        raise CannotMirror(
            f"{pair.name}: exactly.once.source.support=enabled needs {TRANSACTION_FEATURE} {TRANSACTION_LEVEL} at "
            f"{pair.target.alias}: upgrade the feature there, or set it to disabled for at least once"
        )
    return False


async def _has_workers(admin: Admin, group_id: str) -> bool:
    """Return whether the group has members, also after those that are gone without a word have left it."""
    until_s = asyncio.get_running_loop().time() + clients.SESSION_MS / 1_000 + 2
    while True:
        (group,) = (await admin.describe_many_groups([group_id])).values()
        if isinstance(group, Refusal) and group.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
            return False
        if isinstance(group, KraftError):
            raise group
        if not group.members:
            return False
        if asyncio.get_running_loop().time() > until_s:
            return True
        await asyncio.sleep(0.5)


async def _name(pair: PairConfig, positions: str, identity: MirrorIdentity) -> None:
    """Write between which clusters the positions are, before anything is copied."""
    async with clients.target_producer(pair, None) as producer:
        await producer.send_and_wait(positions, value_of(identity), key=IDENTITY_KEY, partition=0)


async def _own(pair: PairConfig, positions: str, there: Topics) -> Positions:
    """Return what earlier starts of this mirror wrote: nothing before the first, and if the positions are gone."""
    async with clients.consumer_of(pair.target) as reader:
        own = Positions(reader, positions)
        if positions in there:
            await own.read(range(len(there[positions].partitions)))
    return own


def _compare(pair: PairConfig, own: Positions, identity: MirrorIdentity) -> None:
    """Compare with the last start. Raises CannotMirror if the source, or names at the target, were others."""
    former = own.identity
    if former is None:
        return
    if not former.has_same_names(identity):
        raise CannotMirror(
            f"{pair.name}: in {own.topic}, {former.names_said(pair.source.alias)} at {pair.target.alias}, and by this "
            f"file {identity.names_said(pair.source.alias)}: set replication.policy.class and .separator as they were, "
            "or give this mirror another name, as name=NAME: then it copies all topics into the other names"
        )
    if former.source != identity.source:
        raise CannotMirror(
            f"{pair.name}: {own.topic} at {pair.target.alias} has the positions of another source, cluster "
            f"{former.source}, and {pair.source.alias} is cluster {identity.source}: give this mirror another name, as "
            "name=..., or its source another alias"
        )


async def _check_cleanup(pair: PairConfig, positions: str, target: Admin) -> None:
    """Raise CannotMirror if positions would be deleted by their age: a topic may have been created by hand."""
    try:
        configs = (await target.describe_configs_of_topics([positions])).get(positions, [])
    except Refusal as refusal:
        log.info(
            "cleanup.policy of the positions topic not read", pair=pair.name, positions=positions, reason=str(refusal)
        )
        return
    policy = next((each.value for each in configs if each.name == "cleanup.policy"), COMPACT)
    if policy != COMPACT:
        raise CannotMirror(
            f"{pair.name}: {positions} at {pair.target.alias} has cleanup.policy={policy}, by which positions of "
            "partitions at rest are deleted, and their records copied again: set cleanup.policy=compact on it, with "
            f"kraft configs alter {positions} --add-config cleanup.policy=compact"
        )


def _take_further(found: dict[TopicPartition, PartitionState], more: Mapping[TopicPartition, PartitionState]) -> None:
    """Add these states; of two for one partition, the one that is further on is kept."""
    for partition, state in more.items():
        if state.is_further(found.get(partition)):
            found[partition] = state


async def _same_direction(
    pair: PairConfig, target: Admin, own: Positions, identity: MirrorIdentity, topics: tuple[Topics, Topics]
) -> dict[TopicPartition, PartitionState]:
    """Return where a mirror with another name, or of another alias, is further on in the very topics of this pair.

    `topics` are those of the source and of the target. Raises CannotMirror while that mirror runs.
    """
    found: dict[TopicPartition, PartitionState] = {}
    here, there = topics
    async for positions in _others(pair.target, there, (identity.source, identity.target), own=own.topic):
        shared = {partition: state for partition, state in positions.states.items() if _is_of(state, pair, here, there)}
        if shared:
            await _refuse_while_at_work(pair, target, positions.topic)
        further = {each: state for each, state in shared.items() if state.is_further(own.states.get(each))}
        if further:
            log.info(
                "another mirror between these clusters is continued",
                pair=pair.name,
                positions=positions.topic,
                partitions=len(further),
            )
        _take_further(found, further)
    return found


def _is_of(state: PartitionState, pair: PairConfig, here: Topics, there: Topics) -> bool:
    """Return whether the state is one of a topic of this pair, into the topic at the target that is this pair's."""
    source, target = here.get(state.topic), there.get(pair.naming.at_target(state.topic))
    if source is None or target is None or not pair.topics.has(state.topic):
        return False
    return (str(source.topic_id), str(target.topic_id)) == (state.topic_id, state.target_id)


async def _way_back(
    pair: PairConfig, source: Admin, identity: MirrorIdentity, topics: Topics
) -> dict[TopicPartition, PartitionState]:
    """Return where a mirror in the other direction has ended, turned around. Raises CannotMirror while it runs."""
    found: dict[TopicPartition, PartitionState] = {}
    async for positions in _opposite(pair, source, identity, topics):
        for partition, state in positions.states.items():
            topic_id = str(topics[partition.topic].topic_id) if partition.topic in topics else ""
            if topic_id and state.target_id in ("", topic_id):
                _take_further(found, {partition: state.turned(partition.topic, topic_id)})
    if found:
        log.info("the way back continues where the mirror ended", pair=pair.name, partitions=len(found))
    return found


async def refuse_other_mirrors(pair: PairConfig, source: Admin, target: Admin, beginning: Beginning) -> None:
    """Raise CannotMirror if another mirror of the same topics runs, in the same or in the other direction.

    A worker asks once it is a member of its group: of two mirrors that begin together, one sees the other, or both do.
    """
    identity, here = beginning.identity, await source.find_topics()
    if not identity.prefixed:
        async for _ in _opposite(pair, source, identity, here):
            pass
    names = [each for each in here if pair.topics.has(each) and each not in INTERNAL_TOPICS]
    between = identity.source, identity.target
    async for positions in _others(pair.target, await target.find_topics(), between, own=beginning.positions):
        if positions.identity is not None and positions.identity.shares(identity, names):
            await _refuse_while_at_work(pair, target, positions.topic)


async def _refuse_while_at_work(pair: PairConfig, target: Admin, positions: str) -> None:
    if await _has_workers(target, positions):
        raise CannotMirror(
            f"{pair.name}: another mirror copies the same topics ({positions} at {pair.target.alias} has members), "
            "and each record would be there twice: stop it before, or choose other topics"
        )


async def _opposite(
    pair: PairConfig, source: Admin, identity: MirrorIdentity, topics: Topics
) -> AsyncIterator[Positions]:
    """Yield the positions of mirrors in the other direction. Raises CannotMirror if one of them runs."""
    async for positions in _others(pair.source, topics, (identity.target, identity.source)):
        other = positions.identity
        if other is None or other.prefixed:
            continue
        is_apart = other.chosen is not None and other.chosen.is_apart(pair.topics)
        if not is_apart and await _has_workers(source, positions.topic):
            raise CannotMirror(
                f"{pair.name}: a mirror in the other direction runs ({positions.topic} at {pair.source.alias} has "
                "members), and records would go around for ever: stop it before, or choose topics that have no name "
                "in common"
            )
        yield positions


async def _others(
    cluster: ClusterConfig, topics: Topics, between: tuple[str, str], *, own: str = ""
) -> AsyncIterator[Positions]:
    """Yield the positions that the cluster keeps of mirrors between these two: ids of the source and of the target.

    With `own`, the pair's own positions are left out, and of others that cannot be read only a warning tells.
    """
    async with clients.consumer_of(cluster) as reader:
        for name in (each for each in topics if is_positions_topic(each) and each != own):
            positions = Positions(reader, name)
            try:
                await positions.read([0])
                other = positions.identity
                if other is None or (other.source, other.target) != between:
                    continue
                await positions.read(range(len(topics[name].partitions)))
            except InvalidBatch:
                # Somebody's topic that is called as those of mirrors.
                continue
            except KraftError as error:
                if not own:
                    raise
                log.warning("positions topic of another mirror not read", topic=name, reason=str(error))
                continue
            yield positions
