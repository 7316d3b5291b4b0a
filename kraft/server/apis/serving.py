"""Binds the rows of the table to a broker or a controller, for each kind of listener."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.call import AnyCall, Call, ServedCall
from kraft.server.apis.api import Api, VisibleTo
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.apis.sides import ControllerSide
from kraft.server.apis.table import APIS
from kraft.server.kafka_listener.encoded_responses import EncodedResponses
from kraft.server.kafka_listener.handled import HandledApi, Reuse
from kraft.server.kafka_listener.requests import Api as KafkaApi
from kraft.wire.api_keys import ApiKey


def grpc_calls(broker: BrokerSide) -> list[ServedCall]:
    """Return the calls of a broker's GRPC listener."""
    return [served_call(each.call, each, broker) for each in APIS if each.call is not None]


def grpc_call(call: AnyCall, broker: BrokerSide) -> ServedCall:
    """Return one of them."""
    return next(served_call(call, each, broker) for each in APIS if each.call is call)


def served_call(call: AnyCall, api: Api[Any, Any], broker: BrokerSide) -> ServedCall:
    """Return the call of an API, with its handler."""
    handler: Any = api.handler(broker)
    if not api.takes_context:
        return call.served_by(handler)
    assert isinstance(call, Call), "a stream has no context"
    return call.served_in_context_by(handler, api.versions.last)


def controller_calls(controller: ControllerSide) -> list[ServedCall]:
    """Return the calls of a CONTROLLER listener."""
    return [
        ServedCall(each.call, each.at_controller(controller))
        for each in APIS
        if each.call is not None and each.at_controller is not None
    ]


async def refuse_client(*_: Any) -> NoReturn:
    """Refuse a request that only nodes of the cluster may send, as Kafka does."""
    raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only nodes of the cluster may send this request")


def kafka_apis(broker: BrokerSide) -> dict[ApiKey, KafkaApi]:
    """Return the APIs of a broker's listener for Kafka's clients."""
    return {each.key: kafka_api(each.key, each, broker) for each in APIS if each.key is not None}


def kafka_api(key: ApiKey, api: Api[Any, Any], broker: BrokerSide) -> KafkaApi:
    """Return one of them."""
    if api.kafka_handler is not None:
        return api.kafka_handler(broker)
    return HandledApi(
        key,
        refuse_client if api.visible_to is VisibleTo.NODES else api.handler(broker),
        refused=api.refused,
        from_version=api.from_version,
        to_version=api.to_version,
        takes_context=api.takes_context,
        misdirected=None if api.misdirected is None else api.misdirected(broker),
        reuse=None
        if api.reused_for is None
        else Reuse(EncodedResponses(broker.image), partial(api.reused_for, broker)),
    )
