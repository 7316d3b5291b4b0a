from __future__ import annotations

import json

import pytest

from chaos import history
from chaos.history import (
    Assign,
    Drain,
    Fault,
    Heal,
    MalformedHistory,
    Operation,
    OperationType,
    Poll,
    Send,
    Value,
)
from tests.unit.chaos.history_building import good_history

VALUES: list[Value] = [
    Send(key="orders-0", values=(4, 5)),
    Send(key="orders-0", values=(4, 5), offsets=(17, None), acknowledged=(True, False)),
    Poll(),
    Poll(reads={"orders-0": ((17, 4), (18, 5))}),
    Assign(keys=("orders-0", "orders-1")),
    Drain(ends={"orders-0": 19}),
    Fault(name="kill-leader", target="node 1"),
    Heal(name="kill-leader"),
]


@pytest.mark.parametrize("value", VALUES)
def test_an_operation_comes_back_from_its_line(value: Value) -> None:
    operation = Operation(index=3, process="producer-1", time_ns=81_230_000, type=OperationType.OK, value=value)
    assert history.decode(history.encode(operation)) == operation


def test_a_line_has_the_fields_that_others_expect() -> None:
    operation = Operation(index=0, process="a", time_ns=5, type=OperationType.INVOKE, value=VALUES[0])
    assert json.loads(history.encode(operation)) == {
        "index": 0,
        "process": "a",
        "time": 5,
        "type": "invoke",
        "f": "send",
        "value": {"key": "orders-0", "values": [4, 5]},
    }


def test_a_whole_history_comes_back() -> None:
    operations = good_history(seed=1)
    assert list(history.decode_all(map(history.encode, operations))) == operations


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        '{"index":1}',
        '{"index":0,"process":"a","time":0,"type":"maybe","f":"poll","value":{}}',
        '{"index":0,"process":"a","time":0,"type":"ok","f":"dance","value":{}}',
        '{"index":0,"process":"a","time":0,"type":"ok","f":"poll","value":[1]}',
        '{"index":0,"process":"a","time":0,"type":"ok","f":"send","value":{"key":"k","values":[1],"offsets":[1,2]}}',
    ],
)
def test_a_line_that_is_no_operation_is_named(line: str) -> None:
    good = history.encode(good_history(seed=1)[0])
    with pytest.raises(MalformedHistory, match="line 2: no operation"):
        list(history.decode_all([good, line]))
