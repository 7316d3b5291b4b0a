"""What is collected of parts that are loading, that are not active, or that somebody is refused by."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.quorum.counts import QuorumCounts
from kraft.quorum.port import QuorumStatus
from kraft.server.loop.watch import LoopFacts
from kraft.server.metrics import controller_metrics, coordinator_metrics, listener_metrics, topic_metrics
from kraft.server.metrics.metric import Metric
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.snapshot import Snapshot
from tests.support.cluster_images import ORDERS, cluster, partition, with_topic
from tests.support.server.replicas import Broker, lead

LOADING = Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is loading")


def parts(**of_node: Any) -> NodeParts:
    config = SimpleNamespace(node_id=1, metrics=SimpleNamespace(per_partition=True))
    return NodeParts(config=cast(Any, config), loop=LoopFacts(), **of_node)


def labels(snapshot: Snapshot, metric: Metric) -> list[tuple[str, ...]]:
    return snapshot.values[metric].labels if metric in snapshot.values else []


@pytest.mark.parametrize("is_active", [True, False])
async def test_only_the_active_controller_tells_of_the_cluster(is_active: bool) -> None:
    status = QuorumStatus(leader_id=2, term=1, commit_index=1, voters=())
    controller = SimpleNamespace(
        host=SimpleNamespace(active=is_active, unclean_elections=0, image=cluster(1)),
        quorum=SimpleNamespace(describe=lambda: status),
        quorum_counts=QuorumCounts(),
    )
    snapshot = Snapshot()
    await controller_metrics.collect(parts(controller=controller), snapshot)
    assert snapshot.values[controller_metrics.ACTIVE].numbers == [is_active]
    assert (controller_metrics.FENCED in snapshot.values) == is_active


async def test_a_coordinator_that_is_loading_keeps_nothing_else_from_being_told() -> None:
    def refuse(*_: object) -> None:
        raise LOADING

    class Lags:
        def group_ids(self) -> list[str]:
            return ["moving"]

        async def of_group(self, *_: object) -> None:
            refuse()

    coordinators = SimpleNamespace(
        groups=SimpleNamespace(views=refuse, rebalances=SimpleNamespace(total=4, unsettled=1)),
        transactions=SimpleNamespace(coordinators=SimpleNamespace(all_committed=refuse)),
        lags=Lags(),
    )
    snapshot = Snapshot()
    await coordinator_metrics.collect(parts(broker=SimpleNamespace(coordinators=coordinators)), snapshot)
    assert snapshot.values.keys() == {coordinator_metrics.REBALANCES, coordinator_metrics.UNSETTLED}


def test_logins_that_failed_are_not_among_those_that_did_not() -> None:
    snapshot = Snapshot()
    counts = {("SASL_SSL", "NONE"): 3, ("SASL_SSL", "SASL_AUTHENTICATION_FAILED"): 2}
    listener_metrics.collect_logins(counts, snapshot)
    assert labels(snapshot, listener_metrics.LOGINS) == [("SASL_SSL",)]
    assert labels(snapshot, listener_metrics.FAILED_LOGINS) == [("SASL_SSL", "SASL_AUTHENTICATION_FAILED")]


async def test_replicas_that_a_reassignment_adds_are_counted_by_kafka_exporter_only(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    lead(broker.open(topic_id=ORDERS), replicas=(1, 2, 3), epoch=1)
    image = with_topic(cluster(1, 2, 3), [1, 2, 3], isr=[1, 2])
    moving = replace(partition(image), adding_replicas=(BrokerId(3),))
    current = SimpleNamespace(partition_by_id=lambda *_: moving)
    snapshot = Snapshot()
    node = SimpleNamespace(
        logs=SimpleNamespace(partitions=broker.partitions), metadata=SimpleNamespace(image=lambda: current)
    )
    await topic_metrics.collect(parts(broker=node), snapshot)
    found = {metric: values.numbers for metric, values in snapshot.values.items()}
    assert (found[topic_metrics.REPLICAS], found[topic_metrics.UNDER_REPLICATED]) == ([2], [False])
    assert (found[topic_metrics.TOPIC_REPLICAS], found[topic_metrics.TOPIC_UNDER_REPLICATED]) == ([3], [True])
