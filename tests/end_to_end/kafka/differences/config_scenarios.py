"""Configs: described, altered one by one and all at once, and what is refused."""

from __future__ import annotations

from typing import Any, Final

from kraft.wire.schema import alter_configs as all_at_once
from kraft.wire.schema import incremental_alter_configs as one_by_one
from kraft.wire.schema.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kraft.wire.schema.list_config_resources import ListConfigResourcesRequest
from tests.end_to_end.kafka.differences.peer import Peer

_TOPIC, _BROKER, _LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def describe_configs(peer: Peer) -> None:
    peer.create_topic("described", retention_ms="5000", cleanup_policy="compact,delete")

    def ask(
        what: str, kind: int, name: str, *keys: str, every: bool = False, versions: Any = range(1, 5), **also: bool
    ) -> None:
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None if every else keys
        )
        for version in versions:
            request = DescribeConfigsRequest(resources=(resource,), **also)
            peer.ask(f"v{version} {what}", request, version, keep=_by_key)

    keys = ("retention.ms", "cleanup.policy", "max.message.bytes", "min.insync.replicas", "segment.bytes")
    ask("some of a topic", _TOPIC, "described", *keys)
    ask("with synonyms", _TOPIC, "described", *keys, include_synonyms=True)
    ask("with documentation", _TOPIC, "described", "retention.ms", versions=(3, 4), include_documentation=True)
    ask("every one of a topic", _TOPIC, "described", every=True, versions=(1, 4))
    ask("none", _TOPIC, "described", versions=(1, 4))
    ask("unknown key", _TOPIC, "described", "no.such.config", versions=(1, 4))
    ask("unknown topic", _TOPIC, "nowhere", *keys)
    ask("invalid name", _TOPIC, "a/b", *keys)
    ask("empty name", _TOPIC, "", *keys)
    broker_keys = ("log.retention.ms", "num.io.threads", "node.id", "auto.create.topics.enable")
    ask("some of a broker", _BROKER, "1", "num.partitions", "message.max.bytes", versions=(1, 4))
    ask("some more of a broker", _BROKER, "1", *broker_keys, versions=(4,))
    ask("synonyms of a broker", _BROKER, "1", "num.partitions", "log.retention.ms", include_synonyms=True)
    ask("of all brokers", _BROKER, "", "num.partitions", "message.max.bytes", versions=(1, 4))
    ask("other broker", _BROKER, "7", "num.partitions", versions=(1, 4))
    ask("no number", _BROKER, "one", "num.partitions", versions=(1, 4))
    for kind in (0, 1, 3, 99, -1):
        ask(f"kind {kind}", kind, "x", versions=(1, 4))
    ask("loggers of another broker", _LOGGER, "7", versions=(4,))
    ask("client metrics", _CLIENT_METRICS, "m", versions=(4,))
    ask("group", _GROUP, "g", versions=(4,))


def _by_key(answer: Any) -> Any:
    for result in answer["results"]:
        result["configs"] = {each.pop("name"): each for each in result["configs"]}
    return answer


def alter_configs_one_by_one(peer: Peer) -> None:
    peer.create_topic("altered")

    def ask(what: str, kind: int, name: str, *entries: tuple[str, int, str | None], check: bool = False) -> None:
        configs = tuple(
            one_by_one.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in entries
        )
        resource = one_by_one.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        for version in (0, 1):
            request = one_by_one.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=check)
            peer.ask(f"v{version} {what}", request, version)

    ask("only asked", _TOPIC, "altered", ("retention.ms", _SET, "6000"), check=True)
    ask("set", _TOPIC, "altered", ("retention.ms", _SET, "6000"))
    ask("appended", _TOPIC, "altered", ("cleanup.policy", _APPEND, "compact"))
    ask("appended again", _TOPIC, "altered", ("cleanup.policy", _APPEND, "compact"))
    _tell_configs(peer, "altered", "before")
    ask("subtracted", _TOPIC, "altered", ("cleanup.policy", _SUBTRACT, "delete"))
    ask("subtracted what is not there", _TOPIC, "altered", ("cleanup.policy", _SUBTRACT, "delete"))
    ask("deleted", _TOPIC, "altered", ("retention.ms", _DELETE, None))
    ask("deleted again", _TOPIC, "altered", ("retention.ms", _DELETE, None))
    ask("deleted with a value", _TOPIC, "altered", ("retention.ms", _DELETE, "1"))
    _tell_configs(peer, "altered", "after")
    ask("spelt otherwise", _TOPIC, "altered", ("unclean.leader.election.enable", _SET, "TRUE"))
    _tell_configs(peer, "altered", "spelt otherwise")
    ask("unknown key", _TOPIC, "altered", ("no.such.config", _SET, "1"))
    ask("unknown key deleted", _TOPIC, "altered", ("no.such.config", _DELETE, None))
    ask("wrong type", _TOPIC, "altered", ("retention.ms", _SET, "soon"))
    ask("out of range", _TOPIC, "altered", ("min.insync.replicas", _SET, "0"))
    ask("null", _TOPIC, "altered", ("retention.ms", _SET, None))
    ask("empty", _TOPIC, "altered", ("retention.ms", _SET, ""))
    ask("append to a number", _TOPIC, "altered", ("retention.ms", _APPEND, "1"))
    ask("append null", _TOPIC, "altered", ("cleanup.policy", _APPEND, None))
    ask("operation 9", _TOPIC, "altered", ("retention.ms", 9, "1"))
    ask("one key twice", _TOPIC, "altered", ("retention.ms", _SET, "1"), ("retention.ms", _SET, "2"))
    ask("one of two", _TOPIC, "altered", ("retention.ms", _SET, "7000"), ("no.such.config", _SET, "1"))
    ask("nothing", _TOPIC, "altered")
    ask("unknown topic", _TOPIC, "nowhere", ("retention.ms", _SET, "6000"))
    ask("invalid name", _TOPIC, "a/b", ("retention.ms", _SET, "6000"))
    ask("empty name", _TOPIC, "", ("retention.ms", _SET, "6000"))
    for kind in (0, 1, 3, 99, -1):
        ask(f"kind {kind}", kind, "x", ("retention.ms", _SET, "1"))
    ask("unknown broker", _BROKER, "7", ("log.retention.ms", _SET, "6000"))
    ask("no number", _BROKER, "one", ("log.retention.ms", _SET, "6000"))
    ask("read only", _BROKER, "1", ("num.partitions", _SET, "3"))
    ask("read only of all brokers", _BROKER, "", ("node.id", _SET, "3"))
    ask("broker", _BROKER, "1", ("message.max.bytes", _SET, "1048588"))
    ask("broker back", _BROKER, "1", ("message.max.bytes", _DELETE, None))
    ask("all brokers", _BROKER, "", ("message.max.bytes", _SET, "1048588"))
    ask("all brokers back", _BROKER, "", ("message.max.bytes", _DELETE, None))
    same = one_by_one.AlterConfigsResource(resource_type=_TOPIC, resource_name="altered", configs=())
    peer.ask("twice", one_by_one.IncrementalAlterConfigsRequest(resources=(same, same), validate_only=False), 1)
    peer.ask("none", one_by_one.IncrementalAlterConfigsRequest(resources=(), validate_only=False), 1)


def _tell_configs(peer: Peer, topic: str, what: str) -> None:
    peer.settle()
    resource = DescribeConfigsResource(
        resource_type=_TOPIC,
        resource_name=topic,
        configuration_keys=("retention.ms", "cleanup.policy", "unclean.leader.election.enable"),
    )
    peer.ask(f"configs {what}", DescribeConfigsRequest(resources=(resource,)), 4, keep=_by_key)


def alter_configs_all_at_once(peer: Peer) -> None:
    peer.create_topic("replaced", retention_ms="5000", segment_bytes="2000000")

    def ask(what: str, kind: int, name: str, check: bool = False, **values: str | None) -> None:
        configs = tuple(
            all_at_once.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in values.items()
        )
        resource = all_at_once.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        for version in range(3):
            request = all_at_once.AlterConfigsRequest(resources=(resource,), validate_only=check)
            peer.ask(f"v{version} {what}", request, version)

    ask("only asked", _TOPIC, "replaced", check=True, cleanup_policy="compact")
    _tell_configs(peer, "replaced", "before")
    ask("replaced", _TOPIC, "replaced", cleanup_policy="compact")
    _tell_configs(peer, "replaced", "after")
    ask("nothing", _TOPIC, "replaced")
    _tell_configs(peer, "replaced", "without any")
    ask("unknown key", _TOPIC, "replaced", no_such_config="1")
    ask("wrong type", _TOPIC, "replaced", retention_ms="soon")
    ask("null", _TOPIC, "replaced", retention_ms=None)
    ask("unknown topic", _TOPIC, "nowhere", retention_ms="1")
    for kind in (0, 1, 99):
        ask(f"kind {kind}", kind, "x", retention_ms="1")
    ask("unknown broker", _BROKER, "7", log_retention_ms="6000")
    ask("read only", _BROKER, "1", node_id="6000")
    same = all_at_once.AlterConfigsResource(resource_type=_TOPIC, resource_name="replaced", configs=())
    peer.ask("twice", all_at_once.AlterConfigsRequest(resources=(same, same), validate_only=False), 2)


def list_config_resources(peer: Peer) -> None:
    peer.create_topic("listed")
    peer.ask("v0", ListConfigResourcesRequest(), 0, keep=_listed)
    for kinds in ((), (_TOPIC,), (_BROKER,), (_LOGGER,), (_CLIENT_METRICS,), (_GROUP,), (_TOPIC, _BROKER), (99,), (0,)):
        request = ListConfigResourcesRequest(resource_types=kinds)
        peer.ask(f"v1 {kinds}", request, 1, keep=_listed)


_INTERVALS: Final = ("99", "100", "3600000", "3600001", "-1", "soon", "", " 1000 ", "99999999999")
_PREFIXES: Final = ("*", "", "a,a", ",", "a,,b", " a , b ", "*,a", "no such metric")
_MATCHES: Final = (
    "client_id=a",
    "client_id=a,client_software_name=b.*",
    "client_id = a , client_source_port = 1 ",
    "client_id=a,client_id=b",
    "client_id",
    "client_id=",
    "=a",
    "client_id=a=b",
    "unknown=a",
    "CLIENT_ID=a",
    "client_id=[",
    "client_id=(a",
    "client_instance_id=a,client_software_version=1,client_source_address=127.*",
    "",
    ",",
)


def client_metrics_configs(peer: Peer) -> None:
    """Subscriptions to the metrics of clients (KIP-714) as resources with configs."""

    def ask(what: str, *entries: tuple[str, int, str | None], name: str = "javas", check: bool = False) -> None:
        configs = tuple(
            one_by_one.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in entries
        )
        resource = one_by_one.AlterConfigsResource(resource_type=_CLIENT_METRICS, resource_name=name, configs=configs)
        request = one_by_one.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=check)
        peer.ask(what, request, 1)

    def tell(what: str, name: str = "javas", **also: bool) -> None:
        peer.settle()
        resource = DescribeConfigsResource(resource_type=_CLIENT_METRICS, resource_name=name, configuration_keys=None)
        peer.ask(f"described {what}", DescribeConfigsRequest(resources=(resource,), **also), 4, keep=_by_key)
        listed = ListConfigResourcesRequest(resource_types=(_CLIENT_METRICS,))
        peer.ask(f"listed {what}", listed, 1)

    ask("only asked", ("interval.ms", _SET, "5000"), check=True)
    ask("nothing")
    tell("before")
    tell("empty name", name="")
    ask(
        "set", ("interval.ms", _SET, "5000"), ("metrics", _SET, "org.apache.kafka.producer.,org.apache.kafka.consumer.")
    )
    tell("set")
    peer.ask("listed in version 0", ListConfigResourcesRequest(), 0)
    tell("with synonyms", include_synonyms=True)
    tell("with documentation", include_documentation=True)
    ask("appended", ("metrics", _APPEND, "a."))
    ask("subtracted", ("metrics", _SUBTRACT, "org.apache.kafka.consumer.,nothing"))
    tell("appended and subtracted")
    ask("append to a number", ("interval.ms", _APPEND, "1"))
    for interval in _INTERVALS:
        ask(f"interval {interval!r}", ("interval.ms", _SET, interval))
    for match in _MATCHES:
        ask(f"match {match!r}", ("match", _SET, match))
    for metrics in _PREFIXES:
        ask(f"metrics {metrics!r}", ("metrics", _SET, metrics))
        tell(f"metrics {metrics!r}")
    ask("unknown key", ("no.such.config", _SET, "1"))
    ask("unknown key deleted", ("no.such.config", _DELETE, None))
    ask("null", ("metrics", _SET, None))
    ask("one key twice", ("metrics", _SET, "a"), ("metrics", _SET, "b"))
    ask("one of two", ("interval.ms", _SET, "7000"), ("no.such.config", _SET, "1"))
    for what, name in (("empty", ""), ("long", "n" * 300), ("any", "a/b c")):
        ask(f"{what} name", ("interval.ms", _SET, "7000"), name=name)
        ask(f"{what} name back", ("interval.ms", _DELETE, None), name=name)
    ask("deleted", ("metrics", _DELETE, None), ("interval.ms", _DELETE, None), ("match", _DELETE, None))
    ask("deleted again", ("metrics", _DELETE, None))
    tell("after")
    resource = all_at_once.AlterConfigsResource(
        resource_type=_CLIENT_METRICS,
        resource_name="javas",
        configs=(all_at_once.AlterableConfig(name="interval.ms", value="6000"),),
    )
    peer.ask("all at once", all_at_once.AlterConfigsRequest(resources=(resource,), validate_only=False), 2)
    tell("all at once")
    ask("back", ("interval.ms", _DELETE, None))


def _listed(answer: Any) -> Any:
    """Without other scenarios' topics."""
    kept = [
        each
        for each in answer["config_resources"]
        if each.get("resource_type") != _TOPIC or each["resource_name"] == "listed"
    ]
    answer["config_resources"] = sorted(kept, key=str)
    return answer


SCENARIOS: Final = (
    describe_configs,
    alter_configs_one_by_one,
    alter_configs_all_at_once,
    client_metrics_configs,
    list_config_resources,
)
