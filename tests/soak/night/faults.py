"""The ten faults of the night. Each says what a reader of the guide is to find."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer
from msgspec import Struct

from chaos.nemesis.links import link_names
from kraft.client import Admin
from kraft.local import cluster_files
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.soak.full_disk_runs import fill
from tests.soak.night.transcript import CLUSTER_HEALTH, Sight
from tests.soak.night.world import DISK_NODE, GROUP, TOPIC, Night, Surroundings
from tests.support.kafka.single_requests import response
from tests.support.waiting import until
from tests.support.working_thread import WorkingThread

SLOW_SYNC_S: Final = 4.0
THROTTLED_RATE: Final = 0
"""At any other rate one response passes at once, which has all that the follower lacks."""

_MINUTE_MS: Final = 60_000
_PRODUCE_VERSION: Final = 11
_STOP_DEADLINE_S: Final = 30.0
_SHORT_LIFE_S: Final = 0.5


class Fault(Struct, frozen=True, kw_only=True):
    name: str
    strike: Callable[[Night], None]
    says: str
    """What happened, for the key."""

    alerts: frozenset[str]
    """Alerts of which one at least names it."""

    finding: str
    """Words that `kraft cluster health` says of it."""

    log: str = ""
    """The event of a line in some node's log, where health and alerts cannot tell it from another fault."""

    surroundings: Surroundings = Surroundings.PLAIN

    def unnamed(self, sight: Sight) -> str:
        """Return why what is seen does not name the fault; empty if it does."""
        names = {each.name for each in sight.alerts}
        if not self.alerts & names:
            return f"none of {sorted(self.alerts)} fires, but {sorted(names)}"
        code, health = sight.commands[CLUSTER_HEALTH]
        if code == 0 or self.finding not in health:
            return f"kraft cluster health does not say {self.finding!r}: {health}"
        if self.log and not any(self.log in line for lines in sight.logs.values() for line in lines):
            return f"no log says {self.log!r}"
        return ""


def _kill(night: Night) -> None:
    night.follower().kill()


def _pause(night: Night) -> None:
    night.follower().pause()


def _isolate(night: Night) -> None:
    """What others send to the broker is dropped; it reaches everybody."""
    assert night.links is not None
    for name in link_names(night.follower().node_id):
        night.links.poison(name, "timeout", {"timeout": 0}, "upstream")


def _delete_directory(night: Night) -> None:
    node = night.follower()
    (config,) = (each for each in cluster_files.read(night.cluster.directory) if each.node_id == node.node_id)
    for directory in config.log_dirs:
        shutil.rmtree(directory)


def _fill_disk(night: Night) -> None:
    assert night.small_disk is not None
    night.deposed(night.cluster.node(DISK_NODE))
    fill(night.small_disk)


def _slow_disk(night: Night) -> None:
    assert night.slow_disk is not None
    night.deposed(night.cluster.node(DISK_NODE))
    night.slow_disk.slow_syncs(SLOW_SYNC_S)


def _cut_controller(night: Night) -> None:
    assert night.voter_links is not None
    night.voter_links.cut_off(night.controller().node_id, silently=False)


def _hang_transaction(night: Night) -> None:
    """Write a batch of a transaction that no coordinator knows, as of half an hour ago."""
    records = [Record(0, int(time.time() * 1_000) - 30 * _MINUTE_MS, None, b"undecided")]
    batch = build_batch(records, producer_id=4_711, producer_epoch=3, base_sequence=0, transactional=True)
    data = TopicProduceData(name=TOPIC, partition_data=(PartitionProduceData(index=0, records=batch),))
    request = ProduceRequest(transactional_id="gone", acks=-1, timeout_ms=30_000, topic_data=(data,))

    def is_written() -> bool:
        # Two of the three brokers do not lead the partition.
        servers = night.kafka_addresses.split(",")
        answers: list[Any] = [response(server, request, _PRODUCE_VERSION) for server in servers]
        return any(each.responses[0].partition_responses[0].error_code == ErrorCode.NONE for each in answers)

    until(is_written, "the batch was not written")


class ShortLives(WorkingThread):
    """Members of a group that join, read for a moment, and are gone, one after the other."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__("short lives", _STOP_DEADLINE_S)
        self._settings = settings

    def _work(self) -> None:
        while not self._stopping.is_set():
            consumer = Consumer(dict(self._settings))
            consumer.subscribe([TOPIC])
            consumer.consume(1, _SHORT_LIFE_S)
            consumer.close()


def _rebalance(night: Night) -> None:
    settings = {
        "bootstrap.servers": night.kafka_addresses,
        "group.id": GROUP,
        "client.id": f"{GROUP}-2",
        "log_level": "0",
    }
    night.stack.enter_context(ShortLives(settings))


def _throttle(night: Night) -> None:
    """Leave a throttle of a move behind; a follower that was away never catches up."""
    node = night.follower()
    with Admin(night.bootstrap_servers) as admin:
        admin.alter_broker_configs(node.node_id, {"follower.replication.throttled.rate": str(THROTTLED_RATE)})
        admin.alter_topic_configs(TOPIC, {"follower.replication.throttled.replicas": "*"})
    node.terminate()
    # Meanwhile the load writes records that it lacks.
    time.sleep(2)
    node.start()
    night.cluster.wait_ready()


FAULTS: Final = (
    Fault(
        name="killed",
        strike=_kill,
        says="a broker was killed (kill -9)",
        alerts=frozenset({"KraftNodeDown"}),
        finding="is not in service, and did not answer here",
    ),
    Fault(
        name="paused",
        strike=_pause,
        says="a node was paused (SIGSTOP): its process is there, and does not run",
        alerts=frozenset({"KraftNodeDown"}),
        finding="resume it if it is paused",
    ),
    Fault(
        name="isolated",
        strike=_isolate,
        says="a broker was isolated one way: it reaches everybody, and nobody reaches its listeners",
        alerts=frozenset({"KraftBrokerUnreachable"}),
        finding="is in service and leads",
        surroundings=Surroundings.BROKER_LINKS,
    ),
    Fault(
        name="directory",
        strike=_delete_directory,
        says="the log directory of a broker was deleted while it ran",
        # The metadata log is there, too, so the node ends.
        alerts=frozenset({"KraftNodeDown"}),
        finding="is not in service, and did not answer here",
        log="log directory failed",
    ),
    Fault(
        name="full-disk",
        strike=_fill_disk,
        says="the disk of a broker is full",
        alerts=frozenset({"KraftDiskFull"}),
        finding="refuses appends",
        surroundings=Surroundings.SMALL_DISK,
    ),
    Fault(
        name="slow-disk",
        strike=_slow_disk,
        says="the disk of a broker is slow: each sync takes seconds",
        alerts=frozenset({"KraftDiskSlow"}),
        finding="is slow: a sync takes",
        log="disk slow",
        surroundings=Surroundings.SLOW_DISK,
    ),
    Fault(
        name="controller",
        strike=_cut_controller,
        says="the active controller was cut off from the other controllers",
        alerts=frozenset({"KraftVoterSilent"}),
        finding="mend the network between the controllers",
        surroundings=Surroundings.VOTER_LINKS,
    ),
    Fault(
        name="transaction",
        strike=_hang_transaction,
        says="a transaction hangs: consumers of committed records stand still",
        alerts=frozenset({"KraftTransactionHangs"}),
        finding="hanging",
    ),
    Fault(
        name="rebalances",
        strike=_rebalance,
        says="a group rebalances without end, because a member comes and goes",
        alerts=frozenset({"KraftGroupRebalances"}),
        finding="rebalancing again and again",
        log="group rebalances again and again",
    ),
    Fault(
        name="under-replicated",
        strike=_throttle,
        says="a topic is under-replicated: a throttle that was left behind keeps a follower from catching up",
        alerts=frozenset({"KraftUnderReplicated"}),
        finding="a throttle may slow them",
    ),
)
