"""Which uses of data each API notes, over both protocols."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.principal import Principal
from kraft.rpc.client_gate import CALLER, NODE, Caller
from kraft.server.apis.data_uses import noted_calls, noted_requests, noting
from kraft.server.apis.table import APIS
from kraft.server.config.access_settings import DataAccess
from kraft.server.kafka_listener.requests import ConnectionContext

ALICE: Final = Principal("alice")
PEER: Final = "10.0.0.7:5100"
ROWS: Final = {each.name: each for each in APIS if each.uses is not None}


def of(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def offsets(*codes: int) -> Any:
    return of(topics=[of(partitions=[of(error_code=each) for each in codes])])


TOPICS: Final = of(partitions=[of(topic="orders"), of(topic="bills")])
GROUP: Final = of(group_id="billing")
REFUSED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED

CASES: Final[dict[str, list[tuple[Any, Any, list[str]]]]] = {
    "Produce": [(TOPICS, None, ["orders", "bills"])],
    "Fetch": [(TOPICS, None, ["orders", "bills"])],
    "ProduceRecords": [(of(topic="orders"), None, ["orders"])],
    "FetchRecords": [(of(topic="orders"), None, ["orders"])],
    "JoinGroup": [(GROUP, of(error_code=0), ["billing"]), (GROUP, of(error_code=REFUSED), [])],
    "ConsumerGroupHeartbeat": [(GROUP, of(error_code=0), ["billing"]), (GROUP, of(error_code=REFUSED), [])],
    "OffsetCommit": [(GROUP, offsets(REFUSED, 0), ["billing"]), (GROUP, offsets(REFUSED), [])],
    "TxnOffsetCommit": [(GROUP, offsets(0), ["billing"])],
    "OffsetFetch": [
        (None, of(groups=[of(group_id="a", error_code=0), of(group_id="b", error_code=REFUSED)]), ["a"]),
    ],
}


class Broker:
    """A broker that notes uses of the kinds that are switched on."""

    def __init__(self, *kinds: DataAccess) -> None:
        self.used: list[tuple[Principal, str, list[str]]] = []
        self.side: Any = of(data_audits=dict.fromkeys(kinds, of(used=self._used)))

    def _used(self, principal: Principal, peer: str, names: Any) -> None:
        self.used.append((principal, peer, list(names)))


def test_every_api_that_uses_data_has_a_case() -> None:
    assert set(CASES) == set(ROWS)


@pytest.mark.parametrize("name", CASES)
async def test_what_is_used_is_noted_over_both_protocols(name: str) -> None:
    row = ROWS[name]
    assert row.uses is not None
    for request, response, names in CASES[name]:
        broker = Broker(row.uses.access)

        async def answer(_: Any, answered: Any = response) -> Any:
            return answered

        CALLER.set(Caller(principal=ALICE, peer=PEER))
        assert await noted_calls(row, broker.side, answer)(request) is response
        context = ConnectionContext(version=2, principal=ALICE, peer=PEER)
        wanted = noting(row, broker.side)
        assert wanted is not None
        assert await noted_requests(wanted, answer, takes_context=False)(request, context) is response
        assert broker.used == [(ALICE, PEER, names)] * 2


async def test_neither_nodes_nor_what_is_switched_off_nor_what_is_refused_is_noted() -> None:
    async def answer(request: Any) -> Any:
        if request is None:
            raise Refusal(REFUSED, "no")
        return of(error_code=0)

    row = ROWS["JoinGroup"]
    node, others = Broker(DataAccess.GROUPS), Broker(DataAccess.READS, DataAccess.WRITES)
    CALLER.set(Caller(principal=Principal("1", NODE), peer=PEER))
    await noted_calls(row, node.side, answer)(GROUP)
    CALLER.set(Caller(principal=ALICE, peer=PEER))
    assert noted_calls(row, others.side, answer) is answer, "nothing stands before the handler"
    assert noting(row, others.side) is None
    with pytest.raises(Refusal):
        await noted_calls(row, node.side, answer)(None)
    assert node.used == others.used == []
