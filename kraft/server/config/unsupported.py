"""Keys of Kafka's files that have no effect here, with a warning or refusal for each.

A setting without effect is a warning. Security settings are refused, because somebody would rely on them.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Final

from kraft.log.topic_config import TOPIC_CONFIGS
from kraft.metadata.configs import NOT_SUPPORTED_YET
from kraft.metadata.quota_decisions import KEYS_OF_ADDRESSES, KEYS_OF_CLIENTS
from kraft.server.config import overrides
from kraft.server.config.keys import BY_NAME
from kraft.server.config.not_built import NOT_BUILT
from kraft.server.config.old_addresses import OLD_NAMES
from kraft.server.config.values import CONTROLLER, GRPC


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NO_ZOOKEEPER: Final = "Kraft has no ZooKeeper: remove the line"
_VOTERS_INSTEAD: Final = (
    ", and name the controllers in controller.quorum.voters=1@host:9093,2@host:9093,3@host:9093, the same in the file"
    " of each node"
)

_ZOOKEEPERS_OWN: Final = frozenset({"clientPort", "secureClientPort", "tickTime", "initLimit", "syncLimit"})
_CONNECTS_OWN: Final = frozenset({"key.converter", "value.converter", "connector.class"})
_OF_A_NODE: Final = frozenset({"process.roles", "node.id", "broker.id", "listeners", "log.dirs"})

_SECURITY_PREFIXES = ("security.", "sasl.", "ssl.", "delegation.token.", overrides.PREFIX)
_SECURITY_KEYS = ("principal.builder.class",)

_OF_NODES = _names("sasl.mechanism.inter.broker.protocol sasl.mechanism.controller.protocol")
"""How the nodes of Kafka log in at each other."""

_OF_JAVA = _names("""
    ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.provider ssl.secure.random.implementation""")

_NO_KERBEROS: Final = "Kerberos is not supported: remove the line, and set sasl.enabled.mechanisms"
_NO_DELEGATION_TOKENS: Final = (
    "delegation tokens are not supported: remove the line, and let clients log in with SCRAM-SHA-512 or OAUTHBEARER"
)

_UNSUPPORTED_BY_AREA: Final[Mapping[str, str]] = {
    "start and failure of log directories": """
        log.initial.task.delay.ms log.dir.failure.timeout.ms num.recovery.threads.per.data.dir""",
    "the cleaner's buffers": """
        log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size""",
    "intervals of checkpoints": """
        log.flush.offset.checkpoint.interval.ms log.flush.start.offset.checkpoint.interval.ms""",
    "conversion and validation of records": """
        log.message.timestamp.difference.max.ms log.message.format.version log.message.downconversion.enable
        create.topic.policy.class.name alter.config.policy.class.name""",
    "consumer groups": """
        offsets.commit.required.acks group.coordinator.rebalance.protocols group.coordinator.threads
        group.coordinator.append.linger.ms""",
    "share groups": """
        group.share.enable share.coordinator.state.topic.replication.factor share.coordinator.state.topic.min.isr
        share.coordinator.state.topic.num.partitions""",
    "transactions": """
        transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.two.phase.commit.enable""",
    "quotas": """
        replication.quota.window.num replication.quota.window.size.seconds alter.log.dirs.replication.quota.window.num
        alter.log.dirs.replication.quota.window.size.seconds client.quota.callback.class""",
    "threads, sockets and connections": """
        background.threads queued.max.request.bytes socket.listen.backlog.size
        socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms
        max.request.partition.size.limit
        max.incremental.fetch.session.cache.slots request.timeout.ms fetch.max.bytes
        num.replica.alter.log.dirs.threads replica.fetch.backoff.ms replica.selector.class""",
    "details of the controller and the quorum": """
        controller.quorum.bootstrap.servers
        controller.quorum.retry.backoff.ms controller.quorum.auto.join.enable
        controller.performance.sample.period.ms controller.performance.always.log.threshold.ms
        control.plane.listener.name early.start.listeners initial.broker.registration.timeout.ms
        server.max.startup.time.ms metadata.log.segment.bytes metadata.log.segment.ms
        metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms
        controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms broker.id.generation.enable
        reserved.broker.max.id inter.broker.protocol.version""",
    "metrics and telemetry": """
        metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
        auto.include.jmx.reporter kafka.metrics.reporters kafka.metrics.polling.interval.secs
        confluent.support.metrics.enable""",
    "tiered storage": """
        log.local.retention.ms log.local.retention.bytes
        remote.log.storage.system.enable remote.log.storage.manager.class.name remote.log.storage.manager.class.path
        remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path""",
}

_UNSUPPORTED: Final = {name: area for area, names in _UNSUPPORTED_BY_AREA.items() for name in _names(names)}

_CLIENT_KEYS = _names("""
    acks request.required.acks retries message.send.max.retries retry.backoff.ms queue.buffering.max.ms
    queue.buffering.max.messages queue.enqueue.timeout.ms batch.num.messages batch.size linger.ms delivery.timeout.ms
    max.block.ms max.request.size buffer.memory send.buffer.bytes topic.metadata.refresh.interval.ms client.id
    bootstrap.servers group.id enable.auto.commit auto.commit.interval.ms auto.offset.reset session.timeout.ms
    fetch.min.bytes max.partition.fetch.bytes fetch.message.max.bytes consumer_timeout_ms sasl_mechanism
    security_protocol sasl_plain_username sasl_plain_password key.serializer value.serializer key.deserializer
    value.deserializer max.poll.records isolation.level enable.idempotence transactional.id""")


_NOT_OF_NODES: Final = {
    **dict.fromkeys((*KEYS_OF_CLIENTS, *KEYS_OF_ADDRESSES), "it is a client quota; set it with kraft quotas alter"),
    **dict.fromkeys(NOT_SUPPORTED_YET, "it is a topic config that is not supported yet"),
    **dict.fromkeys(_CLIENT_KEYS, "it is a setting of clients, not of nodes"),
}

_CREATION_RATES_OF_OTHERS = tuple(
    f"{overrides.PREFIX}{name.lower()}.{overrides.CREATION_RATE}" for name in (GRPC, CONTROLLER)
)


def whole_refusal(keys: Collection[str]) -> str | None:
    """Return why a file with these keys is none of a node at all, or None."""
    if not _OF_A_NODE.isdisjoint(keys):
        return None
    if not _CONNECTS_OWN.isdisjoint(keys):
        return "is a file of Kafka Connect, which is not part of Kraft: run Kafka's own script with it"
    if _ZOOKEEPERS_OWN.isdisjoint(keys):
        return None
    return (
        "is a file of ZooKeeper, which Kraft does not need: start nodes alone, with kraft server start -c and a file "
        "with process.roles, or one to try with kraft dev"
    )


def is_of_zookeeper(key: str) -> bool:
    return key.startswith("zookeeper.")


def refusal(key: str, value: str) -> str | None:
    """Return why a node must not start with this setting, or None."""
    if is_of_zookeeper(key):
        return _NO_ZOOKEEPER + (_VOTERS_INSTEAD if key == "zookeeper.connect" else "")
    if key.startswith(overrides.PREFIX):
        return overrides.refusal(key, value)
    if not value or key in BY_NAME or key in (*_OF_NODES, *_OF_JAVA):
        return None
    if key.startswith("sasl.kerberos.") or key == "principal.to.local.rules":
        return _NO_KERBEROS
    if key.startswith("delegation.token."):
        return _NO_DELEGATION_TOKENS
    if key.endswith(overrides.JAAS_CONFIG):
        return f"write {overrides.PREFIX}NAME.plain.{overrides.JAAS_CONFIG}, with the listener's name in lower case"
    if key in _SECURITY_KEYS:
        return "not supported yet: remove the line, and keep the node in a trusted network"
    if key.startswith(_SECURITY_PREFIXES):
        return f"not supported yet: remove the line{_suggestion(key)}"
    return None


def warning(key: str) -> str | None:
    """Return a warning for a setting without effect, or None."""
    if key in _CREATION_RATES_OF_OTHERS:
        return "has no effect: it is for listeners of Kafka's protocol"
    if key in BY_NAME:
        return None
    if key.startswith(overrides.PREFIX):
        return overrides.warning(key)
    if key in _OF_NODES:
        return "has no effect: nodes authenticate each other, see cluster.secret.file"
    if key in _OF_JAVA:
        return "has no effect: it is a setting of Java"
    if reason := NOT_BUILT.get(key):
        return f"has no effect: {reason}"
    if area := _UNSUPPORTED.get(key):
        return f"has no effect: not supported yet (Kafka's settings for {area})"
    if key in OLD_NAMES:
        # What becomes of it depends on the other keys of the file.
        return None
    if topic_key := TOPIC_CONFIGS.get(key):
        remedy = f"for all topics use {topic_key.server_keys[0].name}" if topic_key.server_keys else "set it on a topic"
        return f"has no effect: it is a topic config; {remedy}"
    if reason := _NOT_OF_NODES.get(key):
        return f"has no effect: {reason}"
    if key.startswith((*_SECURITY_PREFIXES, *_SECURITY_KEYS)):
        return "has no effect: the value is empty"
    return f"unknown key: has no effect{_suggestion(key)}"


def _suggestion(key: str) -> str:
    near = difflib.get_close_matches(key, [*BY_NAME, *OLD_NAMES, *NOT_BUILT, *_UNSUPPORTED], n=1, cutoff=0.75)
    return f": did you mean {near[0]}?" if near else ""
