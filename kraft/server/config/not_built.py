"""Keys of Kafka's nodes for things that do not exist here, with the reason for each: they are decided against.

So are those of Kafka 0.8 that have gone from Kafka, too, with what to write today.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ONE_LOOP: Final = "one event loop serves all requests of a node"
_KERNEL_SIZES: Final = "the system sizes the buffers of each connection by its use, which a fixed size would end"
_ONE_FETCHER: Final = "a follower has one connection to each leader, with a request for all its partitions under way"
_METADATA_IS_PULLED: Final = "brokers fetch metadata from the controller, which sends them nothing"
_NOTHING_TO_PURGE: Final = "a request that waits is dropped as soon as it is answered, so that none is left to purge"

_CONFIGS_OF_TOPICS: Final = "a topic has configs of its own, which kraft configs alter TOPIC --add-config sets"
_NO_CSV: Final = "metrics are not written to files, but served at metrics.address"

NOT_BUILT: Final[Mapping[str, str]] = {
    "num.network.threads": _ONE_LOOP,
    "num.io.threads": f"{_ONE_LOOP}, and its threads for disks are as many as their work needs",
    "queued.max.requests": f"{_ONE_LOOP}, without a queue",
    "socket.send.buffer.bytes": _KERNEL_SIZES,
    "socket.receive.buffer.bytes": _KERNEL_SIZES,
    "num.replica.fetchers": _ONE_FETCHER,
    "replica.socket.timeout.ms": f"{_ONE_FETCHER}; replica.lag.time.max.ms says how long a follower may be behind",
    "replica.socket.receive.buffer.bytes": _KERNEL_SIZES,
    "controller.socket.timeout.ms": f"{_METADATA_IS_PULLED}; broker.session.timeout.ms says when one is taken for gone",
    "controller.message.queue.size": _METADATA_IS_PULLED,
    "fetch.purgatory.purge.interval.requests": _NOTHING_TO_PURGE,
    "producer.purgatory.purge.interval.requests": _NOTHING_TO_PURGE,
    "delete.records.purgatory.purge.interval.requests": _NOTHING_TO_PURGE,
    "kafka.csv.metrics.dir": _NO_CSV,
    "kafka.csv.metrics.reporter.enabled": _NO_CSV,
    "log.cleanup.interval.mins": "it is log.retention.check.interval.ms today, in milliseconds",
    "log.delete.delay.ms": "it is log.segment.delete.delay.ms today",
    "log.flush.interval.ms.per.topic": _CONFIGS_OF_TOPICS,
    "log.retention.bytes.per.topic": _CONFIGS_OF_TOPICS,
    "log.retention.hours.per.topic": _CONFIGS_OF_TOPICS,
    "log.roll.hours.per.topic": _CONFIGS_OF_TOPICS,
    "log.segment.bytes.per.topic": _CONFIGS_OF_TOPICS,
    "replica.lag.max.messages": "replica.lag.time.max.ms says how long a follower may be behind",
}
