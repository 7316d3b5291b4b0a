"""`kraft topics`, `configs`, `produce` and `consume` from arguments to what they print, against a fake cluster."""

from __future__ import annotations

import json
from concurrent.futures import Future, wait
from pathlib import Path

import pytest

from kraft.cli import main as command_line
from kraft.client import Delivery, Producer
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode
from tests.support.client.fake_cluster import FakeCluster
from tests.support.client.scripted_groups import ScriptedGroup
from tests.unit.cli.shell import Shell


def put(cluster: FakeCluster, topic: str, *values: bytes, partition: int = 0) -> None:
    cluster.partition(topic, partition).append(build_batch([Record(-1, 5, b"k", value) for value in values]))


# --- topics ----------------------------------------------------------------------------------------------------


def test_a_topic_is_created_listed_and_deleted(kraft: Shell) -> None:
    assert kraft.succeed("topics", "create", "orders", "--partitions", "2") == "Created topic orders.\n"
    assert kraft.succeed("topics", "create", "--topic", "payments") == "Created topic payments.\n"
    assert kraft.succeed("topics", "list") == "orders\npayments\n"
    output = kraft.succeed("topics", "delete", "orders")
    assert output == "Topic orders is marked for deletion. Clients no longer see it; brokers delete its files.\n"
    listed = json.loads(kraft.succeed("topics", "list", "--output", "json"))
    assert listed == [{"topic": "payments", "partition_count": 1, "replication_factor": 3}]


def test_describe_prints_kafkas_own_lines(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders", partitions=2)
    cluster.move_leader("orders", 1, -1)
    cluster.configs["orders"] = {"retention.ms": "5", "cleanup.policy": "delete"}

    first, second, third = kraft.succeed("topics", "describe", "orders").splitlines()

    before_id, rest = first.split("\tTopicId: ")
    assert before_id == "Topic: orders"
    assert rest[22:] == "\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: cleanup.policy=delete,retention.ms=5"
    assert second == "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: \tLastKnownElr: "
    assert third == "\tTopic: orders\tPartition: 1\tLeader: none\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: \tLastKnownElr: "


def test_describe_as_json_has_no_leader_where_there_is_none(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    cluster.move_leader("orders", 0, -1)
    (described,) = json.loads(kraft.succeed("topics", "describe", "--output", "json"))
    assert (described["topic"], described["partition_count"], len(described["topic_id"])) == ("orders", 1, 22)
    assert described["partitions"][0]["leader"] is None


def test_an_internal_topic_is_only_deleted_by_force(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("__consumer_offsets")
    assert kraft.fail("topics", "delete", "__consumer_offsets", "--if-exists") == (
        "kraft: topic '__consumer_offsets' is internal, and deleting it deletes all groups with their committed "
        "offsets: use --force to delete it anyway\n"
    )
    assert "what brokers keep in it: use --force" in kraft.fail("topics", "delete", "--topic", "__transaction_state")
    assert list(cluster.topics) == ["__consumer_offsets"]
    kraft.succeed("topics", "delete", "__consumer_offsets", "--force")
    assert not cluster.topics


def test_a_topic_that_exists_or_not_is_an_error_without_the_option_that_allows_it(
    kraft: Shell, cluster: FakeCluster
) -> None:
    cluster.create("orders")
    assert kraft.fail("topics", "create", "orders") == "kraft: TOPIC_ALREADY_EXISTS: topic 'orders'\n"
    assert "already exists" in kraft.succeed("topics", "create", "orders", "--if-not-exists")
    assert "UNKNOWN_TOPIC_OR_PARTITION: topic 'ordres'" in kraft.fail("topics", "delete", "ordres")
    assert "does not exist" in kraft.succeed("topics", "delete", "ordres", "--if-exists")
    assert "'ordres'" in kraft.fail("topics", "describe", "ordres")


def test_the_oldest_records_of_a_partition_are_deleted(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders", partitions=2)
    put(cluster, "orders", b"a", b"b", b"c", partition=1)
    deleted = kraft.succeed("topics", "delete-records", "orders", "--partition", "1", "--before-offset", "2")
    assert deleted == "partition: orders-1\tlow_watermark: 2\n"
    assert "OFFSET_OUT_OF_RANGE: orders-1" in kraft.fail(
        "topics", "delete-records", "--topic", "orders", "--partition", "1", "--before-offset", "4"
    )


def test_the_oldest_records_are_deleted_as_a_file_says(kraft: Shell, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.create("orders")
    put(cluster, "orders", b"a", b"b")
    path = tmp_path / "offsets.json"
    path.write_text('{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": -1}]}')
    arguments = ("topics", "delete-records", "--offset-json-file", str(path), "--output", "json")
    assert json.loads(kraft.succeed(*arguments)) == [{"topic": "orders", "partition": 0, "low_watermark": 2}]


def test_configs_of_a_topic_are_set_and_taken_back_in_kafkas_words(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    done = "Completed updating config for topic orders.\n"
    entity = ("--entity-type", "topics", "--entity-name", "orders")
    add = "retention.ms=5, cleanup.policy=[compact,delete],segment.bytes=100"
    assert kraft.succeed("configs", "alter", *entity, "--add-config", add) == done
    wanted = {"retention.ms": "5", "cleanup.policy": "compact,delete", "segment.bytes": "100"}
    assert cluster.configs["orders"] == wanted
    deleting = ("--delete-config", "retention.ms,segment.bytes", "--add-config", "segment.ms=7")
    assert kraft.succeed("configs", "alter", "orders", *deleting) == done
    assert cluster.configs["orders"] == {"cleanup.policy": "compact,delete", "segment.ms": "7"}
    changes = ("--config", "segment.ms=8", "--delete-config", "cleanup.policy")
    assert kraft.succeed("topics", "alter", "orders", *changes) == done
    assert cluster.configs["orders"] == {"segment.ms": "8"}
    checking = ("--topic", "orders", "--add-config", "segment.ms=9", "--validate-only")
    assert kraft.succeed("configs", "alter", *checking) == "Config for topic orders can be updated; nothing changed.\n"
    assert cluster.configs["orders"] == {"segment.ms": "8"}
    altered = json.loads(kraft.succeed("configs", "alter", "orders", "--add-config", "a=1", "--output", "json"))
    assert altered == {"entity_type": "topics", "entity_name": "orders", "altered": True}
    assert "'nowhere'" in kraft.fail("configs", "alter", "nowhere", "--add-config", "a=1")


def test_configs_are_described_in_kafkas_own_lines(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("bills")
    cluster.create("orders")
    cluster.configs["orders"] = {"retention.ms": "5"}
    own = "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5}\n"
    default = "  segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:segment.bytes=1073741824}\n"
    assert kraft.succeed("configs", "describe", "orders") == f"Dynamic configs for topic orders are:\n{own}"
    everything = kraft.succeed("configs", "describe", "--topic", "orders", "--all")
    assert everything == f"All configs for topic orders are:\n{default}{own}"
    every_topic = kraft.succeed("configs", "describe", "--entity-type", "topics")
    assert every_topic == f"Dynamic configs for topic bills are:\nDynamic configs for topic orders are:\n{own}"
    assert kraft.succeed("configs", "describe", "--broker", "2") == "Dynamic configs for broker 2 are:\n"
    brokers = kraft.succeed("configs", "describe", "--entity-type", "brokers", "--all")
    assert [line for line in brokers.splitlines() if line.startswith("  ")] == [
        f"  node.id={number} sensitive=false synonyms={{STATIC_BROKER_CONFIG:node.id={number}}}" for number in (1, 2, 3)
    ]


def test_configs_as_json_say_where_each_value_comes_from(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    cluster.configs["orders"] = {"retention.ms": "5"}
    (described,) = json.loads(kraft.succeed("configs", "describe", "orders", "--output", "json"))
    assert (described["entity_type"], described["entity_name"]) == ("topics", "orders")
    assert described["configs"] == [
        {
            "key": "retention.ms",
            "value": "5",
            "source": "DYNAMIC_TOPIC_CONFIG",
            "is_default": False,
            "read_only": False,
            "is_sensitive": False,
            "type": "LONG",
            "documentation": "",
            "synonyms": [{"key": "retention.ms", "value": "5", "source": "DYNAMIC_TOPIC_CONFIG"}],
        }
    ]


@pytest.mark.parametrize("arguments", [("topics", "list"), ("consume", "orders"), ("produce", "orders")])
def test_a_command_gives_up_soon_when_every_address_refuses(
    kraft: Shell, cluster: FakeCluster, arguments: tuple[str, ...]
) -> None:
    for broker in cluster.brokers.values():
        broker.is_up = False
    assert kraft.fail(*arguments).startswith("kraft: no broker answered within 1 s (broker-1:9094: ")


def test_no_broker_is_one_line_that_names_each_address(kraft: Shell, cluster: FakeCluster) -> None:
    for broker in cluster.brokers.values():
        broker.is_up = False
    code = kraft.run("topics", "list", "--bootstrap-server", "broker-1:9094,broker-2:9094", "--timeout-ms", "200")
    assert (code, kraft.out) == (1, "")
    assert kraft.err == (
        "kraft: no broker answered within 0.2 s "
        "(broker-1:9094: connection refused; broker-2:9094: connection refused)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["topics", "create"], "no topic is given: name one"),
        (["consume"], "give a topic, or --include REGEX, and not both"),
        (["consume", "--include", "a|b"], "needs a group: give --group or --own-group"),
        (["consume", "--include", "(", "--own-group"], "'(' is no regular expression: "),
        (["topics", "create", "a", "--topic", "b"], "two topics are given, a and b: name one"),
        (["topics", "create", "a", "--config", "retention"], "'retention' is not KEY=VALUE"),
        (["topics", "delete-records", "a", "--before-offset", "5"], "name a topic, --partition and --before-offset"),
        (["topics", "delete-records", "a", "--offset-json-file", "f"], "cannot be used with a topic"),
        (["consume", "a", "--offset", "5"], "a number requires --partition"),
        (["consume", "a", "--offset", "soon"], "'soon' is not an offset: expected earliest"),
        (["consume", "a", "--offset", "5", "--from-beginning"], "cannot be used with --from-beginning"),
        (
            ["consume", "a", "--group", "g", "--partition", "0"],
            "--partition: cannot be used with --group: the",
        ),
        (
            ["consume", "a", "--group", "g", "--offset", "latest"],
            "--offset: cannot be used with --group: the",
        ),
        (["consume", "a", "--consumer-config", "/nowhere"], "/nowhere cannot be read"),
        (["consume", "a", "--format", "%x"], "%x is unknown: use one of %t"),
        (["produce", "a", "--property", "null.marker=x"], "null.marker is unknown: use parse.key or key.separator"),
        (["produce", "a", "--key-separator", ""], "is empty: give at least one character"),
        (["topics", "alter", "a"], "no change is given: set or delete a config"),
        (["configs", "alter", "a"], "no change is given: set or delete a config"),
        (["configs", "alter", "--add-config", "a=1"], "no topic is given: name one"),
        (["configs", "describe"], "name one, or use --entity-type topics for all"),
        (["configs", "alter", "a", "--add-config", "retention.ms"], "'retention.ms' is not KEY=VALUE"),
        (["configs", "alter", "a", "--add-config", "x=1,x=2"], "x is given twice"),
        (["configs", "alter", "a", "--add-config", "x=1", "--delete-config", "x"], "cannot be both set and deleted"),
        (["configs", "describe", "a", "--entity-name", "b"], "name one topic or broker"),
        (["configs", "describe", "a", "--broker", "1"], "name one topic or broker"),
        (
            ["configs", "describe", "--entity-type", "brokers", "--topic", "a"],
            "TOPIC: cannot be used with --entity-type brokers: use --entity-name",
        ),
        (
            ["configs", "describe", "--entity-type", "groups", "a"],
            "TOPIC: cannot be used with --entity-type groups: use --entity-name",
        ),
        (["configs", "describe", "--entity-type", "brokers", "--entity-name", "x"], "'x' is not a broker id"),
        (["configs", "alter", "--entity-type", "brokers", "--add-config", "a=1"], "--entity-name: no broker is given"),
        (["configs", "alter", "--entity-type", "groups", "--add-config", "a=1"], "--entity-name: no group is given"),
        (
            ["configs", "describe", "--entity-type", "groups", "--entity-default"],
            "requires --entity-type brokers, users",
        ),
        (["configs", "alter", "--entity-type", "users", "--add-config", "a=1"], "no entity is given: name one"),
        (
            ["configs", "alter", "--user", "a", "--add-config", "producer_byte_rate=x"],
            "producer_byte_rate=x: expected a number",
        ),
        (["configs", "alter", "--user", "a"], "no change is given: set or delete a config"),
        (
            ["configs", "alter", "--user", "a", "--user-defaults", "--add-config", "a=1"],
            "--user-defaults are both given",
        ),
        (["configs", "describe", "--user", "a", "--broker", "1"], "name one topic, broker or client"),
        (["configs", "describe", "a", "--entity-default"], "requires --entity-type brokers, users, clients or ips"),
        (["nonsense"], "No such command 'nonsense'"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(kraft: Shell, arguments: list[str], words: str) -> None:
    assert kraft.run(*arguments) == 2
    assert words in kraft.err
    assert "Traceback" not in kraft.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["configs", "describe", "--entity-type", "broker-loggers"], "use 'kraft brokers loggers ID'"),
        (
            ["topics", "list", "--bootstrap-server", "localhost:"],
            "bootstrap.servers: 'localhost:' is not HOST or HOST:PORT",
        ),
        (["produce", "orders", "--acks", "two"], "acks=two is not one of all, -1, 0, 1"),
        (["produce", "orders", "--compression-type", "rar"], "compression.type=rar is not one of"),
    ],
)
def test_what_is_not_supported_or_not_allowed_is_one_line(kraft: Shell, arguments: list[str], words: str) -> None:
    assert kraft.run(*arguments) == 1
    assert kraft.err.startswith("kraft: ")
    assert words in kraft.err
    assert kraft.err.count("\n") == 1


def test_configs_of_groups_are_altered_in_kafkas_words(kraft: Shell, cluster: FakeCluster) -> None:
    group = ("--entity-type", "groups", "--entity-name", "billing")
    setting = ("--add-config", "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000")
    done = "Completed updating config for group billing.\n"
    assert kraft.succeed("configs", "alter", *group, *setting) == done
    assert kraft.succeed("configs", "alter", *group, "--delete-config", "consumer.heartbeat.interval.ms") == done
    assert cluster.group_configs == {"billing": {"consumer.session.timeout.ms": "50000"}}
    assert kraft.succeed("configs", "describe", *group) == (
        "Dynamic configs for group billing are:\n"
        "  consumer.session.timeout.ms=50000 sensitive=false "
        "synonyms={DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000}\n"
    )
    cluster.scripted_groups = {"audit": ScriptedGroup(), "billing": ScriptedGroup()}
    described = json.loads(kraft.succeed("configs", "describe", "--entity-type", "groups", "--output", "json"))
    assert [(each["entity_name"], len(each["configs"])) for each in described] == [("audit", 0), ("billing", 1)]


def test_client_metrics_are_altered_and_listed_in_kafkas_words(kraft: Shell, cluster: FakeCluster) -> None:
    kind = ("--entity-type", "client-metrics")
    setting = ("--add-config", "metrics=[org.apache.kafka.producer.,org.apache.kafka.consumer.],interval.ms=60000")
    done = "Completed updating config for client-metrics javas.\n"
    assert kraft.succeed("configs", "alter", *kind, "--entity-name", "javas", *setting) == done
    assert cluster.client_metrics["javas"]["metrics"] == "org.apache.kafka.producer.,org.apache.kafka.consumer."
    assert kraft.succeed("configs", "alter", *kind, "--entity-name", "javas", "--delete-config", "metrics") == done
    assert kraft.succeed("configs", "describe", *kind) == (
        "Dynamic configs for client-metrics javas are:\n"
        "  interval.ms=60000 sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:interval.ms=60000}\n"
    )
    assert kraft.run("configs", "alter", *kind, "--add-config", "metrics=*") == 2
    assert "no client-metrics is given: name one" in kraft.err


def test_configs_of_brokers_are_altered_for_one_or_for_all(kraft: Shell, cluster: FakeCluster) -> None:
    setting = ("--add-config", "log.retention.ms=5,log.roll.ms=6")
    assert kraft.succeed("configs", "alter", "--broker", "2", *setting) == "Completed updating config for broker 2.\n"
    of_all = ("--entity-type", "brokers", "--entity-default")
    done = "Completed updating config for all brokers.\n"
    assert kraft.succeed("configs", "alter", *of_all, "--add-config", "log.roll.ms=7") == done
    assert kraft.succeed("configs", "alter", "--broker", "2", "--delete-config", "log.roll.ms")
    assert cluster.broker_configs == {"2": {"log.retention.ms": "5"}, "": {"log.roll.ms": "7"}}
    assert kraft.succeed("configs", "describe", *of_all).splitlines() == [
        "Default configs for brokers in the cluster are:",
        "  log.roll.ms=7 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.roll.ms=7}",
    ]


def test_setting_a_throttle_says_what_else_it_needs(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    names = ("configs", "alter", "orders", "--add-config", "leader.replication.throttled.replicas=[0:1,0:2]")
    kraft.succeed(*names)
    assert kraft.err == (
        "leader.replication.throttled.replicas has an effect only on brokers with leader.replication.throttled.rate.\n"
    )
    rate = ("configs", "alter", "--broker", "2", "--add-config", "follower.replication.throttled.rate=5")
    kraft.succeed(*rate)
    assert kraft.err == (
        "follower.replication.throttled.rate limits only replicas that topics name in "
        "follower.replication.throttled.replicas.\n"
    )
    others = ("configs", "alter", "--broker", "2", "--add-config", "log.roll.ms=7", "--delete-config", rate[-1][:-2])
    kraft.succeed(*others)
    assert kraft.err == ""


# --- produce ---------------------------------------------------------------------------------------------------


def test_each_line_is_a_record(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    kraft.succeed("produce", "orders", stdin="one\ntwo pizzas\r\n\nlast, with é".encode())
    assert cluster.values("orders") == [b"one", b"two pizzas", b"", "last, with é".encode()]
    assert kraft.err == "4 records stored in orders\n"


def test_no_lines_are_no_records(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    kraft.succeed("produce", "orders")
    assert kraft.err == "0 records stored in orders\n"


@pytest.mark.parametrize(
    "options",
    [["--key-separator", "::"], ["--property", "parse.key=true", "--property", "key.separator=::"]],
)
def test_keys_are_parted_from_values(kraft: Shell, cluster: FakeCluster, options: list[str]) -> None:
    cluster.create("orders")
    kraft.succeed("produce", "orders", *options, stdin=b"anna::two::pizzas\n::nobody\n")
    records = cluster.partition("orders").records()
    assert [(record.key, record.value) for record in records] == [(b"anna", b"two::pizzas"), (b"", b"nobody")]


def test_a_line_without_its_separator_is_named(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    err = kraft.fail("produce", "orders", "--key-separator", ":", stdin=b"a:1\nb2\n")
    assert err == "kraft: line 2 has no key separator ':'\n"


def test_a_record_that_is_refused_is_one_line(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")[0].refusals.append(ErrorCode.INVALID_RECORD)
    assert kraft.fail("produce", "orders", stdin=b"a\n") == "kraft: INVALID_RECORD: orders-0\n"


def test_ctrl_c_reports_what_is_stored_and_what_is_not_known_to_be(
    kraft: Shell, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log,) = cluster.create("orders")
    monkeypatch.setattr("kraft.cli.produce.READ_BYTES", len(b"a\n"))
    monkeypatch.setattr("kraft.cli.produce.INTERRUPTED_FLUSH_MS", 1)
    send, flush = Producer.produce_many, Producer.flush
    sent: list[Future[Delivery]] = []

    def send_while_there_is_space(
        producer: Producer, topic: str, values: list[bytes], *keys: None, **partition: None
    ) -> Future[Delivery]:
        if values == [b"c"]:
            wait(sent, 60)
            log.refusals.extend([ErrorCode.KAFKA_STORAGE_ERROR] * 10_000)
        sent.append(send(producer, topic, values, *keys, **partition))
        return sent[-1]

    def interrupted_flush(producer: Producer, timeout_ms: int | None = None) -> bool:
        if timeout_ms is None:
            raise KeyboardInterrupt
        return flush(producer, timeout_ms)

    monkeypatch.setattr(Producer, "produce_many", send_while_there_is_space)
    monkeypatch.setattr(Producer, "flush", interrupted_flush)
    assert kraft.run("produce", "orders", "--bootstrap-server", "broker-1:9094", stdin=b"a\nb\nc\n") == 130
    assert kraft.err == "Interrupted: 2 records stored in orders, 1 not known to be stored\n"
    assert cluster.values("orders") == [b"a", b"b"]


def test_records_may_be_sent_to_one_partition(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders", partitions=3)
    kraft.succeed("produce", "orders", "--partition", "2", "--acks", "1", "--linger-ms", "0", stdin=b"a\nb\n")
    assert cluster.values("orders", 2) == [b"a", b"b"]
    assert "has partitions 0 to 2, not 3" in kraft.fail("produce", "orders", "--partition", "3", stdin=b"a\n")


# --- consume ---------------------------------------------------------------------------------------------------


def test_values_are_printed_one_a_line(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    put(cluster, "orders", b"one", b"two", b"three")
    assert kraft.succeed("consume", "orders", "--from-beginning", "--max-messages", "2") == "one\ntwo\n"
    assert kraft.err == "Processed a total of 2 messages\n"


def test_reading_ends_when_nothing_comes_for_too_long(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    put(cluster, "orders", b"one")
    assert kraft.succeed("consume", "orders", "--offset", "earliest", "--timeout-ms", "500") == "one\n"
    assert kraft.succeed("consume", "orders", "--timeout-ms", "50") == ""


def test_reading_begins_at_an_offset_of_a_partition(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders", partitions=2)
    put(cluster, "orders", b"a", b"b", b"c", partition=1)
    out = kraft.succeed(
        "consume", "orders", "--partition", "1", "--offset", "1", "--max-messages", "2", "--format", r"%p/%o\t%k=%v"
    )
    assert out == "1/1\tk=b\n1/2\tk=c\n"


def test_json_is_one_object_a_line(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    put(cluster, "orders", b"a", b"b")
    out = kraft.succeed("consume", "orders", "--from-beginning", "--max-messages", "2", "--output", "json")
    assert [json.loads(line)["value"] for line in out.splitlines()] == ["a", "b"]


def test_a_topic_or_partition_that_is_missing_is_named(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.create("orders")
    err = kraft.fail("consume", "orders", "--partition", "4")
    assert err == "kraft: UNKNOWN_TOPIC_OR_PARTITION: topic 'orders' has partitions 0 to 0, not 4\n"


# --- the rest ----------------------------------------------------------------------------------------------------


def test_help_names_every_command(kraft: Shell) -> None:
    assert kraft.run("--help") == 0
    for name in command_line.COMMANDS:
        assert f"  {name} " in kraft.out


def test_the_list_of_commands_cuts_no_description_off(kraft: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in ([], *([name] for name in command_line.COMMANDS)):
        assert kraft.run(*arguments, "--help") == 0
        listed = kraft.out.partition("Commands:")[2]
        assert not [line for line in listed.splitlines() if line.endswith("...")]


def test_only_the_command_that_is_called_is_loaded() -> None:
    group = command_line.application(["topics", "list"])
    assert [each.name for each in group.registered_groups] == ["topics"]
    assert group.registered_commands == []


def test_ctrl_c_ends_without_a_traceback(kraft: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kraft.client.Admin.find_topics", interrupted)
    assert kraft.run("topics", "list") == 130
    assert "Traceback" not in kraft.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("topics", "list", "--zookeeper", "localhost:2181"), "kraft: --zookeeper: Kraft has no ZooKeeper: "),
        (("consume", "orders", "--new-consumer"), "kraft: --new-consumer: there is only one consumer"),
        (("consume", "orders", "--broker-list", "localhost:9092"), "kraft: --broker-list: use --bootstrap-server "),
    ],
)
def test_options_of_old_guides_are_refused_in_one_line(kraft: Shell, arguments: tuple[str, ...], said: str) -> None:
    output = kraft.fail(*arguments)
    assert output.startswith(said)
    assert output.count("\n") == 1
    assert "--bootstrap-server HOST:PORT" in output
