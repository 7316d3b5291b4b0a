"""How APIs use data, and what notes it around their handlers. Guards stand before it: what is refused is no use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from kraft.model.errors import ErrorCode
from kraft.model.principal import Principal
from kraft.model.request_context import RequestContext
from kraft.rpc.client_gate import CALLER
from kraft.server.access.data_audit import DataAudit, Uses
from kraft.server.apis.api import Api
from kraft.server.apis.audited import code_of
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.config.access_settings import DataAccess

_Handler = Callable[..., Awaitable[Any]]


def _topics(request: Any, _: object) -> Iterator[str]:
    return (each.topic for each in request.partitions)


def _topic(request: Any, _: object) -> tuple[str]:
    return (request.topic,)


def _group(request: Any, response: Any) -> tuple[str, ...]:
    return () if code_of(response) else (request.group_id,)


def _group_of_offsets(request: Any, response: Any) -> tuple[str, ...]:
    codes = (each.error_code for topic in response.topics for each in topic.partitions)
    return (request.group_id,) if any(code == ErrorCode.NONE for code in codes) else ()


def _groups(_: object, response: Any) -> Iterator[str]:
    return (each.group_id for each in response.groups if each.error_code == ErrorCode.NONE)


WRITES: Final = Uses(DataAccess.WRITES, _topics, is_known_at_once=True)
PLAIN_WRITES: Final = Uses(DataAccess.WRITES, _topic, is_known_at_once=True)
READS: Final = Uses(DataAccess.READS, _topics, is_known_at_once=True)
PLAIN_READS: Final = Uses(DataAccess.READS, _topic, is_known_at_once=True)
MEMBERSHIP: Final = Uses(DataAccess.GROUPS, _group)
COMMITS: Final = Uses(DataAccess.GROUPS, _group_of_offsets)
OFFSETS: Final = Uses(DataAccess.GROUPS, _groups)


def noting(api: Api[Any, Any], broker: BrokerSide) -> tuple[Uses, DataAudit] | None:
    """Return how an API uses data, and what notes it; None if nobody wants to know."""
    audit = None if api.uses is None else broker.data_audits.get(api.uses.access)
    return None if audit is None or api.uses is None else (api.uses, audit)


def noted_calls(api: Api[Any, Any], broker: BrokerSide, handler: _Handler) -> _Handler:
    """Return the handler of a gRPC call. What nodes do themselves is not noted."""
    wanted = noting(api, broker)
    if wanted is None:
        return handler
    uses, audit = wanted

    def answer(request: Any, *context: RequestContext) -> Awaitable[Any]:
        caller, answered = CALLER.get(), handler(request, *context)
        if caller.is_node:
            return answered
        if uses.is_known_at_once:
            audit.used(caller.principal, caller.peer, uses.names(request, None))
            return answered
        return _noted(uses, audit, (caller.principal, caller.peer), request, answered)

    return answer


def noted_requests(wanted: tuple[Uses, DataAudit], handler: _Handler, *, takes_context: bool) -> _Handler:
    """Return the handler of a request of Kafka's protocol, which takes its context."""
    uses, audit = wanted

    def answer(request: Any, context: RequestContext) -> Awaitable[Any]:
        answered = handler(request, context) if takes_context else handler(request)
        return _noted(uses, audit, (context.principal, context.peer), request, answered)

    return answer


async def _noted(
    uses: Uses, audit: DataAudit, client: tuple[Principal, str], request: Any, answered: Awaitable[Any]
) -> Any:
    response = await answered
    audit.used(*client, uses.names(request, response))
    return response
