from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraft.rpc.call import Call
from kraft.rpc.gatekeeper import REPLICATION_SERVICE
from kraft.server import handlers
from kraft.server.apis.api import Api, DecidedBy, VisibleTo
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.apis.handlers import never_refused
from kraft.server.apis.table import APIS
from kraft.wire.api_keys import ApiKey, request_type, response_type
from tests.support.server.broker_nodes import broker

KAFKA_APIS = [each for each in APIS if each.key is not None]
HANDLED_APIS = [each for each in KAFKA_APIS if each.kafka_handler is None]
GRPC_APIS = [each for each in APIS if each.call is not None]


def name_of(api: Api[Any, Any]) -> str:
    return api.call.name if api.call is not None else repr(api.key)


def test_no_api_has_two_rows() -> None:
    keys = [each.key for each in KAFKA_APIS]
    methods = [each.call.method for each in GRPC_APIS if each.call is not None]
    assert len(set(keys)) == len(keys)
    assert len(set(methods)) == len(methods)


@pytest.mark.parametrize("api", [each for each in HANDLED_APIS if each.call is not None], ids=name_of)
def test_both_protocols_carry_the_same_messages(api: Api[Any, Any]) -> None:
    assert isinstance(api.call, Call)
    assert api.key is not None
    assert api.call.request.value_type is request_type(api.key)
    assert api.call.response.value_type is response_type(api.key)


@pytest.mark.parametrize("api", HANDLED_APIS, ids=name_of)
def test_every_refusal_has_a_place_in_kafkas_response(api: Api[Any, Any]) -> None:
    assert api.key is not None
    has_a_code = any(field.name == "error_code" for field in response_type(api.key).fields)
    assert has_a_code or api.refused is not None
    assert list(api.versions)


@pytest.mark.parametrize("api", APIS, ids=name_of)
def test_what_the_controller_decides_is_served_by_it(api: Api[Any, Any]) -> None:
    if api.decided_by is DecidedBy.CONTROLLER:
        assert api.call is not None, "it could not be forwarded"
        assert api.at_controller is not None


@pytest.mark.parametrize("api", GRPC_APIS, ids=name_of)
def test_clients_see_what_the_gatekeeper_lets_them_call(api: Api[Any, Any]) -> None:
    assert api.call is not None
    assert (api.visible_to is VisibleTo.NODES) == api.call.method.startswith(REPLICATION_SERVICE)


def test_what_a_handler_has_for_kafkas_versions_and_refusals_is_in_a_row() -> None:
    there = {
        function
        for module in iter_modules(handlers.__path__)
        for name, function in vars(import_module(f"{handlers.__name__}.{module.name}")).items()
        if name.endswith(("from_version", "to_version", "refused")) and not name.startswith("_")
    }
    assert there == {
        function
        for each in APIS
        for function in (each.from_version, each.to_version, each.refused)
        if function not in (None, never_refused)
    }


def test_over_grpc_a_request_means_what_it_does_in_its_newest_version(tmp_path: Path) -> None:
    async def versions() -> dict[str, int | None]:
        calls = broker(tmp_path, "fsync", stopped_cleanly=True).apis.grpc_calls()
        return {each.call.method: each.context_version for each in calls}

    assert asyncio.run(versions()) == {
        each.call.method: each.versions.last if each.takes_context or each.mutations else None
        for each in GRPC_APIS
        if each.call is not None
    }


def test_values_of_their_own_have_only_those_that_the_decision_record_names() -> None:
    assert {each.key for each in KAFKA_APIS} - {each.key for each in HANDLED_APIS} == {ApiKey.PRODUCE, ApiKey.FETCH}


def test_an_api_of_either_listener_is_in_the_table(tmp_path: Path) -> None:
    async def served() -> tuple[set[ApiKey], set[str]]:
        apis = broker(tmp_path, "fsync", stopped_cleanly=True).apis
        return set(apis.kafka_apis("PLAINTEXT")), {each.call.method for each in apis.grpc_calls()}

    keys, calls = asyncio.run(served())
    assert keys == {each.key for each in KAFKA_APIS}
    assert calls == {each.call.method for each in GRPC_APIS if each.call is not None}


@pytest.mark.parametrize(
    ("listener", "active_id", "told"), [("GRPC", 7, 7), ("GRPC", -1, -1), ("PLAIN", 7, 2), ("PLAIN", 1, 1)]
)
def test_kafkas_clients_are_told_of_a_broker_that_takes_requests_for_the_controller(
    listener: str, active_id: int, told: int
) -> None:
    controllers, config = SimpleNamespace(active_id=active_id), SimpleNamespace(node_id=2)
    side = cast(BrokerSide, SimpleNamespace(listener=listener, controllers=controllers, config=config))
    assert BrokerSide.controller_for_clients(side, [1, 2, 3]) == told
