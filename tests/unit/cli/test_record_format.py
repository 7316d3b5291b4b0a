from __future__ import annotations

import json

import pytest
import typer

from kraft.cli.record_format import json_line, kafka_format, parse_format
from kraft.client import ConsumerRecord, KraftError, TimestampType

RECORD = ConsumerRecord("orders", 3, 17, 1_000, TimestampType.CREATE_TIME, b"anna", b"two pizzas", (("h", b"1"),))
NULLS = RECORD._replace(key=None, value=None, headers=(("h", None), ("g", b"\xff")))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("%v", b"two pizzas\n"),
        ("%k=%v", b"anna=two pizzas\n"),
        (r"%t %p %o\t%T", b"orders 3 17\t1000\n"),
        (r"%h\n", b"h=1\n"),
        (r"%v\n\n", b"two pizzas\n\n"),
        (r"100%% \\ %v", b"100% \\ two pizzas\n"),
        ("é%k", "éanna\n".encode()),
        ("", b"\n"),
    ],
)
def test_a_format_is_one_line_a_record(text: str, line: bytes) -> None:
    assert parse_format(text)(RECORD) == line


def test_what_is_missing_is_printed_as_null() -> None:
    assert parse_format("%k %v %h")(NULLS) == b"null null h=null,g=\xff\n"


@pytest.mark.parametrize("text", ["%x", "%", r"\q", "%v\\"])
def test_an_unknown_token_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is unknown: use one of"):
        parse_format(text)


def test_json_keeps_bytes_that_are_no_text() -> None:
    assert json.loads(json_line(RECORD)) == {
        "topic": "orders",
        "partition": 3,
        "offset": 17,
        "timestamp_ms": 1_000,
        "timestamp_type": "create_time",
        "key": "anna",
        "value": "two pizzas",
        "headers": [{"key": "h", "value": "1"}],
    }
    assert json.loads(json_line(NULLS))["headers"] == [
        {"key": "h", "value": None},
        {"key": "g", "value": {"base64": "/w=="}},
    ]


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({}, b"two pizzas\n"),
        ({"print.key": "true"}, b"anna\ttwo pizzas\n"),
        ({"print.key": "true", "key.separator": "=", "print.value": "false", "line.separator": ";"}, b"anna;"),
        (
            {f"print.{each}": "true" for each in ("timestamp", "partition", "offset", "headers", "key")},
            b"CreateTime:1000\tPartition:3\tOffset:17\th:1\tanna\ttwo pizzas\n",
        ),
    ],
)
def test_properties_print_what_kafkas_own_consumer_prints(properties: dict[str, str], line: bytes) -> None:
    assert kafka_format(properties)(RECORD) == line


def test_properties_name_what_is_missing_as_kafkas_own_consumer_does() -> None:
    write = kafka_format({"print.headers": "true", "print.key": "true", "null.literal": "none"})
    assert write(NULLS) == b"h:none,g:\xff\tnone\tnone\n"
    assert write(NULLS._replace(headers=())) == b"NO_HEADERS\tnone\tnone\n"
    with pytest.raises(typer.BadParameter, match=r"print\.keys is unknown: use one of print\.timestamp"):
        kafka_format({"print.keys": "true"})


def test_numbers_of_kafkas_serializers_are_shown_as_numbers() -> None:
    count = RECORD._replace(value=(7).to_bytes(8))
    long = {"print.key": "true", "value.deserializer": "org.apache.kafka.common.serialization.LongDeserializer"}
    assert kafka_format(long)(count) == b"anna\t7\n"
    assert kafka_format(long)(NULLS) == b"null\tnull\n"
    with pytest.raises(KraftError, match="orders-3 offset 17: the value has 10 bytes and is none of"):
        kafka_format(long)(RECORD)
    with pytest.raises(typer.BadParameter, match=r"key\.deserializer=Avro: use one of StringDeserializer, "):
        kafka_format({"key.deserializer": "example.Avro"})
