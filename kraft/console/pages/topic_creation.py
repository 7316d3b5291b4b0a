"""A new topic, and more partitions for one: each with what the cluster says to it before it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import ConfigSource, NewTopic
from kraft.console.asking import CHANGE_CLIENT_MS, CLIENT_MS, Asked, Panel
from kraft.console.forms import Changed, Done, Form, WrongInput
from kraft.console.rendering import segment
from kraft.log.topic_config import TOPIC_CONFIGS
from kraft.model.config_types import INT32_MAX
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.wire.schema.create_topics import CreatableTopicResult

REPLICAS_MAX: Final = 32_767
CLUSTER_DEFAULT: Final = -1
"""In the place of a number: what the cluster takes by default."""

_COMMON: Final = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "min.insync.replicas",
    "compression.type",
    "max.message.bytes",
)


class KnownConfig(Struct, frozen=True, kw_only=True):
    """A config that a topic may be created with; `default` is Kafka's, which the cluster's may differ from."""

    name: str
    help: str
    default: str


class NewConfig(Struct, frozen=True, kw_only=True):
    name: str
    value: str | None
    own: bool


class TopicPreview(Struct, frozen=True, kw_only=True):
    """The topic as the cluster would create it; -1: the cluster does not say."""

    topic: str
    partitions: int
    replication_factor: int
    configs: list[NewConfig]


class Creation(Struct, frozen=True, kw_only=True):
    common: list[KnownConfig]
    others: list[KnownConfig]
    preview: Panel[TopicPreview] | None
    """None: nothing was asked for yet."""

    @property
    def status(self) -> int:
        return 200 if self.preview is None else self.preview.status


class Growing(Struct, frozen=True, kw_only=True):
    partitions: int
    replication_factor: int
    compacted: bool
    internal: bool


class MorePartitions(Struct, frozen=True, kw_only=True):
    name: str
    topic: Panel[Growing]
    preview: Panel[int] | None
    """The new count that the cluster would accept; None: nothing was asked for yet."""

    @property
    def status(self) -> int:
        return self.topic.status if self.topic.problem or self.preview is None else self.preview.status


async def creation(asked: Asked) -> Creation:
    return Creation(
        common=[_known(each) for each in _COMMON],
        others=[_known(each) for each in sorted(TOPIC_CONFIGS) if each not in _COMMON],
        preview=await asked.panel(lambda: _preview(asked)) if "topic" in asked.form else None,
    )


def _known(name: str) -> KnownConfig:
    declared = TOPIC_CONFIGS[name]
    return KnownConfig(name=name, help=declared.documentation, default=declared.default)


def _preview(asked: Asked) -> TopicPreview:
    new = new_topic(asked.form)
    return preview_of(asked.admin.create_topics([new], validate_only=True, timeout_ms=CLIENT_MS)[0])


def preview_of(result: CreatableTopicResult) -> TopicPreview:
    configs = [
        NewConfig(
            name=each.name,
            value=None if each.is_sensitive else each.value,
            own=each.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG,
        )
        for each in result.configs or ()
    ]
    return TopicPreview(
        topic=result.name,
        partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=sorted(configs, key=lambda each: (not each.own, each.name)),
    )


def new_topic(form: Form) -> NewTopic:
    """Return the topic that a form asks for; what is empty is the cluster's default. Raises WrongInput."""
    name = form.text("topic")
    if not name:
        raise WrongInput("the topic has no name: give one")
    return NewTopic(
        topic=name,
        partitions=form.number("partition_count", 1, INT32_MAX, CLUSTER_DEFAULT),
        replication_factor=form.number("replication_factor", 1, REPLICAS_MAX, CLUSTER_DEFAULT),
        configs=_configs(form),
    )


def _configs(form: Form) -> dict[str, str]:
    configs = {name: value.strip() for name, value in form.below("config.").items() if value.strip()}
    for number, line in enumerate(form.text("other_configs").splitlines(), 1):
        name, equals, value = line.partition("=")
        if not line.strip():
            continue
        if not equals or not name.strip():
            raise WrongInput(f"line {number} of the further configs is {line[:60]!r}: write name=value")
        configs[name.strip()] = value.strip()
    return configs


async def create_topic(asked: Asked) -> Done:
    new = new_topic(asked.form)
    created = await asked.change(lambda: asked.admin.create_topics([new], timeout_ms=CHANGE_CLIENT_MS)[0])
    preview = preview_of(created)
    shape = (
        f" with {counted(preview.partitions, 'partition')} and {counted(preview.replication_factor, 'replica')} each"
        if preview.partitions > 0
        else ""
    )
    return Done(
        where=f"/clusters/{asked.cluster.name}/topics/{segment(new.topic)}",
        said=f"Topic {new.topic} was created{shape}.",
        value=preview,
    )


# --- more partitions -------------------------------------------------------------------------------------------------


async def more_partitions(asked: Asked) -> MorePartitions:
    name = asked.path["topic"]

    def preview() -> int:
        count = _count(asked.form)
        asked.admin.create_partitions(name, count, validate_only=True, timeout_ms=CLIENT_MS)
        return count

    topic = await asked.panel(lambda: _growing(asked, CLIENT_MS))
    is_asked = "count" in asked.form and not topic.problem
    return MorePartitions(name=name, topic=topic, preview=await asked.panel(preview) if is_asked else None)


def _growing(asked: Asked, timeout_ms: int) -> Growing:
    described = asked.admin.describe_topics([asked.path["topic"]], timeout_ms=timeout_ms)[0]
    partitions = described.metadata.partitions
    return Growing(
        partitions=len(partitions),
        replication_factor=max((len(each.replica_nodes) for each in partitions), default=0),
        compacted="compact" in described.configs.get("cleanup.policy", ""),
        internal=described.metadata.is_internal,
    )


def _count(form: Form) -> int:
    return form.number("count", 1, INT32_MAX)


async def add_partitions(asked: Asked) -> Done:
    name, count, seen = asked.path["topic"], _count(asked.form), asked.form.number("seen", 0, INT32_MAX, 0)

    def add() -> int:
        before = _growing(asked, CHANGE_CLIENT_MS // 2).partitions
        if seen and before != seen:
            raise Changed(
                f"topic {name} has changed since you saw it: it had {counted(seen, 'partition')}, and has {before:,}"
                " now. Nothing was done; look again"
            )
        asked.admin.create_partitions(name, count, timeout_ms=CHANGE_CLIENT_MS // 2)
        return before

    before = await asked.change(add)
    return Done(
        where=f"/clusters/{asked.cluster.name}/topics/{segment(name)}",
        said=f"Topic {name} has {count:,} partitions now; it had {before:,}.",
        value={"topic": name, "partitions": count},
    )
