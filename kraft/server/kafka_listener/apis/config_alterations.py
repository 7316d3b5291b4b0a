"""Shared part of the two APIs that alter configs: forwards all resources together and answers each on its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    error_code: ErrorCode
    error_message: str


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
        outcomes = await self._outcomes(resources, as_value, validate_only)
        return tuple(
            response(
                error_code=outcome.error_code,
                error_message=outcome.error_message or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, outcome in zip(resources, outcomes, strict=True)
        )

    async def _outcomes(
        self,
        resources: Sequence[AnyResource],
        as_value: Callable[[AnyResource], values.ResourceAlteration],
        validate_only: bool,
    ) -> list[_Outcome]:
        named = Counter((each.resource_type, each.resource_name) for each in resources)
        outcomes: dict[int, _Outcome] = {}
        wanted: dict[int, values.ResourceAlteration] = {}
        for number, resource in enumerate(resources):
            try:
                _check_named_once(resource, named[resource.resource_type, resource.resource_name])
                wanted[number] = as_value(resource)
            except Refusal as refusal:
                outcomes[number] = _refused(refusal)
        if wanted:
            made = await self._alter(list(wanted.values()), validate_only)
            outcomes |= dict(zip(wanted, made, strict=True))
        return [outcomes[number] for number in range(len(resources))]

    async def _alter(self, wanted: list[values.ResourceAlteration], validate_only: bool) -> list[_Outcome]:
        try:
            answer = await self._handle(
                values.IncrementalAlterConfigsRequest(
                    resources=wanted, timeout_ms=DEFAULT_TIMEOUT_MS, validate_only=validate_only
                )
            )
        except Refusal as refusal:
            return [_refused(refusal) for _ in wanted]
        return [_Outcome(error_code=each.error_code, error_message=each.error_message) for each in answer.results]


def _check_named_once(resource: Resource, times: int) -> None:
    if times > 1:
        problem = f"resource '{resource.resource_name[:300]}' is in the request {times} times: name it once"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)


def _refused(refusal: Refusal) -> _Outcome:
    return _Outcome(error_code=refusal.error_code, error_message=refusal.message)
