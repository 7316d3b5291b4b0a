"""Binds the rows of the table to a broker or a controller, for each kind of listener, with guards before handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, NoReturn

from msgspec.structs import replace

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.request_context import RequestContext, host_of
from kraft.rpc.call import AnyCall, Call, ServedCall
from kraft.rpc.client_gate import CALLER
from kraft.rpc.on_behalf import ON_BEHALF_OF, Client
from kraft.server.access.asker import Askers
from kraft.server.access.guard import Guard, required
from kraft.server.apis.api import Api, DecidedBy, VisibleTo
from kraft.server.apis.auditing import audited_calls, audited_requests, auditor
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.apis.data_uses import noted_calls, noted_requests, noting
from kraft.server.apis.metering import metered
from kraft.server.apis.mutations import CountedMutations
from kraft.server.apis.sides import ControllerSide, Side
from kraft.server.apis.table import APIS
from kraft.server.apis.timed_calls import timed
from kraft.server.kafka_listener.encoded_responses import EncodedResponses
from kraft.server.kafka_listener.handled import HandledApi, Reuse
from kraft.server.kafka_listener.request_times import CallTimes
from kraft.server.kafka_listener.requests import Api as KafkaApi
from kraft.wire.api_keys import ApiKey

_Handler = Callable[..., Awaitable[Any]]


def guard_of(api: Api[Any, Any], side: Side) -> Guard | None:
    """Return what stands before the handler of an API; None if nobody is asked."""
    if side.askers is None:
        return None
    if api.guard is not None:
        return api.guard(side)
    return required(api.needs) if api.needs else None


# --- the GRPC listener of a broker ---


def grpc_calls(broker: BrokerSide, times: CallTimes) -> list[ServedCall]:
    """Return the calls of a broker's GRPC listener, which count in `times`."""
    return [_measured_call(each.call, each, broker, times) for each in APIS if each.call is not None]


def grpc_call(call: AnyCall, broker: BrokerSide, times: CallTimes) -> ServedCall:
    """Return one of them."""
    return next(_measured_call(call, each, broker, times) for each in APIS if each.call is call)


def _measured_call(call: AnyCall, api: Api[Any, Any], broker: BrokerSide, all_times: CallTimes) -> ServedCall:
    served, times = served_call(call, api, broker), all_times.of(call.name)
    handler = timed(call, served.handler, times)
    # What a client waits for because of its quotas is no part of the time that its request takes.
    return replace(
        served,
        handler=handler if api.visible_to is VisibleTo.NODES else metered(call, handler, broker.throttling, times),
    )


def served_call(call: AnyCall, api: Api[Any, Any], broker: BrokerSide) -> ServedCall:
    """Return the call of an API, with its handler."""
    handler: Any = noted_calls(api, broker, handler_of(api, broker))
    # The gatekeeper lets only nodes make the calls for nodes.
    if api.visible_to is VisibleTo.ANYBODY and (guard := guard_of(api, broker)) is not None:
        handler = _asking_callers(_Guarded(api, guard, handler, broker))
    handler = audited_calls(auditor(api, broker), handler)
    if not takes_context(api):
        return call.served_by(handler)
    assert isinstance(call, Call), "a stream has no context"
    return call.served_in_context_by(handler, api.versions.last)


def handler_of(api: Api[Any, Any], broker: BrokerSide) -> Any:
    """Return the API's handler, behind what has to be asked before."""
    handler = api.handler(broker)
    if api.mutations is None:
        return handler
    partitions_by_default = broker.config.topics.partitions
    return CountedMutations(api.mutations, broker.throttling, broker.image, partitions_by_default, handler).handle


def takes_context(api: Api[Any, Any]) -> bool:
    """Return whether that takes a RequestContext, too."""
    return api.takes_context or api.mutations is not None


class _Guarded:
    """The handler of an API behind its guard."""

    def __init__(self, api: Api[Any, Any], guard: Guard, handler: _Handler, side: Side) -> None:
        assert side.askers is not None, "there is nobody to ask"
        # The audit of an administrator's call has what was refused, too, and so it is not told by the guard.
        self.askers: Final[Askers] = side.askers if api.audited is None else side.askers.told_to(None, "")
        self.handler: Final = handler
        self._guard = guard
        self._is_forwarded = api.decided_by is DecidedBy.CONTROLLER

    def answer(self, client: Client, request: Any, *context: RequestContext) -> Awaitable[Any]:
        """Return the answer to a client. What must happen in the order of requests is done when this returns."""

        def proceed(request: Any) -> Awaitable[Any]:
            if self._is_forwarded:
                return _on_behalf(client, self.handler(request, *context))
            return self.handler(request, *context)

        return self._guard(self.askers.of(client.principal, client.host), request, proceed)


async def _on_behalf(client: Client, answer: Awaitable[Any]) -> Any:
    token = ON_BEHALF_OF.set(client)
    try:
        return await answer
    finally:
        ON_BEHALF_OF.reset(token)


def _asking_callers(guarded: _Guarded) -> _Handler:
    """Return the handler of a gRPC call. Nodes that introduced themselves are not asked."""

    def answer(request: Any, *context: RequestContext) -> Awaitable[Any]:
        caller = CALLER.get()
        if caller.is_node:
            return guarded.handler(request, *context)
        return guarded.answer(Client(caller.principal, host_of(caller.peer)), request, *context)

    return answer


# --- the CONTROLLER listener ---


def controller_calls(controller: ControllerSide) -> list[ServedCall]:
    """Return the calls of a CONTROLLER listener."""
    return [
        ServedCall(each.call, _controller_handler(each, controller, each.at_controller(controller)))
        for each in APIS
        if each.call is not None and each.at_controller is not None
    ]


def _controller_handler(api: Api[Any, Any], controller: ControllerSide, handler: _Handler) -> _Handler:
    """Return the handler, which asks again what a client may for whom a broker calls."""
    guard = guard_of(api, controller)
    if guard is None:
        return handler
    guarded = _Guarded(api, guard, handler, controller)

    def answer(request: Any) -> Awaitable[Any]:
        client = ON_BEHALF_OF.get()
        return handler(request) if client is None else guarded.answer(client, request)

    return answer


# --- listeners for Kafka's clients ---


async def refuse_client(*_: Any) -> NoReturn:
    """Refuse a request that only nodes of the cluster may send, as Kafka does."""
    raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only nodes of the cluster may send this request")


KAFKA_KEYS: Final = tuple(each.key for each in APIS if each.key is not None)
"""Keys of all APIs of Kafka's listeners."""


def kafka_apis(broker: BrokerSide) -> dict[ApiKey, KafkaApi]:
    """Return the APIs of a broker's listener for Kafka's clients."""
    return {each.key: kafka_api(each.key, each, broker) for each in APIS if each.key is not None}


def kafka_api(key: ApiKey, api: Api[Any, Any], broker: BrokerSide) -> KafkaApi:
    """Return one of them."""
    if api.kafka_handler is not None:
        return api.kafka_handler(broker)
    guard = guard_of(api, broker)
    if guard is None:
        handler, has_context = handler_of(api, broker), takes_context(api)
        if api.visible_to is VisibleTo.NODES:
            handler, has_context = refuse_client, False
    else:
        handler, has_context = _asking_clients(_Guarded(api, guard, handler_of(api, broker), broker), api), True
    if (uses := noting(api, broker)) is not None:
        handler, has_context = noted_requests(uses, handler, takes_context=has_context), True
    audit = auditor(api, broker)
    if audit is not None:
        handler, has_context = audited_requests(audit, handler, takes_context=has_context), True
    reuse = None
    if api.reused_for is not None:
        responses = EncodedResponses(broker.image)
        reuse = Reuse(responses, partial(api.reused_for, broker), differs_by_client=guard is not None)
    return HandledApi(
        key,
        handler,
        refused=api.refused,
        from_version=api.from_version,
        to_version=api.to_version,
        takes_context=has_context,
        misdirected=None if api.misdirected is None else api.misdirected(broker),
        reuse=reuse,
    )


def _asking_clients(guarded: _Guarded, api: Api[Any, Any]) -> _Handler:
    def answer(request: Any, context: RequestContext) -> Awaitable[Any]:
        client = Client(context.principal, context.host)
        return guarded.answer(client, request, *((context,) if takes_context(api) else ()))

    return answer
