"""Shared part of the two APIs that alter configs: forwards all resources together and answers each on its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from kraft.model import configs as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.timeouts import DEFAULT_TIMEOUT_MS

Handle = Callable[[values.IncrementalAlterConfigsRequest], Awaitable[values.IncrementalAlterConfigsResponse]]


class Resource(Protocol):
    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


AnyResource = TypeVar("AnyResource", bound=Resource)
Response_co = TypeVar("Response_co", covariant=True)


class ResourceResponse(Protocol[Response_co]):
    """Constructor of one result; both APIs have their own struct with these same fields."""

    def __call__(
        self, *, error_code: int, error_message: str | None, resource_type: int, resource_name: str
    ) -> Response_co: ...


class Alterations:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def responses(
        self,
        resources: Sequence[AnyResource],
        as_value: Callable[[AnyResource], values.ResourceAlteration],
        response: ResourceResponse[Response_co],
        *,
        validate_only: bool,
    ) -> tuple[Response_co, ...]:
        """Alter the resources and return one response each, in their order.

        `as_value` raises Refusal for a resource that cannot be forwarded.
        """
        results = {_key(result): result for result in await self._results(resources, as_value, validate_only)}
        return tuple(_response(resource, results[_key(resource)], response) for resource in resources)

    async def _results(
        self,
        resources: Sequence[AnyResource],
        as_value: Callable[[AnyResource], values.ResourceAlteration],
        validate_only: bool,
    ) -> list[values.ResourceAlterationResult]:
        named = Counter(map(_key, resources))
        refused: list[values.ResourceAlterationResult] = []
        wanted: list[values.ResourceAlteration] = []
        for resource in resources:
            try:
                _check_named_once(resource, named[_key(resource)])
                wanted.append(as_value(resource))
            except Refusal as refusal:
                refused.append(_refused(resource, refusal))
        return refused + (await self._alter(wanted, validate_only) if wanted else [])

    async def _alter(
        self, wanted: list[values.ResourceAlteration], validate_only: bool
    ) -> list[values.ResourceAlterationResult]:
        try:
            answer = await self._handle(
                values.IncrementalAlterConfigsRequest(
                    resources=wanted, timeout_ms=DEFAULT_TIMEOUT_MS, validate_only=validate_only
                )
            )
        except Refusal as refusal:
            return [_refused(resource, refusal) for resource in wanted]
        return answer.results


def _key(resource: Resource) -> tuple[values.ConfigResourceType, str]:
    """Return what a result is matched to its resource by."""
    return values.ConfigResourceType(resource.resource_type), resource.resource_name


def _response(
    resource: Resource, result: values.ResourceAlterationResult, response: ResourceResponse[Response_co]
) -> Response_co:
    return response(
        error_code=result.error_code,
        error_message=result.error_message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _check_named_once(resource: Resource, times: int) -> None:
    if times > 1:
        problem = f"resource '{resource.resource_name[:300]}' is in the request {times} times: name it once"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)


def _refused(resource: Resource, refusal: Refusal) -> values.ResourceAlterationResult:
    resource_type, resource_name = _key(resource)
    return values.ResourceAlterationResult(
        resource_type=resource_type,
        resource_name=resource_name,
        error_code=refusal.error_code,
        error_message=refusal.message,
    )
