from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import pytest

from kraft.coordinator.groups.settings import GroupShardSettings, MigrationPolicy
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.group_configs import GroupDefaults
from kraft.model.config_keys import Required
from kraft.server.config import components, values
from kraft.server.config.access_settings import DataAccess
from kraft.server.config.keys import KEYS
from kraft.server.config.loading import ConfigError, load
from kraft.server.config.values import CONTROLLER, GRPC, Durability, Listener, Role
from tests.unit.server.config.files import COMBINED, CONTRACT, Load, Refuse


def test_a_file_of_a_node_among_three_voters_is_taken_as_it_is_written(load_text: Load) -> None:
    config = load_text(CONTRACT)
    assert config.roles == {Role.BROKER, Role.CONTROLLER}
    assert config.node_id == 1
    assert config.cluster_id == "kJ2Yk0mVT0ma0wV2Yk0mVQ"
    assert [str(voter) for voter in config.quorum.voters] == [
        "1@localhost:9093",
        "2@localhost:9193",
        "3@localhost:9293",
    ]
    assert config.log_dir == config.metadata_log_dir == Path("data/node-1").absolute()
    assert [str(listener) for listener in config.advertised_listeners] == [
        "PLAINTEXT://localhost:9092",
        "GRPC://localhost:9094",
    ]
    assert config.warnings == ()


def test_a_missing_setting_has_kafkas_default(load_text: Load) -> None:
    config = load_text(COMBINED)
    assert config.topics == components.TopicDefaults(
        partitions=1, replication_factor=1, configs=KAFKA_DEFAULTS, auto_create_enabled=True, deletion_enabled=True
    )
    assert config.log.durability is Durability.FSYNC
    assert config.replication.lag_time_max_ms == 30_000
    assert (config.cluster_id, config.rack, config.logging.level, config.warnings) == (None, "", "INFO", ())


def test_a_value_replaces_its_default(load_text: Load) -> None:
    config = load_text(
        COMBINED + "num.partitions = 6\nlog.durability: page-cache\nauto.create.topics.enable FALSE\nlog.level=debug\n"
    )
    assert config.topics.partitions == 6
    assert config.topics.auto_create_enabled is False
    assert config.log.durability is Durability.PAGE_CACHE
    assert config.logging.level == "DEBUG"


OTHER_THAN_DEFAULT: list[tuple[str, str, object]] = [
    ("broker.rack=east", "rack", "east"),
    ("node.processes=2", "processes", 2),
    ("advertised.listeners=GRPC://b:1", "advertised_listeners", (values.Listener("GRPC", "b", 1),)),
    ("controller.quorum.election.timeout.ms=2000", "quorum.election_timeout_ms", 2_000),
    ("controller.quorum.fetch.timeout.ms=3000", "quorum.fetch_timeout_ms", 3_000),
    ("controller.quorum.election.backoff.max.ms=100", "quorum.election_backoff_ms_max", 100),
    ("controller.quorum.request.timeout.ms=2000", "quorum.request_timeout_ms", 2_000),
    ("controller.quorum.append.linger.ms=25", "quorum.append_linger_ms", 25),
    ("num.partitions=6", "topics.partitions", 6),
    ("default.replication.factor=3", "topics.replication_factor", 3),
    ("default.replication.factor=3\nmin.insync.replicas=2", "topics.configs.min_insync_replicas", 2),
    ("auto.create.topics.enable=false", "topics.auto_create_enabled", False),
    ("delete.topic.enable=false", "topics.deletion_enabled", False),
    ("message.max.bytes=5000", "topics.configs.max_message_bytes", 5_000),
    ("log.segment.bytes=4096", "topics.configs.segment_bytes", 4_096),
    ("log.index.interval.bytes=100", "topics.configs.index_interval_bytes", 100),
    ("log.index.size.max.bytes=100", "topics.configs.segment_index_bytes", 100),
    ("log.preallocate=TRUE", "topics.configs.preallocate", True),
    ("log.retention.ms=-1", "topics.configs.retention_ms", -1),
    ("log.retention.minutes=3", "topics.configs.retention_ms", 180_000),
    ("log.retention.hours=2", "topics.configs.retention_ms", 7_200_000),
    ("log.retention.hours=-1", "topics.configs.retention_ms", -1),
    ("log.retention.ms=5\nlog.retention.minutes=3\nlog.retention.hours=2", "topics.configs.retention_ms", 5),
    ("log.retention.hours=2\nlog.retention.minutes=3", "topics.configs.retention_ms", 180_000),
    ("log.retention.bytes=1000000000000", "topics.configs.retention_bytes", 10**12),
    ("log.segment.delete.delay.ms=0", "topics.configs.file_delete_delay_ms", 0),
    ("log.roll.ms=1", "topics.configs.segment_ms", 1),
    ("log.roll.hours=1", "topics.configs.segment_ms", 3_600_000),
    ("log.roll.jitter.ms=1", "topics.configs.segment_jitter_ms", 1),
    ("log.roll.jitter.hours=1", "topics.configs.segment_jitter_ms", 3_600_000),
    ("log.cleanup.policy=compact,delete", "topics.configs.cleanup_policy", ("compact", "delete")),
    ("log.cleaner.delete.retention.ms=4", "topics.configs.delete_retention_ms", 4),
    ("log.cleaner.min.cleanable.ratio=0.1", "topics.configs.min_cleanable_dirty_ratio", 0.1),
    ("log.cleaner.min.compaction.lag.ms=4", "topics.configs.min_compaction_lag_ms", 4),
    ("log.cleaner.max.compaction.lag.ms=4", "topics.configs.max_compaction_lag_ms", 4),
    ("log.message.timestamp.type=LogAppendTime", "topics.configs.message_timestamp_type", "LogAppendTime"),
    ("log.message.timestamp.before.max.ms=4", "topics.configs.message_timestamp_before_max_ms", 4),
    ("log.message.timestamp.after.max.ms=4", "topics.configs.message_timestamp_after_max_ms", 4),
    ("log.flush.interval.messages=4", "topics.configs.flush_messages", 4),
    ("log.flush.interval.ms=4", "topics.configs.flush_ms", 4),
    ("log.durability=page-cache\nlog.flush.interval.messages=1", "topics.configs.flush_messages", 1),
    ("log.flush.scheduler.interval.ms=40", "topics.configs.flush_ms", 40),
    ("log.flush.scheduler.interval.ms=40", "log_maintenance.flush_check_interval_ms", 40),
    ("log.retention.check.interval.ms=1", "log_maintenance.retention_check_interval_ms", 1),
    ("log.cleaner.enable=false", "log_maintenance.cleaner_enabled", False),
    ("log.cleaner.threads=2", "log_maintenance.cleaner_threads", 2),
    ("log.cleaner.backoff.ms=0", "log_maintenance.cleaner_backoff_ms", 0),
    ("log.cleaner.dedupe.buffer.size=134217728", "log_maintenance.cleaner_dedupe_buffer_bytes", 128 << 20),
    ("log.cleaner.io.max.bytes.per.second=1048576.0", "log_maintenance.cleaner_io_bytes_per_second_max", 1 << 20),
    (
        "log.cleaner.io.max.bytes.per.second=1.7976931348623157E308",
        "log_maintenance.cleaner_io_bytes_per_second_max",
        values.UNLIMITED_BYTES_PER_SECOND,
    ),
    ("producer.id.expiration.ms=1000", "log_maintenance.producer_id_expiration_ms", 1_000),
    (
        "producer.id.expiration.check.interval.ms=1000",
        "log_maintenance.producer_id_expiration_check_interval_ms",
        1_000,
    ),
    ("log.scrub.interval.ms=0", "log_maintenance.scrub_interval_ms", 0),
    ("log.scrub.io.max.bytes.per.second=1000", "log_maintenance.scrub_io_bytes_per_second_max", 1_000),
    ("log.free.space.min.bytes=8388608", "log_maintenance.free_space_bytes_min", 8 << 20),
    ("log.durability=page-cache", "log.durability", Durability.PAGE_CACHE),
    ("transaction.state.log.num.partitions=3", "transactions_topic.partitions", 3),
    ("transaction.state.log.replication.factor=2", "transactions_topic.replication_factor", 2),
    ("transaction.state.log.min.isr=1", "transactions_topic.min_insync_replicas", 1),
    ("transaction.state.log.segment.bytes=2048", "transactions_topic.segment_bytes", 2_048),
    ("transaction.state.log.load.buffer.size=1000", "transactions_topic.load_bytes_max", 1_000),
    ("transaction.max.timeout.ms=1000", "transactions.timeout_max_ms", 1_000),
    ("transactional.id.expiration.ms=1000", "transactions.id_expiration_ms", 1_000),
    ("transaction.state.partition.memory.max.bytes=1000", "transactions.memory_bytes_max", 1_000),
    (
        "transaction.remove.expired.transaction.cleanup.interval.ms=1000",
        "transactions.expiry_interval_ms",
        1_000,
    ),
    ("transaction.partition.verification.enable=false", "transaction_verification.enabled", False),
    ("offsets.topic.num.partitions=3", "offsets_topic.partitions", 3),
    ("offsets.topic.replication.factor=2", "offsets_topic.replication_factor", 2),
    ("offsets.topic.segment.bytes=2048", "offsets_topic.segment_bytes", 2_048),
    ("offsets.topic.compression.codec=4", "offsets_topic.codec", 4),
    ("offset.metadata.max.bytes=10", "groups.offset_metadata_length_max", 10),
    ("offsets.load.buffer.size=1000", "offsets_topic.load_bytes_max", 1_000),
    ("offsets.commit.timeout.ms=100", "offsets_topic.commit_timeout_ms", 100),
    ("offsets.retention.minutes=3", "groups.offsets_retention_ms", 180_000),
    ("offsets.retention.check.interval.ms=100", "groups.offsets_retention_check_interval_ms", 100),
    ("group.min.session.timeout.ms=10", "groups.classic.session_timeout_min_ms", 10),
    ("group.max.session.timeout.ms=10000", "groups.classic.session_timeout_max_ms", 10_000),
    ("group.initial.rebalance.delay.ms=0", "groups.classic.initial_rebalance_delay_ms", 0),
    ("group.max.size=5", "groups.classic.size_max", 5),
    ("group.consumer.session.timeout.ms=46000", "groups.consumer.session_timeout_ms", 46_000),
    ("group.consumer.min.session.timeout.ms=10000", "group_bounds.least.session_timeout_ms", 10_000),
    ("group.consumer.max.session.timeout.ms=90000", "group_bounds.most.session_timeout_ms", 90_000),
    ("group.consumer.heartbeat.interval.ms=6000", "groups.consumer.heartbeat_interval_ms", 6_000),
    ("group.consumer.min.heartbeat.interval.ms=100", "group_bounds.least.heartbeat_interval_ms", 100),
    ("group.consumer.max.heartbeat.interval.ms=20000", "group_bounds.most.heartbeat_interval_ms", 20_000),
    ("group.consumer.max.size=5", "groups.consumer.members_max", 5),
    ("group.consumer.assignors=range", "groups.consumer.assignors", ("range",)),
    ("group.consumer.assignment.interval.ms=0", "groups.consumer.assignment_interval_ms", 0),
    ("group.consumer.min.assignment.interval.ms=100", "group_bounds.least.assignment_interval_ms", 100),
    ("group.consumer.max.assignment.interval.ms=20000", "group_bounds.most.assignment_interval_ms", 20_000),
    ("group.consumer.assignor.offload.enable=false", "groups.consumer.offloads_assignor", False),
    ("group.consumer.migration.policy=UPGRADE", "groups.migration_policy", MigrationPolicy.UPGRADE),
    ("replica.lag.time.max.ms=10000", "replication.lag_time_max_ms", 10_000),
    ("replica.fetch.max.bytes=2048", "replication.fetch_bytes_max", 2_048),
    ("replica.fetch.response.max.bytes=4096", "replication.fetch_response_bytes_max", 4_096),
    ("replica.fetch.min.bytes=7", "replication.fetch_bytes_min", 7),
    ("replica.fetch.wait.max.ms=100", "replication.fetch_wait_max_ms", 100),
    (
        "replica.high.watermark.checkpoint.interval.ms=1000",
        "replication.high_watermark_checkpoint_interval_ms",
        1_000,
    ),
    ("broker.heartbeat.interval.ms=100", "broker.heartbeat_interval_ms", 100),
    ("broker.session.timeout.ms=9000", "broker.session_timeout_ms", 9_000),
    ("controlled.shutdown.enable=false", "broker.controlled_shutdown_enabled", False),
    ("socket.request.max.bytes=2000000", "network.request_bytes_max", 2_000_000),
    ("advertised.listeners.check.enable=false", "network.advertised_check_enabled", False),
    ("log.level=warning", "logging.level", "WARNING"),
    ("log.file.max.bytes=65536", "logging.file_bytes_max", 65_536),
    ("log.file.max.backups=1", "logging.file_backups_max", 1),
    ("audit.log.path=/var/audit.log", "audit.path", Path("/var/audit.log")),
    ("audit.log.max.bytes=1048576", "audit.bytes_max", 1 << 20),
    ("audit.log.max.backups=1", "audit.backups_max", 1),
    ("audit.log.topic.enable=true", "audit.has_topic", True),
    ("audit.log.topic.replication.factor=2", "audit.replication_factor", 2),
    ("audit.log.data=reads,groups", "audit.data", {DataAccess.READS, DataAccess.GROUPS}),
    ("audit.log.data.interval.ms=1000", "audit.data_interval_ms", 1_000),
    ("metrics.address=localhost:9404", "metrics.address", Listener("METRICS", "localhost", 9404)),
    ("metrics.address=[::1]:9404", "metrics.address", Listener("METRICS", "::1", 9404)),
    ("metrics.per.partition=true", "metrics.per_partition", True),
]


def test_what_a_file_does_not_set_has_the_default_of_its_field(load_text: Load) -> None:
    config = load_text(COMBINED)
    assert (config.groups, config.group_bounds) == (GroupShardSettings(), GroupDefaults().bounds)
    assert (config.topics.configs, config.transactions) == (KAFKA_DEFAULTS, TransactionSettings())


@pytest.mark.parametrize(("lines", "field", "expected"), OTHER_THAN_DEFAULT)
def test_each_key_sets_its_own_field(load_text: Load, lines: str, field: str, expected: object) -> None:
    config = load_text(COMBINED + lines + "\n")
    assert attrgetter(field)(config) == expected
    assert config.warnings == ()


def test_every_default_fits_every_other(load_text: Load) -> None:
    assert load_text(COMBINED).broker.session_timeout_ms == 3_000


@pytest.mark.parametrize("key", [key.name for key in KEYS if isinstance(key.default, Required)])
def test_a_missing_key_is_named_with_an_example(refused: Refuse, key: str) -> None:
    rest = "\n".join(line for line in COMBINED.splitlines() if not line.startswith(key))
    assert f"{key} is missing: set it, for example {key}=" in refused(rest)


MALFORMED = [
    ("num.partitions=many", "num.partitions=many: expected a whole number from 1 to 10000"),
    ("num.partitions=0", "num.partitions=0: expected a whole number from 1 to 10000"),
    ("num.partitions=1_0", "num.partitions=1_0: expected a whole number"),
    ("num.partitions=", "num.partitions=: expected a whole number"),
    ("num.partitions=99999999999999999999", "expected a whole number"),
    ("auto.create.topics.enable=yes", "auto.create.topics.enable=yes: expected true or false"),
    ("log.durability=none", "log.durability=none: expected fsync or page-cache"),
    ("log.segment.bytes=60", "log.segment.bytes=60: expected a whole number from 61 to 2147483647"),
    ("message.max.bytes=1_000", "expected a whole number from 0 to 2147483647"),
    ("log.retention.hours=2147483648", "expected a whole number from -1 to 2147483647"),
    ("log.retention.ms=-2", "expected a whole number from -1 to 9223372036854775807"),
    ("log.roll.hours=0", "expected a whole number from 1 to 2147483647"),
    ("log.cleanup.policy=compress", "expected delete or compact, or several of them"),
    ("log.cleaner.min.cleanable.ratio=1.1", "expected a number from 0 to 1"),
    ("log.cleaner.io.max.bytes.per.second=0.5", "expected a number of bytes, at least 1"),
    ("log.cleaner.io.max.bytes.per.second=nan", "expected a number of bytes, at least 1"),
    ("log.preallocate=on", "expected true or false"),
    ("log.level=loud", "log.level=loud: expected DEBUG or INFO or WARNING or ERROR"),
    ("cluster.id=mine", "cluster.id=mine: expected an id of 22 base64 characters"),
    ("cluster.id=kJ2Yk0mVT0ma0wV2Yk0mVR", "expected an id of 22 base64 characters"),
    ("cluster.id=kJ2Yk0mVT0ma0wV2Yk!mVQ", "expected an id of 22 base64 characters"),
    ("process.roles=broker,boss", "process.roles=broker,boss: expected broker, controller, or broker,controller"),
    ("process.roles=", "expected broker, controller, or broker,controller"),
    ("node.id=-1", "ids are not assigned automatically"),
    ("node.id=2147483648", "expected a whole number from 0 to 2147483647"),
    ("log.dirs=", "expected the paths of one or more directories, separated by commas"),
    ("log.dirs=a,,b", "expected the paths of one or more directories, separated by commas"),
    ("log.dirs=a,b,a", "a is named twice: name each directory once"),
    ("log.dirs=a,./a", "a is named twice: name each directory once"),
    ("log.dirs=a,a/b", "is inside the other: name separate directories"),
    ("log.dirs=a/b,c,a", "is inside the other: name separate directories"),
    ("metadata.log.dir=a,b", "expected the path of one directory"),
    ("listeners=GRPC:9094", "'GRPC:9094' is not a listener: expected NAME://host:port"),
    ("listeners=", "expected listeners as NAME://host:port"),
    (
        "listeners=GRPC://localhost:1,CONTROLLER://localhost:9093,GPRC://localhost:2",
        "GPRC has no security protocol: add GPRC:PLAINTEXT",
    ),
    ("listeners=GRPC://localhost:0", "0 is not a port: expected 1 to 65535"),
    ("listeners=GRPC://localhost:65536", "65536 is not a port: expected 1 to 65535"),
    ("listeners=GRPC://a:1,GRPC://b:2", "GRPC is named twice"),
    ("controller.quorum.voters=localhost:9093", "'localhost:9093' is not a controller: expected id@host:port"),
    ("controller.quorum.voters=1@:9093", "expected id@host:port"),
    ("controller.quorum.voters=1@a:1,1@b:2", "id 1 is named twice"),
    ("controller.quorum.voters=1@a:1,2@a:1", "address a:1 is named twice"),
    ("controller.listener.names=QUORUM", "controller.listener.names=QUORUM: expected CONTROLLER"),
]


@pytest.mark.parametrize(("line", "expected"), MALFORMED)
def test_a_malformed_value_is_refused_with_what_is_allowed(refused: Refuse, line: str, expected: str) -> None:
    message = refused(COMBINED + line + "\n")
    assert expected in message
    assert "server.properties:7: " in message


DANGEROUS = [
    (
        "zookeeper.connect=localhost:2181",
        "Kraft has no ZooKeeper: remove the line, and name the controllers in controller.quorum.voters=",
    ),
    ("zookeeper.connection.timeout.ms=6000", "Kraft has no ZooKeeper"),
    ("zookeeper.sync.time.ms=2000", "Kraft has no ZooKeeper"),
    ("ssl.keystore.password=hush", "ssl.keystore.password: has no effect: no listener uses TLS"),
    ("ssl.engine.factory.class=com.example.Factory", "ssl.engine.factory.class: not supported yet: remove the line"),
    ("sasl.login.class=com.example.Login", "sasl.login.class: not supported yet"),
    ("security.inter.broker.protocol=SSL", "brokers also call each other at GRPC://localhost:9094, without TLS"),
    (
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
        "it keeps ACLs in ZooKeeper, which Kraft has not",
    ),
    ("principal.builder.class=com.example.Builder", "principal.builder.class: not supported yet"),
]


def test_a_container_may_have_the_id_of_its_node_in_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(COMBINED.replace("node.id=1\n", ""))
    assert load(file, environment={"KAFKA_BROKER_ID": "1"}).node_id == 1
    assert load(file, environment={"KAFKA_BROKER_ID": "2", "KAFKA_NODE_ID": " 1 "}).node_id == 1
    for variable in ("KAFKA_BROKER_ID", "KAFKA_NODE_ID"):
        with pytest.raises(ConfigError, match=f"^{variable}=-1 in the environment: ids are not assigned automatically"):
            load(file, environment={variable: "-1"})
    file.write_text(COMBINED)
    config = load(file, environment={"KAFKA_BROKER_ID": "2"})
    warning = "the file sets it, so that KAFKA_BROKER_ID=2 in the environment has no effect"
    assert (config.node_id, [each.message for each in config.warnings if each.key == "node.id"]) == (1, [warning])


def test_a_file_of_zookeeper_or_connect_is_answered_with_one_line(refused: Refuse) -> None:
    message = refused("dataDir=/tmp/zookeeper\nclientPort=2181\nmaxClientCnxns=0\nadmin.enableServer=false\n")
    assert "is a file of ZooKeeper, which Kraft does not need: start nodes alone" in message
    connect = "bootstrap.servers=localhost:9092\nkey.converter=org.apache.kafka.connect.json.JsonConverter\n"
    assert "is a file of Kafka Connect, which is not part of Kraft: run Kafka's own script" in refused(connect)
    assert "is a file of ZooKeeper" not in refused(f"{COMBINED}clientPort=2181\nnode.id=x\n")


@pytest.mark.parametrize(("line", "expected"), DANGEROUS)
def test_what_somebody_would_rely_on_is_refused_rather_than_ignored(refused: Refuse, line: str, expected: str) -> None:
    message = refused(COMBINED + line + "\n")
    assert expected in message
    assert "hush" not in message


@pytest.mark.parametrize(
    "line",
    [
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
        "security.inter.broker.protocol=PLAINTEXT",
        "security.inter.broker.protocol=SASL_PLAINTEXT",
        "ssl.client.auth=none",
        "ssl.keystore.type=PKCS12",
        "allow.everyone.if.no.acl.found=true",
        "advertised.listeners=GRPC://localhost:9094,CONTROLLER://localhost:9093",
        "controller.listener.names=CONTROLLER",
        "inter.broker.listener.name=GRPC",
    ],
)
def test_settings_of_kafkas_files_that_hold_here_are_accepted_without_a_warning(load_text: Load, line: str) -> None:
    assert load_text(COMBINED + line + "\n").warnings == ()


def test_any_name_may_be_mapped_to_kafkas_protocol(load_text: Load) -> None:
    renamed = "GRPC://localhost:9094,CONTROLLER://localhost:9093,inside://localhost:9092,OUT://localhost:29092"
    named = "listeners=GRPC://localhost:9094,CONTROLLER://localhost:9093"
    assert named in COMBINED
    text = COMBINED.replace(named, f"listeners={renamed}")
    config = load_text(f"{text}listener.security.protocol.map=INSIDE:PLAINTEXT,out:plaintext\n")
    assert [listener.name for listener in config.kafka_listeners] == ["INSIDE", "OUT"]
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("line", "key", "expected"),
    [
        ("num.partition=3", "num.partition", "unknown key: has no effect: did you mean num.partitions?"),
        ("colour=blue", "colour", "unknown key: has no effect"),
        (
            "log.cleaner.io.buffer.size=524288",
            "log.cleaner.io.buffer.size",
            "has no effect: not supported yet (Kafka's settings for the cleaner's buffers)",
        ),
        ("num.io.threads=8", "num.io.threads", "has no effect: one event loop serves all requests"),
        ("group.coordinator.threads=4", "group.coordinator.threads", "not supported yet"),
        ("port=9092", "port", "has no effect: listeners is set"),
        ("retention.ms=1", "retention.ms", "it is a topic config; for all topics use log.retention.ms"),
        ("remote.storage.enable=true", "remote.storage.enable", "it is a topic config that is not supported yet"),
        ("retention.check.interval.ms=1", "retention.check.interval.ms", "use log.retention.check.interval.ms"),
        ("group.id=g", "group.id", "it is a setting of clients"),
        ("principal.builder.class=", "principal.builder.class", "has no effect: the value is empty"),
        ("num.partitions=1\nnum.partitions=2", "num.partitions", "set in lines 7 and 8"),
        ("broker.id=1", "broker.id", "is an older name: use node.id"),
    ],
)
def test_what_has_no_effect_is_warned_of_once(load_text: Load, line: str, key: str, expected: str) -> None:
    (warning,) = load_text(COMBINED + line + "\n").warnings
    assert warning.key == key
    assert expected in warning.message


def test_the_files_settings_are_kept_by_current_key_names(load_text: Load) -> None:
    config = load_text(COMBINED.replace("node.id", "broker.id") + "log.retention.hours=1\ncolour=blue\n")
    assert config.settings == {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "GRPC://localhost:9094,CONTROLLER://localhost:9093",
        "log.dirs": "data",
        "log.retention.hours": "1",
    }


def test_the_last_of_two_settings_counts(load_text: Load) -> None:
    assert load_text(COMBINED + "num.partitions=1\nnum.partitions=2\n").topics.partitions == 2


def test_older_names_are_accepted(load_text: Load) -> None:
    config = load_text(COMBINED.replace("node.id", "broker.id").replace("log.dirs", "log.dir"))
    assert config.node_id == 1
    assert config.log_dir == Path("data").absolute()
    config = load_text(COMBINED + "retention.check.interval.ms=700\n")
    assert config.log_maintenance.retention_check_interval_ms == 700


def test_several_log_directories_are_accepted_and_the_first_has_the_metadata_log(load_text: Load) -> None:
    config = load_text(COMBINED + "log.dirs=one, two/logs,/three\n")
    assert config.log_dirs == (Path("one").absolute(), Path("two/logs").absolute(), Path("/three"))
    assert config.log_dir == config.metadata_log_dir == config.log_dirs[0]


def test_an_older_name_with_a_bad_value_is_named_as_written(refused: Refuse) -> None:
    assert "server.properties:3: broker.id=x: expected" in refused(COMBINED.replace("node.id=1", "broker.id=x"))


def test_listener_addresses_may_be_ipv6_or_every_interface(load_text: Load) -> None:
    config = load_text(
        COMBINED
        + "listeners=GRPC://[::1]:9094,CONTROLLER://:9093\ncontroller.quorum.voters=1@[::1]:9093\n"
        + "cluster.secret.file=secret\n"
    )
    grpc, controller = config.listener(GRPC), config.listener(CONTROLLER)
    assert grpc is not None
    assert controller is not None
    assert (grpc.host, grpc.address, str(grpc)) == ("::1", "[::1]:9094", "GRPC://[::1]:9094")
    assert (controller.address, controller.is_wildcard) == ("[::]:9093", True)
    assert config.quorum.voters[0].address == "[::1]:9093"


def test_a_broker_that_is_no_controller_names_the_voters_only(load_text: Load) -> None:
    config = load_text(
        COMBINED + "node.id=4\nprocess.roles=broker\nlisteners=GRPC://localhost:9394\nmetadata.log.dir=meta\n"
    )
    assert (config.is_broker, config.is_controller, config.is_whole_cluster) == (True, False, False)
    assert config.metadata_log_dir == Path("meta").absolute()


def test_a_single_combined_node_is_the_whole_cluster(load_text: Load) -> None:
    assert load_text(COMBINED).is_whole_cluster
    assert not load_text(CONTRACT).is_whole_cluster


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.properties: cannot read .*No such file"):
        load(tmp_path / "nowhere.properties")
    with pytest.raises(ConfigError, match=r"cannot read .*Is a directory"):
        load(tmp_path)


def test_a_file_that_is_no_properties_file_is_refused(refused: Refuse) -> None:
    assert "server.properties:2: " in refused("node.id=1\nx=\\u00\n")


def test_elections_that_are_held_unasked_are_configured_by_kafkas_keys(load_text: Load) -> None:
    config = load_text(
        COMBINED
        + "auto.leader.rebalance.enable=false\nleader.imbalance.check.interval.seconds=5\n"
        + "leader.imbalance.per.broker.percentage=0\nunclean.leader.election.interval.ms=100\n"
        + "unclean.leader.election.enable=true\n"
    )
    assert config.warnings == ()
    assert config.elections == components.LeaderElections(
        rebalance_enabled=False,
        imbalance_check_interval_s=5,
        imbalance_per_broker_percentage=0,
        unclean_interval_ms=100,
    )
    assert config.topics.configs.unclean_leader_election_enable
    assert load_text(COMBINED).elections == components.LeaderElections()


def test_all_problems_of_a_file_are_named_at_once(load_text: Load) -> None:
    with pytest.raises(ConfigError) as raised:
        load_text(
            "process.roles=broker,controller\nnode.id=x\nlog.dirs=data\nprincipal.builder.class=x\nnum.partitions=0\n"
        )
    first, *problems = str(raised.value).splitlines()
    assert first.endswith("server.properties has 5 problems:")
    assert [problem.partition("server.properties")[2].partition(":")[2].strip()[:22] for problem in problems] == [
        "4: principal.builder.c",
        "listeners is missing: ",
        "controller.quorum.vote",
        "2: node.id=x: expected",
        "5: num.partitions=0: e",
    ]


def test_all_contradictions_of_a_file_are_named_at_once(load_text: Load) -> None:
    with pytest.raises(ConfigError, match="has 2 problems:") as raised:
        load_text(COMBINED + "min.insync.replicas=2\nbroker.heartbeat.interval.ms=9000\n")
    assert len(str(raised.value).splitlines()) == 3
