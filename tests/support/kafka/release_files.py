"""Settings of the configuration files that come with releases of Kafka, in their order, without the comments."""

from __future__ import annotations

from typing import Final

_THREADS: Final = """\
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
"""
_PARTITIONS: Final = "num.partitions=1\nnum.recovery.threads.per.data.dir=1\n"
_INTERNAL: Final = """\
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
_SHARES: Final = "share.coordinator.state.topic.replication.factor=1\nshare.coordinator.state.topic.min.isr=1\n"
_RETENTION: Final = "log.retention.hours=168\nlog.segment.bytes=1073741824\nlog.retention.check.interval.ms=300000\n"
_PROTOCOLS: Final = (
    "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,"
    "SASL_SSL:SASL_SSL\n"
)


def _zookeeper(timeout_ms: int) -> str:
    return f"zookeeper.connect=localhost:2181\nzookeeper.connection.timeout.ms={timeout_ms}\n"


KAFKA_0_8: Final = f"""\
broker.id=0
port=9092
num.network.threads=2
num.io.threads=2
socket.send.buffer.bytes=1048576
socket.receive.buffer.bytes=1048576
socket.request.max.bytes=104857600
log.dir=/tmp/kafka-logs
num.partitions=1
log.flush.interval.messages=10000
log.flush.interval.ms=1000
log.retention.hours=168
log.segment.bytes=536870912
log.cleanup.interval.mins=1
{_zookeeper(1_000_000)}\
kafka.metrics.polling.interval.secs=5
kafka.metrics.reporters=kafka.metrics.KafkaCSVMetricsReporter
kafka.csv.metrics.dir=/tmp/kafka_metrics
kafka.csv.metrics.reporter.enabled=false
"""
KAFKA_0_8_2: Final = (
    f"broker.id=0\nport=9092\n{_THREADS}log.dirs=/tmp/kafka-logs\n{_PARTITIONS}{_RETENTION}log.cleaner.enable=false\n"
    f"{_zookeeper(6_000)}"
)
KAFKA_0_9: Final = KAFKA_0_8_2.replace("port=9092", "listeners=PLAINTEXT://:9092")
KAFKA_0_10: Final = f"broker.id=0\n{_THREADS}log.dirs=/tmp/kafka-logs\n{_PARTITIONS}{_RETENTION}{_zookeeper(6_000)}"
"""Without addresses, and so are the files of all later ones with ZooKeeper."""

KAFKA_1: Final = (
    f"broker.id=0\n{_THREADS}log.dirs=/tmp/kafka-logs\n{_PARTITIONS}{_INTERNAL}{_RETENTION}{_zookeeper(6_000)}"
    "group.initial.rebalance.delay.ms=0"
)
KAFKA_2_8: Final = KAFKA_1.replace("timeout.ms=6000", "timeout.ms=18000")
KAFKA_3_9: Final = KAFKA_2_8.replace("log.segment.bytes=1073741824\n", "")

SECOND_BROKER_0_8: Final = (
    KAFKA_0_8_2.replace("id=0", "id=1").replace("port=9092", "port=9093").replace("kafka-logs", "kafka-logs-1")
)
"""As guides make it for a second broker on one machine, server-1.properties."""

SECOND_BROKER_1: Final = KAFKA_1.replace("id=0", "id=1\nlisteners=PLAINTEXT://:9093").replace("logs", "logs-1")

_COMBINED: Final = "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n"
_OF_BROKER: Final = (
    "listeners=PLAINTEXT://localhost:9092\ninter.broker.listener.name=PLAINTEXT\n"
    "advertised.listeners=PLAINTEXT://localhost:9092\n"
)
_CONTROLLER_LISTENER: Final = "controller.listener.names=CONTROLLER\n"

_IN_2_8: Final = f"{_PARTITIONS}{_INTERNAL}{_RETENTION}"
_IN_4: Final = f"{_PARTITIONS}{_INTERNAL}{_SHARES}{_RETENTION}"
_VOTERS: Final = "controller.quorum.voters=1@localhost:9093\n"
_BOOTSTRAP: Final = "controller.quorum.bootstrap.servers=localhost:9093\n"

SERVER_2_8: Final = (
    f"process.roles=broker,controller\nnode.id=1\n{_VOTERS}{_COMBINED}advertised.listeners=PLAINTEXT://localhost:9092\n"
    f"{_CONTROLLER_LISTENER}{_PROTOCOLS}{_THREADS}log.dirs=/tmp/kraft-combined-logs\n{_IN_2_8}"
)
"""kraft/server.properties of Kafka 2.8 to 3.9."""

CONTROLLER_2_8: Final = (
    f"process.roles=controller\nnode.id=1\n{_VOTERS}listeners=CONTROLLER://:9093\n{_CONTROLLER_LISTENER}{_THREADS}"
    f"log.dirs=/tmp/raft-controller-logs\n{_IN_2_8}"
)
BROKER_2_8: Final = (
    f"process.roles=broker\nnode.id=2\n{_VOTERS}{_OF_BROKER}{_CONTROLLER_LISTENER}{_PROTOCOLS}{_THREADS}"
    f"log.dirs=/tmp/kraft-broker-logs\n{_IN_2_8}"
)
SERVER_4: Final = (
    f"process.roles=broker,controller\nnode.id=1\n{_BOOTSTRAP}{_COMBINED}"
    f"advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n{_CONTROLLER_LISTENER}{_PROTOCOLS}"
    f"{_THREADS}log.dirs=/tmp/kraft-combined-logs\n{_IN_4}"
)
CONTROLLER_4: Final = (
    f"process.roles=controller\nnode.id=1\n{_BOOTSTRAP}listeners=CONTROLLER://:9093\n"
    f"advertised.listeners=CONTROLLER://localhost:9093\n{_CONTROLLER_LISTENER}{_THREADS}"
    f"log.dirs=/tmp/kraft-controller-logs\n{_IN_4}"
)
BROKER_4: Final = (
    f"process.roles=broker\nnode.id=2\n{_BOOTSTRAP}{_OF_BROKER}{_CONTROLLER_LISTENER}{_PROTOCOLS}{_THREADS}"
    f"log.dirs=/tmp/kraft-broker-logs\n{_IN_4.replace('data.dir=1', 'data.dir=2')}"
)

PRODUCER_0_8: Final = """\
metadata.broker.list=localhost:9092
producer.type=sync
compression.codec=none
serializer.class=kafka.serializer.DefaultEncoder
"""
PRODUCER: Final = "bootstrap.servers=localhost:9092\ncompression.type=none\n"
"""Since Kafka 0.10."""

CONSUMER_0_8: Final = f"{_zookeeper(6_000).replace('localhost', '127.0.0.1')}group.id=test-consumer-group\n"
"""Until Kafka 0.11."""

CONSUMER: Final = "bootstrap.servers=localhost:9092\ngroup.id=test-consumer-group\n"
"""Since Kafka 1.0."""

CONSUMER_4_NEXT: Final = """\
bootstrap.servers=localhost:9092
client.id=test-consumer
isolation.level=read_uncommitted
group.id=test-consumer-group
auto.offset.reset=earliest
partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor
key.deserializer=org.apache.kafka.common.serialization.StringDeserializer
value.deserializer=org.apache.kafka.common.serialization.StringDeserializer
enable.auto.commit=true
auto.commit.interval.ms=5000
session.timeout.ms=30000
heartbeat.interval.ms=10000
max.poll.interval.ms=300000
retry.backoff.ms=100
retry.backoff.max.ms=1000
request.timeout.ms=40000
connections.max.idle.ms=540000
fetch.min.bytes=1
fetch.max.wait.ms=500
fetch.max.bytes=52428800
max.partition.fetch.bytes=1048576
max.poll.records=500
"""
"""In Kafka's repository, for a release after 4.2."""


def edited_as_told(text: str, errors: str) -> str:
    """Return the file of a node, edited as each line of the errors about it says. Fails if one says nothing to do."""
    lines, added = text.splitlines(), list[str]()
    for error in errors.splitlines()[1:]:
        place = error.partition(".properties:")[2].partition(":")[0]
        if "Kraft has no ZooKeeper: remove the line" in error:
            lines[int(place) - 1] = ""
        elif " is missing: set it, for example " in error:
            added.append(error.rpartition(" for example ")[2])
        else:
            listener = error.rpartition(": add ")[2]
            lines[int(place) - 1] += f",{listener}"
    return "\n".join([*filter(None, lines), *added]) + "\n"
