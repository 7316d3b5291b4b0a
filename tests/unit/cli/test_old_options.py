from __future__ import annotations

from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from kraft.cli.main import application
from kraft.cli.old_options import ACTIONS, SUBCOMMANDS, TOOLS, objection

VOTERS = "controller.quorum.voters"
BOOTSTRAP = "--bootstrap-server HOST:PORT"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "topics list --zookeeper localhost:2181",
            f"--zookeeper: Kraft has no ZooKeeper: use {BOOTSTRAP} instead",
        ),
        (
            "consume orders --zookeeper=localhost:2181/kafka",
            f"--zookeeper: Kraft has no ZooKeeper: use {BOOTSTRAP} instead",
        ),
        (
            "server start --zookeeper localhost:2181",
            f"--zookeeper: Kraft has no ZooKeeper: name the controllers in {VOTERS} of the configuration file",
        ),
        (
            "consume orders --new-consumer",
            f"--new-consumer: there is only one consumer: remove the option and use {BOOTSTRAP}",
        ),
        ("consume orders --broker-list localhost:9092", f"--broker-list: use {BOOTSTRAP} instead"),
        ("topics list --bootstrap-servers localhost:9094", f"--bootstrap-servers: use {BOOTSTRAP} instead"),
        ("topics --list", "--list: it is a command here: kraft topics list"),
        ("topics --bootstrap-server localhost:9094 --list", "--list: it is a command here: kraft topics list"),
        ("topics --create --topic orders --partitions 3", "--create: it is a command here: kraft topics create"),
        ("configs --alter --topic orders", "--alter: it is a command here: kraft configs alter"),
        ("groups --describe --group g", "--describe: it is a command here: kraft groups describe"),
        ("groups --describe --group g --members", "--members: it is a command here: kraft groups members"),
        ("groups --all-groups --reset-offsets", "--reset-offsets: it is a command here: kraft groups reset-offsets"),
        ("consumer-groups --list", "consumer-groups: kraft groups"),
        ("kafka-consumer-groups.sh --list", "kafka-consumer-groups.sh: kraft groups"),
        ("kafka-topics.sh --list", "kafka-topics.sh: kraft topics"),
        ("acls --list --topic orders", "--list: it is a command here: kraft acls list"),
        ("acls --add --topic orders", "--add: it is a command here: kraft acls create"),
        ("acls --remove --topic orders", "--remove: it is a command here: kraft acls delete"),
        ("kafka-acls.sh --list", "kafka-acls.sh: kraft acls"),
        (
            "storage format --standalone -c node.properties",
            f"--standalone: remove it: {VOTERS} of the configuration file names the controllers",
        ),
        ("log_dirs --describe", "log_dirs: kraft brokers log-dirs"),
        ("kafka-broker-api-versions.sh", "kafka-broker-api-versions.sh: kraft api-versions"),
        ("getoffsets --topic orders", "getoffsets: kraft topics offsets"),
        ("lag my-group", "lag: kraft groups lag"),
        ("transactions --list", "--list: it is a command here: kraft transactions list"),
    ],
)
def test_an_option_of_an_old_guide_is_refused_with_what_to_write_instead(line: str, expected: str) -> None:
    assert objection(line.split()) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "topics list --bootstrap-server localhost:9094",
        "produce orders --broker-list localhost:9094",
        "topics reassign --generate --broker-list 1,2,3",
        "topics create -- --zookeeper",
        "log dump --zookeeper",
        "topics reassign --list",
        "topics --drop",
        "topics --help",
    ],
)
def test_other_options_are_left_to_the_command(line: str) -> None:
    assert objection(line.split()) is None


@pytest.mark.parametrize("command", ACTIONS)
def test_each_command_that_is_named_instead_of_an_option_exists(command: str) -> None:
    application_of_one: Any = get_command(application([command]))
    assert set(ACTIONS[command]) <= set(application_of_one.commands[command].commands)


def test_the_command_that_does_the_work_of_a_tool_exists() -> None:
    command = get_command(application([]))
    for instead in (TOOLS | SUBCOMMANDS).values():
        if instead.startswith("kraft "):
            words = instead.partition(",")[0].split()[1:]
            found = command
            for word in words[: 1 if words[0] in ("produce", "consume") else 2]:
                assert isinstance(found, TyperGroup)
                found = found.commands[word]
