"""Names of Kafka's scripts: `kraft kafka-topics --list` is `kraft topics list`, over Kafka's protocol.

One table declares for each script what it is here, and the options that have another name. Any other option is the
command's own, as most have Kafka's names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final

from msgspec import Struct, field

from kraft.model.errors import KraftError


class Script(Struct, frozen=True, kw_only=True):
    """What a script of Kafka is here."""

    command: tuple[str, ...] = ()
    """Its command, if it is always the same."""

    actions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Its command by an option or a word. Of several that are given, the first of the table counts."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """Options with another name here."""

    lists: Mapping[str, str] = field(default_factory=dict)
    """Options with several values, and the option here that is given once for each."""

    flags_without_effect: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    """Options that cannot be mapped, and why or what to do."""

    positional: tuple[str, ...] = ()
    """Options of the values that its line begins with."""

    connects: bool = True


_PRODUCER_OPTIONS: Final = {"--command-config": "--producer-config", "--command-property": "--producer-property"}
_CONSUMER_OPTIONS: Final = {"--command-config": "--consumer-config", "--command-property": "--consumer-property"}
_CONTROLLER: Final = {"--bootstrap-controller": "name brokers with --bootstrap-server"}
_OF_JAVA: Final = "classes of Java cannot be loaded: leave it out"

SCRIPTS: Final[Mapping[str, Script]] = {
    "connect-mirror-maker": Script(command=("mirror", "start"), positional=("--config",), connects=False),
    "kafka-acls": Script(
        actions={"--list": ("acls", "list"), "--add": ("acls", "create"), "--remove": ("acls", "delete")},
        refused=_CONTROLLER | {"--authorizer": _OF_JAVA},
    ),
    "kafka-broker-api-versions": Script(command=("api-versions",), refused=_CONTROLLER),
    "kafka-configs": Script(
        actions={"--describe": ("configs", "describe"), "--alter": ("configs", "alter")},
        refused=_CONTROLLER | {"--add-config-file": "give the configs with --add-config key=value,..."},
    ),
    "kafka-console-consumer": Script(
        command=("consume", "--own-group"),
        renamed=_CONSUMER_OPTIONS,
        flags_without_effect=frozenset({"--skip-message-on-error", "--enable-systest-events"}),
        refused={
            "--formatter": "choose the output with --formatter-property or --format",
            "--include": "name one topic with --topic",
            "--whitelist": "name one topic with --topic",
            "--key-deserializer": _OF_JAVA,
            "--value-deserializer": _OF_JAVA,
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
        flags_without_effect=frozenset({"--sync"}),
        refused={"--line-reader": _OF_JAVA, "--reader-config": "give its lines with --property"},
    ),
    "kafka-consumer-groups": Script(
        actions={
            "--reset-offsets": ("groups", "reset-offsets"),
            "--delete-offsets": ("groups", "delete-offsets"),
            "--delete": ("groups", "delete"),
            "--members": ("groups", "members"),
            "--state": ("groups", "state"),
            "--list": ("groups", "list"),
            "--describe": ("groups", "describe"),
        },
        renamed={"--timeout": "--timeout-ms"},
        flags_without_effect=frozenset({"--offsets"}),
    ),
    "kafka-consumer-perf-test": Script(
        command=("perf", "consume"),
        renamed=_CONSUMER_OPTIONS | {"--broker-list": "--bootstrap-server", "--messages": "--num-records"},
        flags_without_effect=frozenset({"--show-detailed-stats", "--hide-header"}),
        refused={
            "--date-format": "times are shown in seconds: leave it out",
            "--socket-buffer-size": "the system sizes the buffers of sockets: leave it out",
        },
    ),
    "kafka-delete-records": Script(command=("topics", "delete-records")),
    "kafka-dump-log": Script(command=("log", "dump"), connects=False),
    "kafka-e2e-latency": Script(
        command=("perf", "latency"),
        positional=(
            *("--bootstrap-server", "--topic", "--num-records"),
            *("--producer-acks", "--record-size", "--command-config"),
        ),
    ),
    "kafka-features": Script(
        actions={"describe": ("features", "describe"), "upgrade": ("features", "upgrade")}, refused=_CONTROLLER
    ),
    "kafka-get-offsets": Script(
        command=("topics", "offsets"), renamed={"--broker-list": "--bootstrap-server", "--partitions": "--partition"}
    ),
    "kafka-leader-election": Script(
        command=("topics", "elect-leaders"), renamed={"--admin.config": "--command-config"}
    ),
    "kafka-log-dirs": Script(
        command=("brokers", "log-dirs"),
        flags_without_effect=frozenset({"--describe"}),
        refused=_CONTROLLER
        | {"--broker-list": "all brokers are shown", "--topic-list": "all topics are shown; --output json lists them"},
    ),
    "kafka-metadata-quorum": Script(actions={"describe": ("quorum", "describe")}, refused=_CONTROLLER),
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
        renamed={"--command-config": "--producer-config"},
        lists={"--producer-props": "--producer-property", "--command-property": "--producer-property"},
    ),
    "kafka-reassign-partitions": Script(command=("topics", "reassign"), refused=_CONTROLLER),
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
    "kafka-storage": Script(command=("storage",), connects=False),
    "kafka-topics": Script(
        actions={
            "--list": ("topics", "list"),
            "--create": ("topics", "create"),
            "--delete": ("topics", "delete"),
            "--describe": ("topics", "describe"),
            "--alter": ("topics", "alter"),
        }
    ),
    "kafka-transactions": Script(
        actions={
            each: ("transactions", each) for each in ("list", "describe", "describe-producers", "find-hanging", "abort")
        }
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
_SHOWN_ALWAYS: Final = ("-h", "--help")
SERVER_OPTIONS: Final = ("--bootstrap-server", "--broker-list")


def script_of(arguments: Sequence[str]) -> Script | None:
    """Return the script that the first argument names, with or without `.sh`, or None."""
    return SCRIPTS.get(arguments[0].removesuffix(".sh")) if arguments else None


def translated(arguments: Sequence[str], default_servers: str | None = None) -> list[str]:
    """Return the arguments of the command that does what the script does. Raises KraftError.

    Without `default_servers`, a script that connects has to be given servers, as in Kafka.
    """
    script = script_of(arguments)
    assert script is not None, "the caller has looked"
    name, *given = arguments
    words = list(_named(script, list(_split(given))))
    action = next((each for each in script.actions if each in words), None)
    if script.actions and action is None:
        if any(each in words for each in _SHOWN_ALWAYS):
            return [next(iter(script.actions.values()))[0], "--help"]
        raise KraftError(f"{name}: give one of {', '.join(script.actions)}")
    is_help = any(each in words for each in _SHOWN_ALWAYS)
    if (
        script.connects
        and not is_help
        and default_servers is None
        and not any(each in words for each in SERVER_OPTIONS)
    ):
        raise KraftError(f"{name}: give --bootstrap-server HOST:PORT")
    command = script.command if action is None else script.actions[action]
    return [*command, *_mapped(name, script, action, words)]


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


def _mapped(name: str, script: Script, action: str | None, words: Sequence[str]) -> Iterator[str]:
    listed: str | None = None
    is_value = False
    for word in words:
        is_option = word.startswith("--")
        if is_option:
            listed, is_value = None, True
        elif listed is not None:
            yield from (listed, word)
            continue
        elif is_value:
            is_value = False
            yield word
            continue
        if word in script.refused:
            raise KraftError(f"{name}: {word}: {script.refused[word]}")
        if word in script.lists:
            listed = script.lists[word]
        elif word in script.actions or word in script.flags_without_effect:
            is_value = False
        else:
            yield script.renamed.get(word, word)
