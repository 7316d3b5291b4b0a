"""Names of Kafka's scripts and their options, and the commands that they are."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from kraft.cli.kafka_classes import SCRIPT_OF_CLASS, line_of_script
from kraft.cli.kafka_scripts import SCRIPTS, script_of, translated
from kraft.cli.main import application
from kraft.cli.old_options import OTHER_TOOLS
from kraft.client import KraftError
from tests.unit.cli.shell import Shell

SERVERS = "--bootstrap-server b:9092"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kafka-topics.sh --create --topic orders --partitions 3", "topics create --topic orders --partitions 3"),
        ("kafka-topics --describe --topic=describe", "topics describe --topic describe"),
        ("kafka-consumer-groups --describe --group g --members", "groups members --group g"),
        ("kafka-console-consumer --topic t --from-beginning", "consume --own-group --topic t --from-beginning"),
        ("kafka-console-consumer --consumer.config f", "consume --own-group --consumer.config f"),
        ("kafka-console-producer --topic t --sync --request-required-acks 1", "produce --topic t --acks 1"),
        (
            "kafka-producer-perf-test --throughput -1 --producer-props acks=1 linger.ms=5 --print-metrics",
            "perf produce --throughput -1 --producer-property acks=1 --producer-property linger.ms=5 --print-metrics",
        ),
        (
            "kafka-producer-perf-test --producer-props acks=1 bootstrap.servers=b:9092 linger.ms=5",
            "perf produce --producer-property acks=1 --bootstrap-server b:9092 --producer-property linger.ms=5",
        ),
        (
            "kafka-e2e-latency b:9092 t 100 all 20",
            "perf latency --bootstrap-server b:9092 --topic t --num-records 100 --producer-acks all --record-size 20",
        ),
        ("connect-mirror-maker.sh mm2.properties --clusters B", "mirror start --config mm2.properties --clusters B"),
        ("kafka-consumer-perf-test --messages 5 --hide-header", "perf consume --num-records 5"),
        ("kafka-acls --add --allow-principal User:a --topic t", "acls create --allow-principal User:a --topic t"),
        ("kafka-metadata-quorum describe --status", "quorum describe --status"),
        ("kafka-consumer-groups --list --state Stable --new-consumer", "groups list --state Stable"),
        ("kafka-consumer-groups --list", "groups list --names"),
        ("kafka-consumer-groups --list --state", "groups list"),
        ("kafka-consumer-groups --list --type consumer", "groups list --type consumer"),
        ("kafka-consumer-groups --describe --group g --state", "groups state --group g"),
        ("kafka-topics.sh --version --list", "--version"),
        (
            "kafka-client-metrics.sh --alter --metrics a.,b. --interval 9",
            "configs alter --entity-type client-metrics --add-config metrics=[a.,b.] --add-config interval.ms=9",
        ),
        (
            "kafka-producer-perf-test --messages 9 --topics t --message-size 5 --batch-size 2 --hide-header",
            "perf produce --num-records 9 --topic t --record-size 5 --producer-property batch.num.messages=2",
        ),
        ("kafka-cluster unregister --id 9", "brokers unregister 9"),
        (
            "kafka-console-producer --topic t --message-send-max-retries 3 --new-producer",
            "produce --topic t --producer-property retries=3",
        ),
        (
            "kafka-console-consumer --formatter kafka.tools.DefaultMessageFormatter --value-deserializer Long",
            "consume --own-group --property value.deserializer=Long",
        ),
        (
            "kafka-configs --describe --entity-type users --entity-name a --entity-type clients --entity-default",
            "configs describe --user a --client-defaults",
        ),
        (
            "kafka-configs --alter --entity-type topics --entity-name t --delete-config a",
            "configs alter --entity-type topics --entity-name t --delete-config a",
        ),
        ("kafka-storage format --standalone -t X -c f", "storage format --standalone -t X -c f"),
    ],
)
def test_a_line_of_a_guide_becomes_one_of_kraft(line: str, expected: str) -> None:
    servers = (
        [] if any(each in line for each in ("b:9092", "connect-", "kafka-storage", "--version")) else SERVERS.split()
    )
    assert translated([*line.split(), *servers]) == [*expected.split(), *servers]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kafka-topics --list", "kafka-topics: give --bootstrap-server HOST:PORT"),
        (f"kafka-topics {SERVERS}", "kafka-topics: give one of --list, --create, --delete, --describe, --alter"),
        (
            f"kafka-console-producer {SERVERS} --line-reader X",
            "kafka-console-producer: --line-reader: classes of Java cannot be loaded: leave it out",
        ),
        (
            "kafka-topics.sh --list --zookeeper localhost:2181/kafka",
            "kafka-topics.sh: --zookeeper: Kraft has no ZooKeeper: give --bootstrap-server HOST:PORT instead",
        ),
        (
            "kafka-acls --authorizer A --authorizer-properties zookeeper.connect=localhost:2181 --list",
            (
                "kafka-acls: --authorizer: classes of Java cannot be loaded: leave it out; --authorizer-properties: "
                "Kraft has no ZooKeeper: give --bootstrap-server HOST:PORT instead"
            ),
        ),
        (
            f"kafka-features {SERVERS} downgrade",
            "kafka-features: downgrade: feature levels can be raised only: kraft features upgrade --feature NAME=LEVEL",
        ),
        (
            "kafka-server-start server.properties --override a=b",
            "kafka-server-start: --override: write the setting into the file, or into one of your own",
        ),
    ],
)
def test_what_cannot_be_mapped_is_answered_in_one_line(line: str, expected: str) -> None:
    with pytest.raises(KraftError) as caught:
        translated(line.split())
    assert str(caught.value) == expected


def test_scripts_that_need_no_cluster_are_given_no_servers() -> None:
    assert translated(["kafka-server-start", "-daemon", "f"]) == ["server", "start", "-daemon", "f"]
    assert translated(["kafka-dump-log", "--files", "00.log"]) == ["log", "dump", "--files", "00.log"]
    assert script_of(["topics", "list"]) is None


def test_each_command_and_each_option_of_the_table_exists() -> None:
    whole = get_command(application([]))
    for name, script in SCRIPTS.items():
        for command in [script.command] if script.command else script.actions.values():
            found = whole
            for word in command:
                if isinstance(found, TyperGroup) and not word.startswith("-"):
                    found = found.commands[word]
            known = {option for each in found.params for option in each.opts}
            named = {*script.renamed.values(), *script.lists.values(), *command}
            assert {each for each in named if each.startswith("--")} <= known | {"--timeout-ms"}, name


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kafka.tools.GetOffsetShell --topic t --time -1", "kafka-get-offsets --topic t --time -1"),
        ("org.apache.kafka.tools.GetOffsetShell --topic t", "kafka-get-offsets --topic t"),
        ("-name checker -loggc kafka.tools.DumpLogSegments --files f", "kafka-dump-log --files f"),
        ("kafka.tools.ConsumerOffsetChecker --group g", "kafka-consumer-offset-checker --group g"),
        ("org.apache.kafka.connect.mirror.MirrorMaker f", "connect-mirror-maker f"),
    ],
)
def test_a_class_of_a_tool_is_its_script(line: str, expected: str) -> None:
    assert line_of_script(["kafka-run-class.sh", *line.split()]) == expected.split()


@pytest.mark.parametrize(("line", "reason"), [("", "name a class"), ("a.b.Mine x", "a.b.Mine: classes of Java")])
def test_another_class_is_refused(line: str, reason: str) -> None:
    with pytest.raises(KraftError, match=reason):
        line_of_script(["kafka-run-class", *line.split()])


def test_each_class_has_a_script_that_is_known_or_answered() -> None:
    for script in SCRIPT_OF_CLASS.values():
        assert script in SCRIPTS or script.removeprefix("kafka-") in OTHER_TOOLS, script


def test_a_script_of_kafka_speaks_to_the_cluster(kraft: Shell) -> None:
    kraft.succeed("topics", "create", "orders", "--partitions", "2")
    assert kraft.succeed("kafka-topics", "--list") == "orders\n"
    assert kraft.succeed("topics", "list") == "orders\n"


def test_the_names_are_installed_as_commands_and_nothing_is_overwritten(kraft: Shell, tmp_path: Path) -> None:
    directory = tmp_path / "bin"
    assert kraft.run("kafka-names", str(directory)) == 0
    printed = subprocess.run(
        [directory / "kafka-topics.sh", "--list"], capture_output=True, text=True, check=False, timeout=60
    )
    assert printed.stderr == "kraft: kafka-topics: give --bootstrap-server HOST:PORT\n"
    (directory / "kafka-acls").write_text("mine")
    assert kraft.run("kafka-names", str(directory)) == 1
    assert "kafka-acls is not of this command" in kraft.err
