from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import Struct

from kraft.model.configs import ConfigResourceType
from kraft.model.ids import BrokerEpoch, BrokerId
from kraft.model.liveness import LivenessRequest
from kraft.rpc.calls import DESCRIBE_CONFIGS
from kraft.rpc.message_elements import count_elements
from kraft.rpc.value_elements import ELEMENT_BYTES, count_value_elements
from kraft.wire.schema.describe_client_quotas import DescribeClientQuotasResponse
from kraft.wire.schema.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kraft.wire.schema.sync_group import SyncGroupRequest
from tests.support.classic_requests import assigning
from tests.support.quotas import alteration, asked

ENOUGH = 1_000


class Labelled(Struct, frozen=True):
    labels: Mapping[str, str]


def resources(count: int, keys: int) -> DescribeConfigsRequest:
    named = DescribeConfigsResource(
        resource_type=ConfigResourceType.TOPIC, resource_name="orders", configuration_keys=("retention.ms",) * keys
    )
    return DescribeConfigsRequest(resources=(named,) * count)


def test_elements_of_lists_inside_of_others_and_of_mappings_count() -> None:
    assert count_value_elements(resources(3, 2), ENOUGH) == 3 + 6
    assert count_value_elements(Labelled({"a": "1", "b": "2"}), ENOUGH) == 2


def test_many_bytes_count_as_elements() -> None:
    large = {"a": bytes(3 * ELEMENT_BYTES), "b": bytes(ELEMENT_BYTES - 1)}
    sync = SyncGroupRequest(group_id="a", generation_id=1, member_id="b", assignments=assigning(large))
    assert count_value_elements(sync, ENOUGH) == 2 + 3


def test_a_value_without_lists_has_no_elements() -> None:
    assert count_value_elements(LivenessRequest(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(7)), ENOUGH) == 0


@pytest.mark.parametrize(("count", "keys"), [(ENOUGH, 0), (ENOUGH + 1, 0), (1, 5 * ENOUGH), (500, 500)])
def test_the_count_ends_when_there_are_enough(count: int, keys: int) -> None:
    assert (count_value_elements(resources(count, keys), ENOUGH) > ENOUGH) == (count * (1 + keys) > ENOUGH)


def test_a_value_has_as_many_elements_as_its_message() -> None:
    codec, value = DESCRIBE_CONFIGS.request, resources(7, 5)
    data = codec.serialize(codec.to_message(value))
    assert count_elements(data, codec.message_type.DESCRIPTOR, ENOUGH) == count_value_elements(value, ENOUGH)


def test_elements_of_kafkas_messages_count_in_the_same_way() -> None:
    each = alteration({"user": "anna", "client-id": "loader"}, producer_byte_rate=1, consumer_byte_rate=None)
    assert count_value_elements(asked(each, each), ENOUGH) == 2 + 2 * (2 + 2)
    assert count_value_elements(DescribeClientQuotasResponse(error_code=0, error_message="", entries=None), ENOUGH) == 0
