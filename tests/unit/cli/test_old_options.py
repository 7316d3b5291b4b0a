from __future__ import annotations

from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from kraft.cli.kafka_scripts import commands_of_tools
from kraft.cli.main import COMMANDS, application
from kraft.cli.old_options import ACTIONS, OTHER_TOOLS, SUBCOMMANDS, objection

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
        (
            "kafka-create-topic.sh --replica 1",
            "kafka-create-topic.sh: kraft topics create, list, delete, or",
        ),
        ("acls --list --topic orders", "--list: it is a command here: kraft acls list"),
        ("acls --add --topic orders", "--add: it is a command here: kraft acls create"),
        ("acls --remove --topic orders", "--remove: it is a command here: kraft acls delete"),
        (
            "storage format --no-initial-controllers -c node.properties",
            f"--no-initial-controllers: remove it: {VOTERS} of the configuration file names the controllers",
        ),
        (
            "configs alter --entity-type users --entity-name a --entity-type=clients --entity-name b",
            "--entity-type: give it once; a user with a client id is --user NAME --client ID",
        ),
        ("log_dirs --describe", "log_dirs: kraft brokers log-dirs"),
        ("broker-api-versions", "broker-api-versions: kraft api-versions"),
        (
            "kafka-simple-consumer-shell.sh",
            "kafka-simple-consumer-shell.sh: kraft consume TOPIC --partition N",
        ),
        (
            "zookeeper-server-stop.sh",
            "zookeeper-server-stop.sh: Kraft needs no ZooKeeper: leave this out; kraft server stop stops nodes",
        ),
        (
            "connect-distributed.sh f",
            "connect-distributed.sh: Kafka Connect is not part of Kraft",
        ),
        ("getoffsets --topic orders", "getoffsets: kraft topics offsets"),
        ("lag my-group", "lag: kraft groups lag"),
        ("transactions --list", "--list: it is a command here: kraft transactions list"),
    ],
)
def test_an_option_of_an_old_guide_is_refused_with_what_to_write_instead(line: str, expected: str) -> None:
    found = objection(line.split(), COMMANDS)
    assert found is not None
    assert found.startswith(expected)


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
    assert objection(line.split(), COMMANDS) is None


@pytest.mark.parametrize("command", ACTIONS)
def test_each_command_that_is_named_instead_of_an_option_exists(command: str) -> None:
    application_of_one: Any = get_command(application([command]))
    assert set(ACTIONS[command]) <= set(application_of_one.commands[command].commands)


def test_the_command_that_does_the_work_of_a_tool_exists() -> None:
    command = get_command(application([]))
    for instead in (commands_of_tools() | OTHER_TOOLS | SUBCOMMANDS).values():
        if instead.startswith("kraft "):
            found = command
            for word in instead.partition(",")[0].split()[1:3]:
                if isinstance(found, TyperGroup):
                    found = found.commands[word]
