"""Binds the rows of the table to a broker or a controller, for each kind of listener."""

from __future__ import annotations

from typing import Any, NoReturn

from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.call import Call, Served
from kraft.server.apis.api import Api, VisibleTo
from kraft.server.apis.sides import BrokerSide, ControllerSide
from kraft.server.apis.table import APIS
from kraft.server.kafka_listener.handled import HandledApi
from kraft.server.kafka_listener.requests import Api as KafkaApi
from kraft.wire.api_keys import ApiKey


def grpc_calls(broker: BrokerSide) -> list[Served]:
    """Return the calls of a broker's GRPC listener."""
    return [served(each.call, each, broker) for each in APIS if each.call is not None]


def served(call: Call[Any, Any], api: Api[Any, Any], broker: BrokerSide) -> Served:
    """Return the call of an API, with its handler."""
    handler = api.handler(broker)
    return call.served_in_context_by(handler, api.versions.last) if api.takes_context else call.served_by(handler)


def controller_calls(controller: ControllerSide) -> list[Served]:
    """Return the calls of a CONTROLLER listener."""
    return [
        each.call.served_by(each.at_controller(controller))
        for each in APIS
        if each.call is not None and each.at_controller is not None
    ]


async def refuse_client(*_: Any) -> NoReturn:
    """Refuse a request that only nodes of the cluster may send, as Kafka does."""
    raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only nodes of the cluster may send this request")


def kafka_apis(broker: BrokerSide) -> dict[ApiKey, KafkaApi]:
    """Return the APIs of a broker's listener for Kafka's clients."""
    return {
        each.key: HandledApi(
            each.key,
            refuse_client if each.visible_to is VisibleTo.NODES else each.handler(broker),
            refused=each.refused,
            from_version=each.from_version,
            to_version=each.to_version,
            takes_context=each.takes_context,
            misdirected=None if each.misdirected is None else each.misdirected(broker),
        )
        for each in APIS
        if each.key is not None
    }
