"""Which topics a pair mirrors, and what is done so that the target has them: topics, partitions, configs, ACLs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from kraft.client.aio import Admin
from kraft.client.model.values import NewTopic
from kraft.metadata.topic_names import INTERNAL_TOPICS
from kraft.mirror.config import PairConfig
from kraft.mirror.naming import is_positions_topic
from kraft.mirror.translation import PartitionState
from kraft.model.access import Operation, PatternType, PermissionType, ResourceType
from kraft.model.errors import Refusal
from kraft.model.ids import TopicPartition
from kraft.wire.schema.metadata import MetadataResponseTopic

log = structlog.get_logger()

_CONFIGS_NOT_KNOWN: Final = "configs not known: allow DescribeConfigs on the topic at the source"
_TRIED_MAX: Final = 500
"""Topics of which a status asks the target whether it takes them: each is a request."""


class Mirrored(Struct, frozen=True, kw_only=True):
    """A topic that is mirrored, as both clusters have it."""

    topic: str
    topic_id: str
    target: str
    target_id: str
    partitions: int
    """Those that both have."""

    source_partitions: int

    def has(self, state: PartitionState) -> bool:
        """Return whether the state is of these very topics: not of one that was deleted and created again since."""
        return state.topic_id == self.topic_id and state.target_id in ("", self.target_id)


def chosen_topics(pair: PairConfig, names: Iterable[str], aliases: frozenset[str]) -> dict[str, str]:
    """Return the names at the target of the topics that the pair mirrors."""
    return {
        name: pair.naming.at_target(name)
        for name in sorted(names)
        if name not in INTERNAL_TOPICS
        and not is_positions_topic(name)
        and pair.topics.has(name)
        and not pair.naming.came_from_target(name, aliases)
    }


class PairTopics:
    """The topics of one pair, looked up again and again."""

    def __init__(self, pair: PairConfig, source: Admin, target: Admin, aliases: frozenset[str]) -> None:
        self._pair = pair
        self._source = source
        self._target = target
        self._aliases = aliases
        self._told_none = False

    async def look(self) -> dict[str, Mirrored]:
        """Return the mirrored topics that both clusters have."""
        found, wanted = await self._at_source()
        # All topics: named ones would be refused together if one of them may not be described, or is no name.
        there = await self._target.find_topics()
        return {
            name: Mirrored(
                topic=name,
                topic_id=str(found[name].topic_id),
                target=target,
                target_id=str(there[target].topic_id),
                partitions=min(len(found[name].partitions), len(there[target].partitions)),
                source_partitions=len(found[name].partitions),
            )
            for name, target in wanted.items()
            if target in there
        }

    async def prepare(self) -> None:
        """Create missing topics and partitions at the target, and carry over configs, and ACLs where asked.

        What the target refuses for one topic is logged, and tried again at the next look.
        """
        found, wanted = await self._at_source()
        self._tell_none(wanted)
        there = await self._target.find_topics()
        configs, unknown = await self._configs_wanted(wanted, there)
        for name, refusal in unknown.items():
            log.warning(_CONFIGS_NOT_KNOWN, pair=self._pair.name, topic=name, reason=str(refusal))
        for name, target in wanted.items():
            try:
                await self._prepare_one(found[name], target, there.get(target), configs.get(name))
            except Refusal as refusal:
                log.warning("topic not prepared at the target", pair=self._pair.name, topic=target, reason=str(refusal))
        if self._pair.syncs_acls:
            await self._carry_acls(wanted)

    async def refusals(self) -> dict[str, str]:
        """Return what `prepare` meets, by the topics' names at the target, which only validates the changes.

        At most `_TRIED_MAX` topics are tried.
        """
        found, wanted = await self._at_source()
        there = await self._target.find_topics()
        configs, unknown = await self._configs_wanted(wanted, there)
        refused = {wanted[name]: f"{_CONFIGS_NOT_KNOWN}: {refusal}" for name, refusal in unknown.items()}
        known = [wanted[name] for name in configs if wanted[name] in there]
        own, unreadable = await configs_of(self._target, known)
        refused |= {target: str(refusal) for target, refusal in unreadable.items()}
        tried = 0
        for name, target in wanted.items():
            try:
                tried += await self._try_one(found[name], target, there.get(target), configs.get(name), own.get(target))
            except Refusal as refusal:
                tried += 1
                refused[target] = str(refusal)
            if tried >= _TRIED_MAX:
                break
        return await self._still_so(refused, there) if refused else {}

    async def _still_so(self, refused: Mapping[str, str], there: Mapping[str, MetadataResponseTopic]) -> dict[str, str]:
        """Return those that are chosen and at the target as before: a worker may have created others meanwhile."""
        _, wanted = await self._at_source()
        chosen, now = set(wanted.values()), await self._target.find_topics()
        return {
            target: reason
            for target, reason in refused.items()
            if target in chosen and _count_of(now.get(target)) == _count_of(there.get(target))
        }

    async def _try_one(
        self,
        topic: MetadataResponseTopic,
        target: str,
        there: MetadataResponseTopic | None,
        configs: dict[str, str] | None,
        own: dict[str, str] | None,
    ) -> bool:
        """Do as `_prepare_one`, but have the target validate it only; `own` are the configs that it has.

        Return whether the target was asked for anything.
        """
        if there is None:
            if configs is not None:
                await self._target.create_topics([self._new_topic(topic, target, configs)], validate_only=True)
            return configs is not None
        lacks = len(there.partitions) < len(topic.partitions)
        if lacks:
            await self._target.create_partitions(target, len(topic.partitions), validate_only=True)
        changed, gone = ({}, []) if configs is None or own is None else self._changes(own, configs)
        if changed or gone:
            await self._target.alter_topic_configs(target, changed, delete=gone, validate_only=True)
        return bool(lacks or changed or gone)

    async def _configs_wanted(
        self, wanted: Mapping[str, str], there: Collection[str]
    ) -> tuple[dict[str, dict[str, str]], dict[str, Refusal]]:
        """Return the configs that the target is to have, by the topic at the source, and why others are not known."""
        names = [name for name, target in wanted.items() if self._pair.syncs_configs or target not in there]
        found, refused = await configs_of(self._source, names)
        left_out = self._pair.configs_left_out
        return {
            name: {key: value for key, value in configs.items() if not left_out.has(key)}
            for name, configs in found.items()
        }, refused

    def _new_topic(self, topic: MetadataResponseTopic, target: str, configs: dict[str, str]) -> NewTopic:
        factor = self._pair.replication_factor
        return NewTopic(topic=target, partitions=len(topic.partitions), replication_factor=factor, configs=configs)

    def _changes(self, own: Mapping[str, str], configs: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """Return the configs to set, and those to remove."""
        changed = {key: value for key, value in configs.items() if own.get(key) != value}
        gone = sorted(key for key in own.keys() - configs.keys() if not self._pair.configs_left_out.has(key))
        return changed, gone

    async def _at_source(self) -> tuple[dict[str, MetadataResponseTopic], dict[str, str]]:
        found = await self._source.find_topics()
        return found, chosen_topics(self._pair, found, self._aliases)

    def _tell_none(self, wanted: Mapping[str, str]) -> None:
        """Log, once each time that it is so, that nothing is chosen: a pattern or a right may be wrong."""
        if not wanted and not self._told_none:
            log.warning(
                "no topic of the source is mirrored: none that may be described is chosen",
                pair=self._pair.name,
                topics=", ".join(each.pattern for each in self._pair.topics.taken),
                left_out=", ".join(each.pattern for each in self._pair.topics.left_out),
            )
        self._told_none = not wanted

    async def _prepare_one(
        self,
        topic: MetadataResponseTopic,
        target: str,
        there: MetadataResponseTopic | None,
        configs: dict[str, str] | None,
    ) -> None:
        """`configs` are None if they are not known: a missing topic has to wait for them."""
        count = len(topic.partitions)
        if there is None:
            if configs is None:
                return
            await self._target.create_topics([self._new_topic(topic, target, configs)])
            log.info("topic created", pair=self._pair.name, topic=target, partitions=count)
            return
        if len(there.partitions) < count:
            await self._target.create_partitions(target, count)
            log.info("partitions added", pair=self._pair.name, topic=target, partitions=count)
        if self._pair.syncs_configs and configs is not None:
            await self._carry_configs(target, configs)

    async def _carry_configs(self, target: str, configs: dict[str, str]) -> None:
        (described,) = await self._target.describe_topics([target])
        changed, gone = self._changes(described.configs, configs)
        if changed or gone:
            await self._target.alter_topic_configs(target, changed, delete=gone)
            log.info(
                "configs carried over",
                pair=self._pair.name,
                topic=target,
                given=changed,
                removed={key: described.configs[key] for key in gone},
            )

    async def _carry_acls(self, wanted: Mapping[str, str]) -> None:
        """Let those read the mirrored topics who may read them at the source; nobody gets to write."""
        new = []
        try:
            for each in await self._source.describe_acls():
                is_read = each.operation in (Operation.READ, Operation.DESCRIBE, Operation.ALL)
                allows = each.permission is PermissionType.ALLOW
                if each.resource_type is not ResourceType.TOPIC or (allows and not is_read):
                    continue
                name = wanted.get(each.resource_name)
                if name is not None and each.pattern_type is PatternType.LITERAL:
                    narrowed = Operation.READ if allows and each.operation is Operation.ALL else each.operation
                    new.append(replace(each, resource_name=name, operation=narrowed))
            if new:
                await self._target.create_acls(new)
        except Refusal as refusal:
            # Topics are mirrored all the same.
            log.warning("ACLs not carried over", pair=self._pair.name, reason=str(refusal))


def states_of(
    states: Mapping[TopicPartition, PartitionState], mirrored: Mapping[str, Mirrored]
) -> dict[TopicPartition, PartitionState]:
    """Return those of the states that are of these very topics."""
    return {each: state for each, state in states.items() if (topic := mirrored.get(each.topic)) and topic.has(state)}


def places_of(mirrored: Mapping[str, Mirrored]) -> dict[TopicPartition, TopicPartition]:
    """Return the partition of the target for each partition of the source."""
    return {
        TopicPartition(each.topic, number): TopicPartition(each.target, number)
        for each in mirrored.values()
        for number in range(each.partitions)
    }


def _count_of(topic: MetadataResponseTopic | None) -> int:
    return 0 if topic is None else len(topic.partitions)


async def configs_of(admin: Admin, topics: Sequence[str]) -> tuple[dict[str, dict[str, str]], dict[str, Refusal]]:
    """Return the own configs of the topics, and the refusals of those that may not be described."""
    if not topics:
        return {}, {}
    try:
        return {each.topic: dict(each.configs) for each in await admin.describe_topics(topics)}, {}
    except Refusal as refusal:
        if len(topics) == 1:
            return {}, {topics[0]: refusal}
    # One refuses them all: it is found in halves.
    half = len(topics) // 2
    found, refused = await configs_of(admin, topics[:half])
    more, more_refused = await configs_of(admin, topics[half:])
    return found | more, refused | more_refused
