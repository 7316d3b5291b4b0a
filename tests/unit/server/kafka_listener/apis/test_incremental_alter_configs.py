from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kraft.model.configs import (
    ConfigAlteration,
    ConfigOperation,
    ConfigResourceType,
    ResourceAlteration,
    ResourceAlterationResult,
)
from kraft.model.configs import IncrementalAlterConfigsRequest as Asked
from kraft.model.configs import IncrementalAlterConfigsResponse as Answer
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.incremental_alter_configs import IncrementalAlterConfigsApi
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of


class Controller:
    def __init__(self) -> None:
        self.asked: list[Asked] = []

    async def __call__(self, request: Asked) -> Answer:
        self.asked.append(request)
        return Answer(
            results=[
                ResourceAlterationResult(resource_type=each.resource_type, resource_name=each.resource_name)
                for each in request.resources
            ]
        )


def resource(name: str, *configs: tuple[str, int, str | None], kind: int = 2) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in configs
        ),
    )


def alter(
    handle: Any, *resources: AlterConfigsResource, version: int = 1, validate_only: bool = False
) -> list[tuple[int, str, int, str | None]]:
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    api = IncrementalAlterConfigsApi(handle)
    response = asyncio.run(answered(api, request, version, IncrementalAlterConfigsResponse))
    return [
        (each.resource_type, each.resource_name, each.error_code, each.error_message) for each in response.responses
    ]


@pytest.mark.parametrize("version", versions_of(IncrementalAlterConfigsRequest))
def test_single_configs_are_altered(version: int) -> None:
    controller = Controller()
    asked = resource(
        "orders", ("a", 0, "1"), ("b", 1, "a value that DELETE has no use for"), ("c", 2, "x"), ("d", 3, "y")
    )
    assert alter(controller, asked, version=version, validate_only=True) == [(2, "orders", 0, None)]
    (request,) = controller.asked
    assert request.validate_only
    assert request.resources == [
        ResourceAlteration(
            resource_type=ConfigResourceType.TOPIC,
            resource_name="orders",
            alterations=[
                ConfigAlteration(key="a", operation=ConfigOperation.SET, value="1"),
                ConfigAlteration(key="b", operation=ConfigOperation.DELETE),
                ConfigAlteration(key="c", operation=ConfigOperation.APPEND, value="x"),
                ConfigAlteration(key="d", operation=ConfigOperation.SUBTRACT, value="y"),
            ],
        )
    ]


def test_an_operation_that_does_not_exist_is_refused_and_the_other_resources_are_altered() -> None:
    controller = Controller()
    bad, good = alter(controller, resource("bad", ("a", 9, "1")), resource("good", ("a", 0, "1")))
    assert bad == (2, "bad", ErrorCode.INVALID_REQUEST, "config 'a': unknown operation 9")
    assert good == (2, "good", 0, None)
    assert [each.resource_name for each in controller.asked[0].resources] == ["good"]


def test_a_resource_that_is_in_a_request_twice_is_not_altered() -> None:
    controller = Controller()
    results = alter(controller, resource("orders", ("a", 0, "1")), resource("orders", ("a", 9, "2")))
    assert [code for _, _, code, _ in results] == [ErrorCode.INVALID_REQUEST] * 2
    assert controller.asked == []


def test_one_name_may_be_that_of_a_topic_and_of_a_broker() -> None:
    results = alter(Controller(), resource("1", ("a", 0, "1")), resource("1", ("a", 0, "1"), kind=4))
    assert results == [(2, "1", 0, None), (4, "1", 0, None)]


def test_a_resource_of_an_unknown_type_is_answered_with_its_number() -> None:
    results = alter(Controller(), resource("1", ("a", 0, "1"), kind=99), resource("2", ("a", 9, "1"), kind=98))
    assert [(kind, name) for kind, name, _, _ in results] == [(99, "1"), (98, "2")]


def test_results_are_matched_to_resources_by_name() -> None:
    async def in_reverse(request: Asked) -> Answer:
        results = [
            ResourceAlterationResult(
                resource_type=each.resource_type, resource_name=each.resource_name, error_message=each.resource_name
            )
            for each in request.resources
        ]
        return Answer(results=results[::-1])

    assert alter(in_reverse, resource("a"), resource("b")) == [(2, "a", 0, "a"), (2, "b", 0, "b")]


def test_a_request_that_is_refused_as_a_whole_is_refused_resource_by_resource() -> None:
    async def refuse(request: Asked) -> Answer:
        raise Refusal(ErrorCode.REQUEST_TIMED_OUT, "late")

    assert alter(refuse, resource("a"), resource("b")) == [(2, "a", 7, "late"), (2, "b", 7, "late")]
