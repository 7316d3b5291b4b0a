from __future__ import annotations

import pytest

from kraft.metadata.image import EMPTY_IMAGE
from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.apis.leaders import NO_LEADER, Leaders
from kraft.wire.declaration import ZERO_UUID
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.unit.server.kafka_listener.apis.listener import IMAGE, UNKNOWN_ID, leaders


def test_a_topic_is_named_by_its_name_or_found_by_its_id() -> None:
    assert leaders().topic_name("whatever", ZERO_UUID) == "whatever"
    assert leaders().topic_name("", ORDERS) == "orders"
    assert leaders().topic_name("", UNKNOWN_ID) is None


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_a_client_that_asked_the_wrong_broker_learns_the_leader(code: ErrorCode) -> None:
    assert leaders().current_leader("orders", 2, code) == (2, 0)
    assert leaders().current_leader("orders", 9, code) == NO_LEADER
    assert leaders().current_leader("payments", 0, code) == NO_LEADER


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR])
def test_for_other_outcomes_no_leader_is_named(code: ErrorCode) -> None:
    assert leaders().current_leader("orders", 2, code) == NO_LEADER


def test_brokers_are_listed_once_each_with_the_address_of_the_listener() -> None:
    image = with_topic(cluster(1, 2, racks={2: "cellar"}), [1])
    found = leaders(image).endpoints([2, -1, 1, 2, 9])
    assert [(broker_id, endpoint.port, rack) for broker_id, endpoint, rack in found] == [
        (1, 9095, ""),
        (2, 9096, "cellar"),
    ]
    assert Leaders(lambda: image, "PLAINTEXT").endpoints([1]) == []


def test_the_metadata_of_the_moment_counts() -> None:
    image = EMPTY_IMAGE
    asked = Leaders(lambda: image, "GRPC")
    assert asked.topic_name("", ORDERS) is None
    image = IMAGE
    assert asked.topic_name("", ORDERS) == "orders"
