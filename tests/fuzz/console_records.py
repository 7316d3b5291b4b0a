"""Keys and values of records as the console shows them: any bytes, by each format, within its bounds."""

from __future__ import annotations

import msgspec

from kraft.console.records.decoding import DECODED_BYTES_MAX, FORMATS, decode
from kraft.console.records.decoding.avro_schemas import avro_schema
from kraft.console.records.decoding.avro_values import avro_value
from kraft.console.records.decoding.limits import CannotDecode
from kraft.console.records.decoding.protobuf_schemas import ProtobufSchema
from kraft.console.records.decoding.protobuf_values import protobuf_value
from tests.support.avro_orders import ORDER, written
from tests.support.protobuf_orders import Order, order_file, text_of

_AVRO = avro_schema(msgspec.json.encode(ORDER).decode())
_PROTOBUF = ProtobufSchema(text_of(order_file()), {}).message([0])


def shown_record(data: bytes) -> None:
    for chosen in ("", *FORMATS):
        found = decode(data, chosen)
        msgspec.json.encode(found)
        assert len(found.text) <= 8 * DECODED_BYTES_MAX


def shown_records() -> tuple[bytes, ...]:
    value = {"a": [1, None, "x"], "b": {"c": 2.5}}
    return msgspec.json.encode(value), msgspec.msgpack.encode(value), b"text", b"\0\0\0\0\1rest"


def avro_record(data: bytes) -> None:
    try:
        msgspec.json.encode(avro_value(_AVRO, data))
    except CannotDecode:
        return


def avro_records() -> tuple[bytes, ...]:
    order = {"id": 7, "total": 1.5, "paid": True, "note": "x", "state": "SENT", "tags": ["a", "b"], "counts": {"c": 3}}
    order |= {"hash": b"12", "before": None, "states": ["NEW"]}
    return (written(ORDER, {**order, "before": order}),)


def protobuf_record(data: bytes) -> None:
    try:
        msgspec.json.encode(protobuf_value(_PROTOBUF, data)[0])
    except CannotDecode:
        return


def protobuf_records() -> tuple[bytes, ...]:
    full = Order(id=7, small=-1, note="x", counts=[1, 2], tags={1: "a"}, before=Order(id=6), lines=[{"sku": "s"}])
    return (full.SerializeToString(),)
