"""ListOffsets as a client of Kafka's protocol sees it: by versions, and on a connection that repeats a request."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from kraft.metadata.image import MetadataImage
from kraft.metadata.records import PartitionChanged
from kraft.model.errors import ErrorCode
from kraft.model.ids import NO_BROKER, BrokerId, LeaderEpoch, PartitionEpoch
from kraft.server.handlers.list_offsets import ListOffsetsHandler, led_elsewhere
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.handled import HandledApi
from kraft.server.kafka_listener.repeated_refusals import REPEATED_MIN, RepeatedRefusals
from kraft.server.kafka_listener.requests import ConnectionContext
from kraft.server.loop.slow_reads import SlowReads
from kraft.wire.api_keys import ApiKey
from kraft.wire.schema.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.support.cluster_images import ORDERS
from tests.support.log.transactional_log import VERIFIED, transactional
from tests.support.server.replicas import Broker, InlineExecutor, append_to, batch, lead
from tests.support.virtual_time import run_virtually
from tests.unit.server.kafka_listener.apis.listener import IMAGE, answered, partitions_of, versions_of

VERSIONS = versions_of(ListOffsetsRequest)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    """A broker with four committed records in two batches, each at 1,000 and 1,001 ms."""
    broker = Broker(tmp_path, partitions=partitions_of())
    partition = broker.open()
    lead(partition, replicas=(1,), epoch=3)
    for values in (("a", "b"), ("c", "d")):
        append_to(partition, batch(*values), 1)
    broker.sync()
    return broker


def api_of(broker: Broker, image: MetadataImage = IMAGE) -> HandledApi:
    """That of broker 1, the leader of all partitions but one."""
    return HandledApi(
        ApiKey.LIST_OFFSETS,
        ListOffsetsHandler(broker.partitions, SlowReads(InlineExecutor())).handle,
        takes_context=True,
        misdirected=partial(led_elsewhere, lambda: image, BrokerId(1)),
    )


def ask(broker: Broker, version: int, *topics: ListOffsetsTopic, isolation_level: int = 0) -> ListOffsetsResponse:
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
    api = api_of(broker)
    response: ListOffsetsResponse = run_virtually(answered(api, request, version, ListOffsetsResponse))
    return response


def topic(name: str, *partitions: tuple[int, int], epoch: int = -1) -> ListOffsetsTopic:
    """Numbers of partitions and timestamps."""
    return ListOffsetsTopic(
        name=name,
        partitions=tuple(
            ListOffsetsPartition(partition_index=number, timestamp=timestamp, current_leader_epoch=epoch)
            for number, timestamp in partitions
        ),
    )


def only(response: ListOffsetsResponse) -> ListOffsetsPartitionResponse:
    ((result,),) = [each.partitions for each in response.topics]
    return result


@pytest.mark.parametrize(
    ("timestamp", "known_from", "found"),
    [
        (-1, 1, (4, -1)),
        (-2, 1, (0, -1)),
        (-3, 7, (1, 1_001)),
        (-4, 8, (0, -1)),
        (-5, 9, (-1, -1)),
        (-6, 11, (-1, -1)),
        (1_001, 1, (1, 1_001)),
        (9_000, 1, (-1, -1)),
    ],
)
def test_every_special_place_in_the_versions_that_know_it_and_every_time(
    broker: Broker, timestamp: int, known_from: int, found: tuple[int, int]
) -> None:
    for version in VERSIONS:
        is_known = version >= known_from
        result = only(ask(broker, version, topic("orders", (0, timestamp))))
        assert result.error_code == (0 if is_known else ErrorCode.UNSUPPORTED_VERSION), version
        assert (result.partition_index, result.offset, result.timestamp) == (0, *(found if is_known else (-1, -1)))
        # The epoch is that of the record found.
        assert result.leader_epoch == (3 if version >= 4 and is_known and found[0] >= 0 else -1), version


def test_a_place_that_the_version_does_not_know_leaves_the_others_in_their_order(broker: Broker) -> None:
    (answered,) = ask(broker, 6, topic("orders", (0, -3), (0, -1), (0, -4), (0, -2))).topics
    assert [(each.error_code, each.offset) for each in answered.partitions] == [(35, -1), (0, 4), (35, -1), (0, 0)]


def test_the_end_of_committed_records_is_the_last_stable_offset(broker: Broker) -> None:
    partition = broker.partitions.by_name("orders", 0)
    append_to(partition, transactional(7, 0, "e", "f"), 1, VERIFIED)
    broker.sync()
    for version in VERSIONS:
        asked = topic("orders", (0, -1))
        ends = [only(ask(broker, version, asked, isolation_level=level)).offset for level in (0, 1)]
        assert ends == ([6, 4] if version >= 2 else [6, 6])


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_of_several_topics_are_answered_in_the_requests_order(broker: Broker, version: int) -> None:
    response = ask(broker, version, topic("payments", (0, -1)), topic("orders", (2, -1), (0, -1), (7, -1)))
    assert [
        (each.name, [(result.partition_index, result.error_code, result.offset) for result in each.partitions])
        for each in response.topics
    ] == [
        ("payments", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]),
        (
            "orders",
            [
                (2, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
                (0, 0, 4),
                (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            ],
        ),
    ]


# --- a client that repeats a request at the wrong broker ---


async def asked_for_ever(api: HandledApi, *topics: ListOffsetsTopic, times: int = 3 * REPEATED_MIN) -> int:
    """Return how many of these requests were answered, every 100 ms one, before the connection closed."""
    call = ConnectionContext(version=7, client_id="", peer="", repeated=RepeatedRefusals())
    for count in range(times):
        try:
            await api(ListOffsetsRequest(replica_id=-1, topics=topics[count % len(topics) :][:1]), call)
        except CloseConnection:
            return count
        await asyncio.sleep(0.1)
    return times


def led_by(leader: int) -> MetadataImage:
    """`orders` with another leader of its third partition, which is not led by the broker."""
    changed = PartitionChanged(
        topic_id=ORDERS,
        partition=2,
        leader=BrokerId(leader),
        isr=[BrokerId(2), BrokerId(1)],
        leader_epoch=LeaderEpoch(1),
        partition_epoch=PartitionEpoch(1),
    )
    return IMAGE.replay([changed])


async def test_a_client_that_only_repeats_its_request_at_a_broker_that_does_not_lead_is_disconnected(
    broker: Broker,
) -> None:
    assert await asked_for_ever(api_of(broker), topic("orders", (2, -1))) == REPEATED_MIN


async def test_answers_for_other_partitions_of_the_request_do_not_help_such_a_client(broker: Broker) -> None:
    assert await asked_for_ever(api_of(broker), topic("orders", (0, -1), (2, -1))) == REPEATED_MIN


async def test_a_client_whose_other_requests_are_answered_is_not_disconnected(broker: Broker) -> None:
    asked = topic("orders", (2, -1)), topic("orders", (0, -1))
    assert await asked_for_ever(api_of(broker), *asked, times=100) == 100


@pytest.mark.parametrize("leader", [1, NO_BROKER])
async def test_a_client_that_may_have_fresher_metadata_than_the_broker_is_not_disconnected(
    broker: Broker, leader: int
) -> None:
    assert await asked_for_ever(api_of(broker, led_by(leader)), topic("orders", (2, -1)), times=100) == 100


async def test_a_client_that_asks_for_what_does_not_exist_is_not_disconnected(broker: Broker) -> None:
    assert await asked_for_ever(api_of(broker), topic("payments", (0, -1)), times=100) == 100
