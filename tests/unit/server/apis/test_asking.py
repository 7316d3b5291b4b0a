from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import pytest

from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.principal import Principal
from kraft.rpc.client_gate import CALLER, NODE, Caller
from kraft.rpc.group_calls import HEARTBEAT
from kraft.rpc.on_behalf import ON_BEHALF_OF, Client
from kraft.server.access.guard import Permission
from kraft.server.apis import serving
from kraft.server.apis.api import Api, DecidedBy, VisibleTo
from kraft.server.apis.transactions import TRANSACTION_APIS
from kraft.server.kafka_listener.requests import ConnectionContext
from kraft.wire.api_keys import ApiKey
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.acl_entries import entry
from tests.unit.server.access.world import World

REQUEST: Final = HeartbeatRequest(group_id="billing", generation_id=1, member_id="m")
ALICE: Final = Principal("alice")
MAY_READ: Final = entry("billing", Operation.READ, resource_type=ResourceType.GROUP, host="10.0.0.7")
REFUSED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED


class Row:
    """A row of the table, and a node that it is bound to."""

    def __init__(self, **more: Any) -> None:
        self.clients: list[Client | None] = []
        self.contexts: list[Any] = []
        self.api: Api[Any, Any] = Api(
            key=ApiKey.HEARTBEAT,
            call=HEARTBEAT,
            handler=lambda _: self.handle,
            at_controller=lambda _: self.handle,
            needs=(Permission(Operation.READ, ResourceType.GROUP),),
            **{"decided_by": DecidedBy.CONTROLLER, **more},
        )
        self.world = World([MAY_READ])
        self.side: Any = SimpleNamespace(askers=self.world.askers, audit=None, image=self.world.metadata)

    async def handle(self, request: HeartbeatRequest, *context: Any) -> HeartbeatResponse:
        await asyncio.sleep(0)
        assert request is REQUEST
        self.clients.append(ON_BEHALF_OF.get())
        self.contexts += context
        return HeartbeatResponse(error_code=ErrorCode.NONE)

    def open_to_all(self) -> Row:
        self.side = SimpleNamespace(askers=None, audit=None, image=self.world.metadata)
        return self

    async def over_grpc(self, principal: Principal, peer: str = "10.0.0.7:5100") -> None:
        CALLER.set(Caller(principal=principal, peer=peer))
        served = serving.served_call(HEARTBEAT, self.api, self.side)
        await served.handler(REQUEST)

    async def over_kafka(self, principal: Principal, peer: str = "10.0.0.7:5100") -> int:
        api = serving.kafka_api(ApiKey.HEARTBEAT, self.api, self.side)
        response: Any = api(REQUEST, ConnectionContext(version=4, principal=principal, peer=peer))
        return int((await response).error_code)

    async def at_controller(self) -> None:
        handler = serving._controller_handler(self.api, self.side, self.handle)
        await handler(REQUEST)


async def test_without_an_authorizer_handlers_stand_alone() -> None:
    row = Row().open_to_all()
    assert serving.served_call(HEARTBEAT, row.api, row.side).handler == row.handle
    assert serving._controller_handler(row.api, row.side, row.handle) == row.handle
    assert await row.over_kafka(Principal("bob")) == 0
    assert row.clients == [None]


async def test_kafkas_clients_are_asked_with_their_principal_and_host() -> None:
    row = Row(decided_by=DecidedBy.COORDINATOR)
    assert await row.over_kafka(ALICE) == 0
    assert await row.over_kafka(Principal("bob")) == REFUSED
    assert await row.over_kafka(ALICE, "10.0.0.8:5100") == REFUSED
    assert row.clients == [None], "a coordinator here decides for itself"
    row.world.change([])
    assert await row.over_kafka(ALICE) == REFUSED, "by the ACLs of each moment"


async def test_a_response_that_is_sent_again_is_for_the_same_principal_at_the_same_host() -> None:
    row = Row(decided_by=DecidedBy.BROKER, reused_for=lambda *_: "all")
    api = serving.kafka_api(ApiKey.HEARTBEAT, row.api, row.side)

    async def answered(principal: Principal, peer: str) -> Any:
        response: Any = api(REQUEST, ConnectionContext(version=4, principal=principal, peer=peer))
        return await response

    first = await answered(ALICE, "10.0.0.7:5100")
    assert await answered(ALICE, "10.0.0.7:5200") is first
    assert (await answered(Principal("bob"), "10.0.0.7:5100")).body != first.body
    assert (await answered(ALICE, "10.0.0.8:5100")).body != first.body
    row.world.change([])
    assert (await answered(ALICE, "10.0.0.7:5100")).body != first.body


async def test_callers_over_grpc_are_asked_likewise_and_nodes_are_not() -> None:
    row = Row()
    await row.over_grpc(ALICE)
    for principal, peer in ((Principal("bob"), "10.0.0.7:5100"), (ALICE, "[::1]:5100")):
        with pytest.raises(Refusal) as refused:
            await row.over_grpc(principal, peer)
        assert refused.value.error_code is REFUSED
    await row.over_grpc(Principal("2", NODE))
    assert row.clients == [Client(ALICE, "10.0.0.7"), None]


async def test_what_is_forwarded_carries_its_client_as_long_as_it_takes() -> None:
    row = Row()
    assert await row.over_kafka(ALICE) == 0
    assert row.clients == [Client(ALICE, "10.0.0.7")]
    assert ON_BEHALF_OF.get() is None


async def test_a_controller_asks_again_by_its_own_metadata() -> None:
    row = Row()
    await row.at_controller()
    token = ON_BEHALF_OF.set(Client(ALICE, "10.0.0.7"))
    await row.at_controller()
    row.world.change([])
    with pytest.raises(Refusal) as refused:
        await row.at_controller()
    ON_BEHALF_OF.reset(token)
    assert refused.value.error_code is REFUSED
    assert len(row.clients) == 2
    await row.at_controller()


async def test_a_handler_that_takes_a_context_gets_it() -> None:
    row = Row(takes_context=True, decided_by=DecidedBy.COORDINATOR)
    assert await row.over_kafka(ALICE) == 0
    assert [each.principal for each in row.contexts] == [ALICE]


async def test_what_only_nodes_see_is_for_clients_with_the_permission() -> None:
    row = Row(visible_to=VisibleTo.NODES)
    assert await row.over_kafka(ALICE) == 0
    assert await row.over_kafka(Principal("bob")) == REFUSED
    assert await row.open_to_all().over_kafka(ALICE) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("version", "expected"), [(0, "producers"), (3, "producers"), (4, "brokers"), (5, "brokers")])
async def test_partitions_are_added_as_brokers_do_only_in_their_versions(version: int, expected: str) -> None:
    async def of_producers(_: Any, __: Any) -> str:
        return "producers"

    async def of_brokers(_: Any) -> str:
        return "brokers"

    transactions = SimpleNamespace(add_partitions=of_producers, add_partitions_of_brokers=of_brokers)
    row = next(each for each in TRANSACTION_APIS if each.key is ApiKey.ADD_PARTITIONS_TO_TXN)
    asked: Any = SimpleNamespace(askers=World([]).askers, transactions=transactions)
    assert await row.handler(asked)(REQUEST, ConnectionContext(version=version)) == expected
    open_to_all: Any = SimpleNamespace(askers=None, transactions=transactions)
    assert row.handler(open_to_all) is of_producers, "which refuses the versions of brokers"
