"""Names of Kafka's scripts: `kraft kafka-topics --list` is `kraft topics list`, over Kafka's protocol.

One table declares for each script what it is here, and the options that have another name. Any other option is the
command's own, as most have Kafka's names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Final

from msgspec import Struct, field

from kraft.model.errors import KraftError


class Script(Struct, frozen=True, kw_only=True):
    """What a script of Kafka is here."""

    command: tuple[str, ...] = ()
    """Its command, if it is always the same."""

    actions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Its command by options or words, all of which are given; the first of the table counts."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """Options with another name here; an empty name: the value stands alone."""

    lists: Mapping[str, str] = field(default_factory=dict)
    """Options with several values, and the option here that is given once for each."""

    flags_without_effect: frozenset[str] = frozenset()
    properties: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Options that are a key of another option here, as `--retries 3` is `--producer-property retries=3`."""

    taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Options of which these values are what happens here anyway."""

    refused: Mapping[str, str] = field(default_factory=dict)
    """Options and words that cannot be mapped, and why or what to do."""

    positional: tuple[str, ...] = ()
    """Options of the values that its line begins with."""

    command_of_quotas: bool = False
    connects: bool = True


_PRODUCER_OPTIONS: Final = {"--command-config": "--producer-config", "--command-property": "--producer-property"}
_CONSUMER_OPTIONS: Final = {"--command-config": "--consumer-config", "--command-property": "--consumer-property"}
_CONTROLLER: Final = {"--bootstrap-controller": "name brokers with --bootstrap-server"}
_CLIENT_METRICS: Final = ("--entity-type", "client-metrics")
_OF_JAVA: Final = "classes of Java cannot be loaded: leave it out"
_ARE_BYTES: Final = "keys and values are bytes: leave it out"
_VOTERS_OF_FILE: Final = (
    "the controllers are those of controller.quorum.voters in the file of each node: change it there (to grow a quorum"
    " of one: kraft storage grow-quorum)"
)
_RAISED_ONLY: Final = "feature levels can be raised only: kraft features upgrade --feature NAME=LEVEL"
_LEVELS: Final = "give levels as kraft features describe shows them: --feature NAME=LEVEL"
_ONE_READER: Final = "one consumer reads: start more of them with the same --group"

_QUOTAS_OF: Final = {"users": "--user", "clients": "--client", "ips": "--ip"}
"""Options of entities with quotas, by Kafka's --entity-type."""

_OF_ZOOKEEPER: Final = {
    "--zookeeper": "Kraft has no ZooKeeper: give --bootstrap-server HOST:PORT instead",
    "--authorizer-properties": "Kraft has no ZooKeeper: give --bootstrap-server HOST:PORT instead",
}
"""Options of scripts that had a ZooKeeper, for any that connects."""

SCRIPTS: Final[Mapping[str, Script]] = {
    "connect-mirror-maker": Script(command=("mirror", "start"), positional=("--config",), connects=False),
    "kafka-acls": Script(
        actions={"--list": ("acls", "list"), "--add": ("acls", "create"), "--remove": ("acls", "delete")},
        refused=_CONTROLLER | {"--authorizer": _OF_JAVA},
    ),
    "kafka-broker-api-versions": Script(command=("api-versions",), refused=_CONTROLLER),
    "kafka-client-metrics": Script(
        actions={
            "--alter": ("configs", "alter", *_CLIENT_METRICS),
            "--describe": ("configs", "describe", *_CLIENT_METRICS),
            "--list": ("configs", "describe", *_CLIENT_METRICS),
        },
        renamed={"--name": "--entity-name"},
        properties={
            "--interval": ("--add-config", "interval.ms"),
            "--match": ("--add-config", "match"),
            "--metrics": ("--add-config", "metrics"),
        },
        refused=_CONTROLLER
        | {
            "--delete": "use --alter --delete-config interval.ms,metrics,match",
            "--generate-name": "give a name with --name",
        },
    ),
    "kafka-cluster": Script(
        actions={
            "cluster-id": ("quorum", "describe", "--status"),
            "list-endpoints": ("brokers", "list"),
            "unregister": ("brokers", "unregister"),
        },
        renamed={"--id": "", "-i": ""},
        flags_without_effect=frozenset({"--include-fenced-brokers"}),
        refused=_CONTROLLER,
    ),
    "kafka-configs": Script(
        actions={"--describe": ("configs", "describe"), "--alter": ("configs", "alter")},
        command_of_quotas=True,
        refused=_CONTROLLER | {"--add-config-file": "give the configs with --add-config key=value,..."},
    ),
    "kafka-console-consumer": Script(
        command=("consume", "--own-group"),
        renamed=_CONSUMER_OPTIONS | {"--whitelist": "--include"},
        flags_without_effect=frozenset({"--skip-message-on-error", "--enable-systest-events", "--new-consumer"}),
        properties={
            "--key-deserializer": ("--property", "key.deserializer"),
            "--value-deserializer": ("--property", "value.deserializer"),
        },
        taken={
            "--formatter": (
                "kafka.tools.DefaultMessageFormatter",
                "org.apache.kafka.tools.consumer.DefaultMessageFormatter",
            )
        },
        refused={
            "--blacklist": "choose the topics with --include",
            "--csv-reporter-enabled": "kraft perf consume measures: leave it out",
            "--delete-consumer-offsets": "kraft groups reset-offsets does that: leave it out",
            "--formatter": "choose the output with --formatter-property or --format",
            "--metrics-dir": "kraft perf consume measures: leave it out",
        },
    ),
    "kafka-console-producer": Script(
        command=("produce",),
        renamed=_PRODUCER_OPTIONS
        | {
            "--compression-codec": "--compression-type",
            "--max-block-ms": "--timeout-ms",
            "--reader-property": "--property",
            "--request-required-acks": "--acks",
            "--timeout": "--linger-ms",
        },
        flags_without_effect=frozenset({"--sync", "--new-producer", "--old-producer"}),
        properties={
            option: ("--producer-property", key)
            for option, key in {
                "--max-memory-bytes": "buffer.memory",
                "--max-partition-memory-bytes": "batch.size",
                "--message-send-max-retries": "retries",
                "--metadata-expiry-ms": "metadata.max.age.ms",
                "--queue-enqueuetimeout-ms": "max.block.ms",
                "--request-timeout-ms": "request.timeout.ms",
                "--retry-backoff-ms": "retry.backoff.ms",
                "--socket-buffer-size": "send.buffer.bytes",
            }.items()
        },
        refused={
            "--key-serializer": _ARE_BYTES,
            "--line-reader": _OF_JAVA,
            "--queue-size": "--max-memory-bytes bounds them by their bytes: give that instead",
            "--reader-config": "give its lines with --property",
            "--value-serializer": _ARE_BYTES,
        },
    ),
    "kafka-consumer-groups": Script(
        actions={
            "--reset-offsets": ("groups", "reset-offsets"),
            "--delete-offsets": ("groups", "delete-offsets"),
            "--delete": ("groups", "delete"),
            "--list --state": ("groups", "list"),
            "--list --type": ("groups", "list"),
            "--list": ("groups", "list", "--names"),
            "--members": ("groups", "members"),
            "--state": ("groups", "state"),
            "--describe": ("groups", "describe"),
        },
        renamed={"--timeout": "--timeout-ms"},
        flags_without_effect=frozenset({"--offsets", "--new-consumer"}),
    ),
    "kafka-consumer-perf-test": Script(
        command=("perf", "consume"),
        renamed=_CONSUMER_OPTIONS | {"--broker-list": "--bootstrap-server", "--messages": "--num-records"},
        flags_without_effect=frozenset({"--show-detailed-stats", "--hide-header", "--new-consumer"}),
        refused={
            "--num-fetch-threads": _ONE_READER,
            "--threads": _ONE_READER,
            "--date-format": "times are shown in seconds: leave it out",
            "--socket-buffer-size": "the system sizes the buffers of sockets: leave it out",
        },
    ),
    "kafka-delete-records": Script(command=("topics", "delete-records")),
    "kafka-dump-log": Script(
        command=("log", "dump"),
        refused={"--cluster-metadata-decoder": "the metadata log is read with kraft metadata dump FILE..."},
        connects=False,
    ),
    "kafka-e2e-latency": Script(
        command=("perf", "latency"),
        positional=(
            *("--bootstrap-server", "--topic", "--num-records"),
            *("--producer-acks", "--record-size", "--command-config"),
        ),
    ),
    "kafka-features": Script(
        actions={"describe": ("features", "describe"), "upgrade": ("features", "upgrade")},
        refused=_CONTROLLER
        | {
            "--metadata": _LEVELS,
            "--release-version": _LEVELS,
            "disable": _RAISED_ONLY,
            "downgrade": _RAISED_ONLY,
            "feature-dependencies": "a level that depends on others is refused with their names",
            "version-mapping": _LEVELS,
        },
    ),
    "kafka-get-offsets": Script(
        command=("topics", "offsets"),
        renamed={"--broker-list": "--bootstrap-server", "--partitions": "--partition"},
        refused={
            "--exclude-internal-topics": "name one topic with --topic",
            "--max-wait-ms": "--timeout-ms bounds the wait for an answer: give that instead",
            "--offsets": "one offset of each partition is shown: leave it out",
            "--topic-partitions": "name one topic with --topic, and a partition with --partition",
        },
    ),
    "kafka-groups": Script(actions={"--list": ("groups", "list")}, renamed={"--group-type": "--type"}),
    "kafka-leader-election": Script(
        command=("topics", "elect-leaders"), renamed={"--admin.config": "--command-config"}
    ),
    "kafka-log-dirs": Script(
        command=("brokers", "log-dirs"),
        flags_without_effect=frozenset({"--describe"}),
        refused=_CONTROLLER
        | {
            "--broker-list": "all brokers are shown: leave it out",
            "--topic-list": "all topics are shown, each with --output json: leave it out",
        },
    ),
    "kafka-metadata-quorum": Script(
        actions={"describe": ("quorum", "describe")},
        refused=_CONTROLLER | {"add-controller": _VOTERS_OF_FILE, "remove-controller": _VOTERS_OF_FILE},
    ),
    "kafka-mirror-maker": Script(
        command=("mirror", "start"),
        flags_without_effect=frozenset({"--new.consumer"}),
        refused={
            "--blacklist": "choose with --include, or with topics.exclude in the file of kraft mirror start -c",
            "--consumer.rebalance.listener": _OF_JAVA,
            "--rebalance.listener.args": _OF_JAVA,
            "--message.handler": "records are not changed on their way: leave it out",
            "--message.handler.args": "records are not changed on their way: leave it out",
        },
        connects=False,
    ),
    "kafka-producer-perf-test": Script(
        command=("perf", "produce"),
        renamed={
            "--command-config": "--producer-config",
            "--message-size": "--record-size",
            "--messages": "--num-records",
            "--topics": "--topic",
        },
        properties={
            "--batch-size": ("--producer-property", "batch.num.messages"),
            "--request-num-acks": ("--producer-property", "acks"),
            "--request-timeout-ms": ("--producer-property", "request.timeout.ms"),
        },
        flags_without_effect=frozenset({"--sync", "--new-producer", "--show-detailed-stats", "--hide-header"}),
        refused={
            "--compression-codec": "give --producer-props compression.type=NAME instead",
            "--threads": "one producer sends: start more of them",
        },
        lists={"--producer-props": "--producer-property", "--command-property": "--producer-property"},
    ),
    "kafka-reassign-partitions": Script(
        command=("topics", "reassign"), renamed={"--timeout": "--timeout-ms"}, refused=_CONTROLLER
    ),
    "kafka-replica-verification": Script(
        command=("replicas", "verify"),
        renamed={
            "--broker-list": "--bootstrap-server",
            "--report-interval-ms": "--reporting-interval",
            "--topic-white-list": "--topics-include",
        },
    ),
    "kafka-server-start": Script(
        command=("server", "start"),
        refused={"--override": "write the setting into the file, or into one of your own"},
        connects=False,
    ),
    "kafka-server-stop": Script(command=("server", "stop", "--all"), connects=False),
    "kafka-storage": Script(
        command=("storage",),
        flags_without_effect=frozenset({"--ignore-formatted", "-g"}),
        refused={
            "--feature": _LEVELS,
            "--release-version": _LEVELS,
            "feature-dependencies": "a level that depends on others is refused with their names",
            "info": "meta.properties in each log directory says its node and its cluster",
            "version-mapping": _LEVELS,
        },
        connects=False,
    ),
    "kafka-topics": Script(
        actions={
            "--list": ("topics", "list"),
            "--create": ("topics", "create"),
            "--delete": ("topics", "delete"),
            "--describe": ("topics", "describe"),
            "--alter": ("topics", "alter"),
        },
        flags_without_effect=frozenset({"--disable-rack-aware"}),
        refused={
            "--topic-id": "name the topic with --topic; describing all topics shows their ids",
            "--topics-with-overrides": "kraft configs describe --entity-type topics shows them",
        },
    ),
    "kafka-transactions": Script(
        actions={
            each: ("transactions", each) for each in ("list", "describe", "describe-producers", "find-hanging", "abort")
        },
        refused={"forceTerminateTransaction": "a producer with the same transactional.id ends it when it begins"},
    ),
    "kafka-verifiable-consumer": Script(
        command=("verify", "consume"),
        renamed={"--broker-list": "--bootstrap-server", "--command-config": "--consumer-config"},
    ),
    "kafka-verifiable-producer": Script(
        command=("verify", "produce"), renamed={"--command-config": "--producer-config"}
    ),
}

_SERVERS_OF_CLIENTS: Final = "bootstrap.servers="
_VERSION: Final = "--version"
_SHOWN_ALWAYS: Final = ("-h", "--help")
SERVER_OPTIONS: Final = ("--bootstrap-server", "--broker-list")


def script_of(arguments: Sequence[str]) -> Script | None:
    """Return the script that the first argument names, with or without `.sh`, or None."""
    return SCRIPTS.get(arguments[0].removesuffix(".sh")) if arguments else None


def commands_of_tools() -> dict[str, str]:
    """Return the command that is each tool, by the tool's name without `kafka-`; some have the first word alone."""
    found = {}
    for name, script in SCRIPTS.items():
        commands = [script.command] if script.command else list(script.actions.values())
        words = takewhile(lambda column: len(set(column)) == 1, zip(*commands, strict=False))
        shown = [column[0] for column in words if not column[0].startswith("-")]
        found[name.removeprefix("kafka-")] = f"kraft {' '.join(shown)}".strip()
    return found


def translated(arguments: Sequence[str], default_servers: str | None = None) -> list[str]:
    """Return the arguments of the command that does what the script does. Raises KraftError.

    Without `default_servers`, a script that connects has to be given servers, as in Kafka.
    """
    script = script_of(arguments)
    assert script is not None, "the caller has looked"
    name, *given = arguments
    if _VERSION in given:
        return [_VERSION]
    words = list(_named(script, list(_split(given))))
    if script.command_of_quotas:
        words = _with_entities(words)
    if reasons := list(_refusals(script, words)):
        raise KraftError(f"{name}: {'; '.join(reasons)}")
    action = next((each for each in script.actions if set(each.split()) <= set(words)), None)
    if script.actions and action is None:
        if any(each in words for each in _SHOWN_ALWAYS):
            return [next(iter(script.actions.values()))[0], "--help"]
        raise KraftError(f"{name}: give one of {', '.join(each for each in script.actions if ' ' not in each)}")
    is_help = any(each in words for each in _SHOWN_ALWAYS)
    if (
        script.connects
        and not is_help
        and default_servers is None
        and not any(each in words for each in SERVER_OPTIONS)
    ):
        raise KraftError(f"{name}: give --bootstrap-server HOST:PORT")
    command = script.command if action is None else script.actions[action]
    return [*command, *_mapped(script, words)]


def _refusals(script: Script, words: Sequence[str]) -> Iterator[str]:
    """Yield each option and word that cannot be mapped, with the reason: each costs a call otherwise."""
    refused = {**(_OF_ZOOKEEPER if script.connects else {}), **script.refused}
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        is_value = before.startswith("--") and not word.startswith("--")
        if word in refused and not is_value and after not in script.taken.get(word, ()):
            yield f"{word}: {refused[word]}"


def _with_entities(words: Sequence[str]) -> list[str]:
    """Return the words of kafka-configs, with quotas' entities by the option of each: a line may name two."""
    types = [word for before, word in pairwise(words) if before == "--entity-type"]
    if len(types) < 2 or not set(types) <= _QUOTAS_OF.keys():
        return list(words)
    options, found = iter(_QUOTAS_OF[each] for each in types), []
    for before, word in pairwise(["", *words]):
        match word:
            case "--entity-name":
                found.append(next(options, word))
            case "--entity-default":
                found.append(f"{next(options, word)}-defaults")
            case _ if "--entity-type" not in (before, word):
                found.append(word)
    return found


def _split(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments, `--option=value` as two."""
    for each in arguments:
        option, equals, value = each.partition("=")
        yield from (option, value) if equals and option.startswith("--") else (each,)


def _named(script: Script, words: Sequence[str]) -> Iterator[str]:
    """Yield the words, with the options of values at the beginning, and of servers among a client's properties."""
    values = list(takewhile(lambda each: not each.startswith("-"), words)) if script.positional else []
    for option, value in zip(script.positional, values, strict=False):
        yield from (option, value)
    is_listed = False
    for word in words[min(len(values), len(script.positional)) :]:
        is_listed = word in script.lists or (is_listed and not word.startswith("--"))
        if is_listed and word.startswith(_SERVERS_OF_CLIENTS):
            yield from (SERVER_OPTIONS[0], word.removeprefix(_SERVERS_OF_CLIENTS))
            # What follows may be the next of the listed values.
            yield next(iter(script.lists))
        else:
            yield word


def _mapped(script: Script, words: Sequence[str]) -> Iterator[str]:
    listed: str | None = None
    is_value = is_left_out = False
    actions = {word for each in script.actions for word in each.split()}
    for word, after in pairwise([*words, ""]):
        is_option = word.startswith("--")
        if is_option:
            listed, is_value, is_left_out = None, True, False
        elif listed is not None:
            yield from (listed, word)
            continue
        elif is_value:
            is_value = False
            if not is_left_out:
                yield word
            continue
        if word in script.lists:
            listed = script.lists[word]
        elif word in script.properties:
            option, key = script.properties[word]
            # Where configs stand in one list, a value with commas has brackets, as in Kafka.
            yield from (option, f"{key}=[{after}]" if option == "--add-config" and "," in after else f"{key}={after}")
            is_left_out = True
        elif word in script.taken:
            is_left_out = True
        elif word in script.flags_without_effect or (word in actions and not _is_filter(word, after)):
            is_value = False
        elif renamed := script.renamed.get(word, word):
            yield renamed


def _is_filter(word: str, after: str) -> bool:
    """Return whether it is an option of what is listed: `--list --state Stable`."""
    return word in ("--state", "--type") and after != "" and not after.startswith("--")
