from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.request_context import RequestContext
from kraft.server.kafka_listener.encoded_responses import ELEMENTS_ON_LOOP_MAX
from kraft.server.kafka_listener.handled import HandledApi, refused_as_a_whole
from kraft.server.kafka_listener.repeated_refusals import REPEATED_MIN, RepeatedRefusals
from kraft.server.kafka_listener.requests import ConnectionContext, EncodedMessage
from kraft.wire.api_keys import ApiKey
from kraft.wire.codec import decode
from kraft.wire.declaration import replace
from kraft.wire.schema.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kraft.wire.schema.describe_client_quotas import DescribeClientQuotasResponse
from kraft.wire.schema.list_config_resources import ConfigResource, ListConfigResourcesResponse
from kraft.wire.schema.offset_delete import OffsetDeleteRequest
from kraft.wire.schema.sync_group import SyncGroupResponse
from kraft.wire.schema.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

REQUEST = UpdateFeaturesRequest(timeout_ms=1, feature_updates=())
DONE = UpdateFeaturesResponse(error_code=0, error_message=None)


def version(number: int) -> ConnectionContext:
    return ConnectionContext(version=number, client_id="", peer="")


async def refusing(_: object) -> Any:
    raise Refusal(ErrorCode.INVALID_REQUEST, "no")


async def test_the_handlers_message_is_the_response() -> None:
    asked = []

    async def handle(request: object) -> UpdateFeaturesResponse:
        asked.append(request)
        return DONE

    assert await HandledApi(ApiKey.UPDATE_FEATURES, handle)(REQUEST, version(2)) is DONE
    assert asked == [REQUEST]


async def test_a_refusal_is_in_the_response() -> None:
    response = await HandledApi(ApiKey.UPDATE_FEATURES, refusing)(REQUEST, version(2))
    assert response == UpdateFeaturesResponse(error_code=ErrorCode.INVALID_REQUEST, error_message="no")


async def test_a_refusal_is_said_in_the_way_of_the_row() -> None:
    def refused(request: AlterClientQuotasRequest, refusal: Refusal) -> AlterClientQuotasResponse:
        return AlterClientQuotasResponse(throttle_time_ms=refusal.error_code, entries=())

    request = AlterClientQuotasRequest(entries=(), validate_only=False)
    response = await HandledApi(ApiKey.ALTER_CLIENT_QUOTAS, refusing, refused=refused)(request, version(1))
    assert response == AlterClientQuotasResponse(throttle_time_ms=ErrorCode.INVALID_REQUEST, entries=())


async def test_an_older_version_is_translated_in_both_directions() -> None:
    async def handle(request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        return replace(DONE, throttle_time_ms=request.timeout_ms)

    api = HandledApi(
        ApiKey.UPDATE_FEATURES,
        handle,
        from_version=lambda request, number: replace(request, timeout_ms=10 + number),
        to_version=lambda request, response, number: replace(
            response, error_message=f"{request.timeout_ms} {response.throttle_time_ms} {number}"
        ),
    )
    assert await api(REQUEST, version(1)) == replace(DONE, throttle_time_ms=11, error_message="11 11 1")


async def test_a_handler_that_takes_the_context_gets_it() -> None:
    contexts = []

    async def handle(_: Any, context: RequestContext) -> Any:
        contexts.append(context)
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "none")

    api = HandledApi(ApiKey.OFFSET_DELETE, handle, takes_context=True)
    await api(OffsetDeleteRequest(group_id="g", topics=()), version(0))
    assert contexts == [version(0)]


@pytest.mark.real_time
@pytest.mark.parametrize("elements", [ELEMENTS_ON_LOOP_MAX, ELEMENTS_ON_LOOP_MAX + 1])
async def test_a_response_of_many_elements_is_encoded_in_a_thread(elements: int) -> None:
    resource = ConfigResource(resource_name="orders", resource_type=2)
    listed = ListConfigResourcesResponse(error_code=0, config_resources=(resource,) * elements)

    async def handle(_: object) -> ListConfigResourcesResponse:
        return listed

    response = await HandledApi(ApiKey.LIST_CONFIG_RESOURCES, handle)(REQUEST, version(1))
    if elements <= ELEMENTS_ON_LOOP_MAX:
        assert response is listed
    else:
        assert isinstance(response, EncodedMessage)
        assert decode(response.kind, 1, response.body) == listed


def test_what_a_refusal_leaves_open_is_null_or_empty() -> None:
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "no")
    assert refused_as_a_whole(DescribeClientQuotasResponse, refusal) == DescribeClientQuotasResponse(
        error_code=ErrorCode.INVALID_REQUEST, error_message="no", entries=None
    )
    assert refused_as_a_whole(ListConfigResourcesResponse, refusal) == ListConfigResourcesResponse(
        error_code=ErrorCode.INVALID_REQUEST, config_resources=()
    )
    assert refused_as_a_whole(SyncGroupResponse, refusal) == SyncGroupResponse(
        error_code=ErrorCode.INVALID_REQUEST, assignment=b""
    )
    with pytest.raises(AssertionError, match="has no place for an error"):
        refused_as_a_whole(AlterClientQuotasResponse, refusal)


async def test_a_client_that_is_answered_now_and_then_does_not_only_repeat_a_refused_request() -> None:
    elsewhere = frozenset({TopicPartition("orders", 0)})
    misdirected: list[frozenset[TopicPartition]] = []

    async def handle(_: object) -> UpdateFeaturesResponse:
        return DONE

    api = HandledApi(ApiKey.UPDATE_FEATURES, handle, misdirected=lambda _: misdirected[-1])
    call = ConnectionContext(version=2, repeated=RepeatedRefusals())
    for _ in range(3):
        for refused in [elsewhere] * REPEATED_MIN + [frozenset[TopicPartition]()]:
            misdirected.append(refused)
            assert await api(REQUEST, call) is DONE
            await asyncio.sleep(0.2)
