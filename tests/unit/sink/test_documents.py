"""From records to documents, and what an engine's answers mean."""

from __future__ import annotations

import json

import pytest

from kraft.sink.documents import (
    Cause,
    Document,
    Documents,
    Item,
    ItemError,
    Record,
    Refused,
    ValueFormat,
    Verdict,
    index_name,
    index_problem,
    refused,
    verdict,
)

MIDNIGHT_MS = 1_735_689_600_000
"""The beginning of 2025, in UTC."""


def record(value: bytes, *, topic: str = "logs", timestamp_ms: int = MIDNIGHT_MS, offset: int = 7) -> Record:
    return Record(topic, 3, offset, timestamp_ms, None, value, ())


def document(value: bytes, value_format: ValueFormat = ValueFormat.JSON) -> Document:
    found = Documents("logs-%Y.%m.%d", value_format).document(record(value))
    assert isinstance(found, Document), found
    return found


def parts(found: Document) -> tuple[dict[str, dict[str, str]], dict[str, object]]:
    action, source = found.lines.splitlines()
    return json.loads(action), json.loads(source)


def test_a_json_object_is_the_document_as_it_is_and_its_id_is_its_place() -> None:
    found = document(b'{"a":  1}')
    assert found.lines == b'{"create":{"_index":"logs-2025.01.01","_id":"logs-3-7"}}\n{"a":  1}\n'


def test_a_json_object_of_several_lines_becomes_one_line() -> None:
    assert parts(document(b'{"a":\r\n "x\\ny"\n}'))[1] == {"a": "x\ny"}


def test_text_becomes_a_message_with_the_time_of_the_record() -> None:
    _, source = parts(document(b'no "JSON"\n\xff', ValueFormat.TEXT))
    assert source == {"@timestamp": "2025-01-01T00:00:00+00:00", "message": 'no "JSON"\n\\xff'}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b"null",
        b'{"a": 1} {"b": 2}',
        b'{"a": NaN}',
        b'{"a": "\xff"}',
        b'{"index": {}}\n{"a": 1}',
        b'{"a":' * 100_000,
        b"[" * 100_000,
    ],
)
def test_what_is_no_json_object_is_refused_with_the_reason(value: bytes) -> None:
    found = Documents("logs", ValueFormat.JSON).document(record(value))
    assert isinstance(found, Refused)
    assert found.kind == "not_a_document"
    assert found.reason.startswith("the value is ")


def test_the_prefix_begins_the_id() -> None:
    found = Documents("logs", ValueFormat.JSON, "2-").document(record(b"{}"))
    assert isinstance(found, Document)
    assert b'"_id":"2-logs-3-7"' in found.lines


def test_the_index_is_that_of_the_day_of_the_record() -> None:
    assert index_name("{topic}-%Y.%m.%d-%H", "Logs", MIDNIGHT_MS - 1) == "logs-2024.12.31-23"


@pytest.mark.parametrize("timestamp_ms", [-1, 2**62])
def test_a_time_that_no_calendar_has_is_that_of_1970(timestamp_ms: int) -> None:
    assert index_name("logs-%Y", "logs", timestamp_ms) == "logs-1970"


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("logs-%Y.%m.%d", None),
        ("{topic}", None),
        ("Logs", "makes Logs, which no index can be called"),
        ("-logs", "makes -logs"),
        ("a/b", "makes a/b"),
        ("a" * 256, "makes aaa"),
        ("logs-%s", "has %s: give only %Y"),
        ("{host}", "has {host}: give only {topic}"),
        ("{topic", "makes {topic"),
        ("50%", "makes 50%"),
    ],
)
def test_a_pattern_that_makes_no_name_of_an_index_is_told(pattern: str, problem: str | None) -> None:
    found = index_problem(pattern, ["logs"])
    assert (found is None) if problem is None else (found or "").startswith(problem)


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (200, None, Verdict.INDEXED),
        (201, None, Verdict.INDEXED),
        (409, "version_conflict_engine_exception", Verdict.ALREADY_THERE),
        (400, "mapper_parsing_exception", Verdict.REFUSED),
        (400, "strict_dynamic_mapping_exception", Verdict.REFUSED),
        (413, None, Verdict.REFUSED),
        (429, "rejected_execution_exception", Verdict.LATER),
        (503, "unavailable_shards_exception", Verdict.LATER),
        (404, "index_not_found_exception", Verdict.LATER),
        (403, "cluster_block_exception", Verdict.LATER),
        (400, "validation_exception", Verdict.LATER),
        (400, "index_closed_exception", Verdict.LATER),
        (400, "routing_missing_exception", Verdict.LATER),
        (400, "illegal_argument_exception", Verdict.REFUSED),
    ],
)
def test_only_what_is_wrong_with_the_document_itself_refuses_it(
    status: int, kind: str | None, expected: Verdict
) -> None:
    assert verdict(Item(status, None if kind is None else ItemError(kind))) is expected


def test_an_engine_that_gives_its_reason_as_text_is_understood() -> None:
    found = refused(document(b"{}"), Item(400, "bad"))
    assert (found.kind, found.reason) == ("unknown", "bad")


@pytest.mark.parametrize(
    "reason",
    [
        "no write index is defined for alias [logs]. The write index may be explicitly disabled using",
        "pipeline with id [absent] does not exist",
    ],
)
def test_an_alias_without_a_write_index_and_a_pipeline_that_is_gone_are_no_documents_fault(reason: str) -> None:
    """Reasons of OpenSearch 2.19.6, whose type is also that of documents with an immense term or too many fields."""
    assert verdict(Item(400, ItemError("illegal_argument_exception", reason))) is Verdict.LATER


def test_the_reason_of_a_refusal_has_its_causes() -> None:
    cause = Cause("Unexpected end-of-input", Cause("at line 1"))
    item = Item(400, ItemError("mapper_parsing_exception", "failed to parse", cause))
    document = Document(Record("logs", 0, 7, 0, None, b"", ()), b"")
    assert refused(document, item).reason == "failed to parse: Unexpected end-of-input: at line 1"
