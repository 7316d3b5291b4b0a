"""The topics of coordinators are created on demand, as the brokers' settings say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from structlog.testing import capture_logs

from kraft.metadata.image import MetadataImage
from kraft.metadata.new_topics import new_topic
from kraft.metadata.topic_decisions import ControllerDefaults, create_topics
from kraft.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.cluster.controller_client import NoController
from kraft.server.config.loading import load
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.processes import processes
from kraft.server.coordinator import internal_topic
from kraft.server.coordinator.internal_topic import InternalTopic
from kraft.wire.schema.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.support.cluster_images import cluster
from tests.support.server.fake_controllers import FakeControllers
from tests.support.server.replicas import settle
from tests.unit.server.config.files import COMBINED


def configs(topic: CreatableTopic) -> dict[str, str | None]:
    return {config.name: config.value for config in topic.configs}


def result(code: ErrorCode, message: str | None = None) -> CreatableTopicResult:
    return CreatableTopicResult(name=OFFSETS_TOPIC, error_code=code, error_message=message)


CREATED = CreateTopicsResponse(topics=(result(ErrorCode.NONE),))
EXISTS = CreateTopicsResponse(topics=(result(ErrorCode.TOPIC_ALREADY_EXISTS),))
TOO_FEW = CreateTopicsResponse(topics=(result(ErrorCode.INVALID_REPLICATION_FACTOR, "1 broker is too few"),))


def offsets_topic(
    tmp_path: Path, *settings: str, brokers: int = 1, controllers: FakeControllers | None = None
) -> InternalTopic:
    return _topic(
        tmp_path, OFFSETS_TOPIC, internal_topic.offsets_topic, *settings, brokers=brokers, controllers=controllers
    )


def transactions_topic(tmp_path: Path, *settings: str, brokers: int = 1) -> InternalTopic:
    return _topic(tmp_path, TRANSACTIONS_TOPIC, internal_topic.transactions_topic, *settings, brokers=brokers)


def _topic(
    tmp_path: Path,
    name: str,
    plan: Callable[[NodeConfig, bool], CreatableTopic],
    *settings: str,
    brokers: int,
    controllers: FakeControllers | None = None,
) -> InternalTopic:
    file = tmp_path / "server.properties"
    file.write_text("\n".join([COMBINED, *settings]))
    image = cluster(*range(1, brokers + 1))
    client = (controllers or FakeControllers(create_topics=CREATED)).as_client()
    return InternalTopic(name, plan, load(file), lambda: image, client, _no_crash)


def _no_crash(reason: str) -> None:
    raise AssertionError(reason)


def test_it_is_compacted_and_has_kafkas_size(tmp_path: Path) -> None:
    assert offsets_topic(tmp_path, brokers=3).plan() == new_topic(
        OFFSETS_TOPIC,
        partitions=50,
        replication_factor=3,
        configs={"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
    )


def test_settings_shape_it(tmp_path: Path) -> None:
    settings = (
        "offsets.topic.num.partitions=4",
        "offsets.topic.replication.factor=2",
        "offsets.topic.segment.bytes=5000",
    )
    plan = offsets_topic(tmp_path, *settings).plan()
    assert (plan.num_partitions, plan.replication_factor, configs(plan)["segment.bytes"]) == (4, 2, "5000")


def test_a_node_that_is_the_whole_cluster_has_one_replica_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    assert offsets_topic(tmp_path).plan().replication_factor == 1
    assert offsets_topic(tmp_path, "offsets.topic.replication.factor=3").plan().replication_factor == 3


def test_a_machine_that_is_the_whole_cluster_has_one_replica_too(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"{COMBINED}node.processes=2\n")
    client = FakeControllers(create_topics=CREATED).as_client()

    def replicas(image: MetadataImage) -> list[int]:
        planned = [
            InternalTopic(OFFSETS_TOPIC, internal_topic.offsets_topic, each, lambda: image, client, _no_crash).plan()
            for each in processes(load(file))
        ]
        return [topic.replication_factor for topic in planned]

    one_machine = {1: "machine:1", 1001: "machine:1"}
    two_machines = one_machine | {2: "machine:2"}
    assert replicas(cluster(*one_machine, racks=one_machine)) == [1, 1]
    assert replicas(cluster(*two_machines, racks=two_machines)) == [3, 3]


def test_transactions_are_never_lost_by_an_unclean_election(tmp_path: Path) -> None:
    assert transactions_topic(tmp_path, brokers=3).plan() == new_topic(
        TRANSACTIONS_TOPIC,
        partitions=50,
        replication_factor=3,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "2",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        },
    )


def test_min_isr_of_transactions_is_never_above_the_replication_factor(tmp_path: Path) -> None:
    plan = transactions_topic(tmp_path).plan()
    assert (plan.replication_factor, configs(plan)["min.insync.replicas"]) == (1, "1")
    settings = ("transaction.state.log.replication.factor=2", "transaction.state.log.num.partitions=3")
    plan = transactions_topic(tmp_path, *settings, "transaction.state.log.segment.bytes=5000").plan()
    assert (plan.num_partitions, plan.replication_factor, configs(plan)["min.insync.replicas"]) == (3, 2, "2")
    assert configs(plan)["segment.bytes"] == "5000"


def test_the_controller_accepts_the_plan(tmp_path: Path) -> None:

    request = CreateTopicsRequest(topics=(offsets_topic(tmp_path).plan(),), timeout_ms=1)
    decision = create_topics(
        cluster(1), request, topic_ids=[UUID(int=9)], placement_start=0, defaults=ControllerDefaults()
    )
    assert decision.response.topics[0].error_code is ErrorCode.NONE


async def test_it_is_created_once_and_clients_retry_meanwhile(tmp_path: Path) -> None:
    controllers = FakeControllers(create_topics=CREATED)
    controllers.takes_s = 1.0
    topic = offsets_topic(tmp_path, controllers=controllers)
    for _ in range(3):
        topic.create()
        refusal = topic.missing()
        assert refusal.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert refusal.message == f"topic {OFFSETS_TOPIC} is being created; retry"
        await settle()
    await topic.close()
    assert len(controllers.requests("create_topics")) <= 1


async def test_a_failed_creation_is_logged_once_and_tried_again(tmp_path: Path) -> None:
    controllers = FakeControllers(create_topics=TOO_FEW)
    topic = offsets_topic(tmp_path, controllers=controllers)
    with capture_logs() as logs:
        for _ in range(3):
            topic.create()
            await settle()
    assert [(event["event"], event["reason"]) for event in logs] == [("topic not created", "1 broker is too few")]
    assert len(controllers.requests("create_topics")) == 3
    assert topic.missing().message.endswith("1 broker is too few")
    controllers.answers["create_topics"] = EXISTS
    topic.create()
    await settle()
    assert topic.missing().message.endswith("; retry")
    await topic.close()


async def test_without_a_controller_it_is_tried_again(tmp_path: Path) -> None:
    for failure in (NoController("no controller is active"), Refusal(ErrorCode.NOT_CONTROLLER, "no controller")):
        topic = offsets_topic(tmp_path, controllers=FakeControllers(create_topics=failure))
        topic.create()
        await settle()
        assert "no controller" in topic.missing().message
        await topic.close()
