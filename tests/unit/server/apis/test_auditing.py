from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any, Final

import pytest

from kraft.model.access import CLUSTER_NAME, Operation, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.principal import Principal
from kraft.rpc.client_gate import CALLER, NODE, Caller
from kraft.rpc.on_behalf import Client
from kraft.server.access.audit import AuditEvent
from kraft.server.apis import serving
from kraft.server.apis.api import Api, VisibleTo
from kraft.server.apis.auditing import Asking, Auditor
from kraft.server.apis.table import APIS
from kraft.server.kafka_listener.requests import ConnectionContext
from kraft.wire.api_keys import ApiKey
from tests.support.acl_entries import entry
from tests.unit.server.access.world import World
from tests.unit.server.apis.audited_cases import CASES, Told

ALICE: Final = Client(Principal("alice"), "10.0.0.7")
ALICES_CONSOLE: Final = Asking(ALICE, "kraft-console")
CONTEXT: Final = ConnectionContext(
    version=2, principal=Principal("alice"), peer="10.0.0.7:5100", listener="SASL", client_id="kraft-console"
)
CALLED_BY_ALICE: Final = Caller(principal=Principal("alice"), peer="10.0.0.7:5100", client_id="kraft-console")
CHANGES: Final = {
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.ALTER_CONFIGS,
    Operation.CLUSTER_ACTION,
}
ROWS: Final = {each.name: each for each in APIS if each.audited is not None}


class Notes:
    """An audit that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def __call__(self, event: AuditEvent, times: int) -> None:
        assert times == 1
        self.events.append(event)

    def told(self) -> list[Told]:
        return [
            (str(each.resource_type and each.resource_type.name), each.resource_name, each.error_code, each.detail)
            for each in self.events
        ]


def test_whatever_an_administrator_changes_is_audited() -> None:
    changing = {each.name for each in APIS if any(need.operation in CHANGES for need in each.needs)}
    of_nodes = {each.name for each in APIS if each.visible_to is VisibleTo.NODES and each.audited is None}
    # A client that asks for metadata, and has a topic created by that, is no administrator.
    assert changing - ROWS.keys() - of_nodes == {"Metadata"}
    assert set(CASES) == set(ROWS)


@pytest.mark.parametrize("name", CASES)
async def test_each_outcome_is_noted_and_nothing_that_is_secret(name: str) -> None:
    request, response, expected = CASES[name]
    notes, row = Notes(), ROWS[name]
    assert row.audited is not None

    async def answer() -> Any:
        return response

    assert await Auditor(row, notes, "SASL").audited(ALICES_CONSOLE, request, answer()) is response
    assert notes.told() == expected
    assert {(each.client, each.listener, each.api) for each in notes.events} == {(ALICE, "SASL", name)}
    assert {each.operation for each in notes.events} == {row.audited.operation}
    assert row.audited.operation in {need.operation for need in row.needs}
    assert "hunter2" not in repr(notes.events)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (asyncio.CancelledError(), ErrorCode.UNKNOWN_SERVER_ERROR),
        (AssertionError("ours"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
    ids=["refused", "cancelled", "failed"],
)
async def test_a_request_without_an_answer_is_noted_with_its_error(name: str, error: BaseException, code: int) -> None:
    notes = Notes()

    async def answer() -> Any:
        raise error

    with pytest.raises(type(error)):
        await Auditor(ROWS[name], notes, "SASL").audited(ALICES_CONSOLE, CASES[name][0], answer())
    assert {each.error_code for each in notes.events} <= {code}
    named = {"CreateAcls", "DeleteAcls", "UpdateFeatures", "UnregisterBroker", "DeleteGroups", "OffsetDelete"}
    assert notes.events or name not in named


# --- at the listeners ------------------------------------------------------------------------------------------------


class Broker:
    """A broker with the APIs of ACLs, whose handler counts and answers."""

    def __init__(self, notes: Notes | None, *, may: bool = True) -> None:
        world = World([entry(CLUSTER_NAME, Operation.ALTER, resource_type=ResourceType.CLUSTER)] if may else [])
        askers = world.askers if notes is None else world.askers.told_to(notes, "SASL")
        self.side: Any = SimpleNamespace(askers=askers, audit=notes, listener="SASL", image=world.metadata)
        row = ROWS["CreateAcls"]
        self.api: Api[Any, Any] = Api(
            key=row.key,
            call=row.call,
            decided_by=row.decided_by,
            handler=lambda _: self.handle,
            needs=row.needs,
            refused=row.refused,
            audited=row.audited,
        )

    async def handle(self, request: Any) -> Any:
        return CASES["CreateAcls"][1]

    async def over_kafka(self) -> Any:
        answer = serving.kafka_api(ApiKey.CREATE_ACLS, self.api, self.side)(CASES["CreateAcls"][0], CONTEXT)
        assert isinstance(answer, Awaitable), "the handler takes a task"
        return await answer

    async def over_grpc(self, caller: Caller) -> Any:
        CALLER.set(caller)
        assert self.api.call is not None
        return await serving.served_call(self.api.call, self.api, self.side).handler(CASES["CreateAcls"][0])


async def test_a_call_over_either_protocol_is_noted_once() -> None:
    notes = Notes()
    broker = Broker(notes)
    await broker.over_kafka()
    await broker.over_grpc(CALLED_BY_ALICE)
    assert notes.told() == CASES["CreateAcls"][2] * 2
    assert {(each.client, each.client_id) for each in notes.events} == {(ALICE, "kraft-console")}


async def test_what_a_guard_refuses_of_an_administrators_call_is_noted_once() -> None:
    notes = Notes()
    broker = Broker(notes, may=False)
    await broker.over_kafka()
    with pytest.raises(Refusal):
        await broker.over_grpc(CALLED_BY_ALICE)
    assert [each.error_code for each in notes.events] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 4
    assert {each.api for each in notes.events} == {"CreateAcls"}


async def test_what_nodes_do_themselves_is_not_noted() -> None:
    notes = Notes()
    await Broker(notes).over_grpc(Caller(principal=Principal("2", NODE)))
    assert notes.events == []


async def test_without_the_audit_no_handler_is_wrapped() -> None:
    broker = Broker(None)
    broker.side.askers = None
    assert broker.api.call is not None
    assert serving.served_call(broker.api.call, broker.api, broker.side).handler == broker.handle


async def test_what_is_done_is_noted_though_the_client_has_gone() -> None:
    request, response, expected = CASES["DeleteTopics"]
    notes = Notes()
    may_go_on = asyncio.Event()

    async def answer() -> Any:
        await may_go_on.wait()
        return response

    auditor = Auditor(ROWS["DeleteTopics"], notes, "SASL")
    asking = asyncio.ensure_future(auditor.audited(ALICES_CONSOLE, request, answer()))
    await asyncio.sleep(1)
    asking.cancel()
    await asyncio.sleep(1)
    assert (asking.cancelled(), notes.told()) == (True, [])
    may_go_on.set()
    await asyncio.sleep(1)
    assert notes.told() == expected
