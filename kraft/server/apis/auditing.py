"""Puts the audit around the handlers of APIs with which administrators change something, guards included."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.request_context import RequestContext, host_of
from kraft.rpc.client_gate import CALLER
from kraft.rpc.on_behalf import Client
from kraft.server.access.audit import DETAIL_CHARACTERS_MAX, NAME_CHARACTERS_MAX, Audit, AuditEvent
from kraft.server.apis.api import Api
from kraft.server.apis.audited import Outcome, code_of
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.apis.handlers import never_refused
from kraft.server.handlers.metadata import CreationNoted
from kraft.server.loop.turns import Turns

NOTED_AT_ONCE: Final = 500
"""Events before other tasks have their turn: each takes some microseconds."""

UNDER_WAY_MAX: Final = 100
"""Requests of one API at one listener that are carried out though their clients have gone."""

_Handler = Callable[..., Awaitable[Any]]


class Asking(NamedTuple):
    """A client, and what it calls itself."""

    client: Client
    client_id: str


class Auditor:
    """Notes what becomes of the requests of one API at one listener."""

    def __init__(self, api: Api[Any, Any], audit: Audit, listener: str) -> None:
        assert api.audited is not None, "the API is not audited"
        self._api = api
        self._audited = api.audited
        self._audit = audit
        self._listener = listener
        self._name = api.name
        self._under_way: set[asyncio.Task[Any]] = set()

    async def audited(self, client: Asking, request: Any, answer: Awaitable[Any]) -> Any:
        """Return the answer, and note what became of the request.

        It is carried out, and noted, when its client disconnects meanwhile: otherwise the controller would do what
        nobody is told of, and who closes a connection soon enough would have done it unseen.
        """
        if len(self._under_way) >= UNDER_WAY_MAX:
            # Requests of clients that have gone are in no budget of memory.
            return await self._answered(client, request, answer)
        task = asyncio.ensure_future(self._answered(client, request, answer))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _answered(self, client: Asking, request: Any, answer: Awaitable[Any]) -> Any:
        try:
            response = await answer
        except Refusal as refusal:
            await self._note(client, request, self._refused(request, refusal))
            raise
        except BaseException:
            # The node stops, or this is an error of our own: the action may have happened nevertheless. Nothing
            # may be awaited here, so of a long request only its first resources are named.
            unknown = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "")
            for outcome in islice(self._refused(request, unknown), NOTED_AT_ONCE):
                self._note_one(client, outcome, is_only_validated=_is_only_validated(request))
            raise
        await self._note(client, request, iter(self._audited.outcomes(request, response, code_of(response))))
        return response

    def _refused(self, request: Any, refusal: Refusal) -> Iterator[Outcome]:
        has_parts = self._api.refused not in (None, never_refused)
        response = self._api.refused(request, refusal) if self._api.refused is not None and has_parts else None
        return iter(self._audited.outcomes(request, response, refusal.error_code))

    async def _note(self, client: Asking, request: Any, outcomes: Iterator[Outcome]) -> None:
        turns = Turns(NOTED_AT_ONCE)
        for outcome in outcomes:
            self._note_one(client, outcome, is_only_validated=_is_only_validated(request))
            await turns.done()

    def _note_one(self, client: Asking, outcome: Outcome, *, is_only_validated: bool) -> None:
        detail = f"only validated: {outcome.detail}" if is_only_validated else outcome.detail
        event = AuditEvent(
            client.client,
            self._listener,
            self._audited.operation,
            outcome.resource_type,
            outcome.resource_name[:NAME_CHARACTERS_MAX],
            outcome.error_code,
            self._name,
            detail[:DETAIL_CHARACTERS_MAX],
            client.client_id[:NAME_CHARACTERS_MAX],
        )
        self._audit(event, 1)


def _is_only_validated(request: Any) -> bool:
    return bool(getattr(request, "validate_only", False))


def auditor(api: Api[Any, Any], broker: BrokerSide) -> Auditor | None:
    """Return what audits the API; None if nothing does."""
    if broker.audit is None or api.audited is None:
        return None
    return Auditor(api, broker.audit, broker.listener)


def creation_noted(broker: BrokerSide) -> CreationNoted | None:
    """Return what notes that a topic is created because a client asked for it; None if nothing is audited."""
    audit, listener = broker.audit, broker.listener
    if audit is None:
        return None

    def note(context: RequestContext, name: str, code: int) -> None:
        client, name = Client(context.principal, context.host), name[:NAME_CHARACTERS_MAX]
        client_id = context.client_id[:NAME_CHARACTERS_MAX]
        event = AuditEvent(
            client, listener, Operation.CREATE, ResourceType.TOPIC, name, code, _AUTO_CREATION, client_id=client_id
        )
        audit(event, 1)

    return note


_AUTO_CREATION: Final = "Metadata"
"""The call that has topics created besides CreateTopics."""


def audited_calls(auditor: Auditor | None, handler: _Handler) -> _Handler:
    """Return the handler of a gRPC call. What nodes do themselves is not audited."""
    if auditor is None:
        return handler

    def answer(request: Any, *context: RequestContext) -> Awaitable[Any]:
        caller, answered = CALLER.get(), handler(request, *context)
        if caller.is_node:
            return answered
        asking = Asking(Client(caller.principal, host_of(caller.peer)), caller.client_id)
        return auditor.audited(asking, request, answered)

    return answer


def audited_requests(auditor: Auditor, handler: _Handler, *, takes_context: bool) -> _Handler:
    """Return the handler of a request of Kafka's protocol, which takes its context."""

    def answer(request: Any, context: RequestContext) -> Awaitable[Any]:
        answered = handler(request, context) if takes_context else handler(request)
        asking = Asking(Client(context.principal, context.host), context.client_id)
        return auditor.audited(asking, request, answered)

    return answer
