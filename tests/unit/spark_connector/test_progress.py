from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent, StreamingQueryProgress

from kraft.client import TopicPartition
from spark_connector.progress import KraftProgressListener, SourceProgress, progress_of

QUERY = "6d8a0d4c-4b3c-4b0b-9d4b-0c7a3f0f6a01"
P0, P1 = TopicPartition("a", 0), TopicPartition("a", 1)


def offsets(first: int, second: int, **beside: Any) -> str:
    return json.dumps({"version": 2, "topics": {"a": {"0": first, "1": second}}, **beside})


def source(end: str | None, latest: str | None) -> dict[str, Any]:
    return {
        "description": "PythonMicroBatchStream",
        "startOffset": None,
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": 30,
        "inputRowsPerSecond": 15.0,
        "processedRowsPerSecond": 60.0,
        "metrics": {},
    }


def progress(*sources: dict[str, Any], name: str | None = "flights") -> StreamingQueryProgress:
    return StreamingQueryProgress.fromJson(
        {
            "id": QUERY,
            "runId": QUERY,
            "name": name,
            "timestamp": "2026-01-02T03:04:05.678Z",
            "batchId": 7,
            "batchDuration": 500,
            "durationMs": {},
            "eventTime": {},
            "stateOperators": [],
            "sources": list(sources),
            "sink": {"description": "noop", "numOutputRows": 30, "metrics": {}},
            "numInputRows": 30,
            "inputRowsPerSecond": 15.0,
            "processedRowsPerSecond": 60.0,
            "observedMetrics": {},
        }
    )


def test_a_partition_that_was_added_since_lags_by_all_its_records() -> None:
    latest = json.dumps({"version": 2, "topics": {"a": {"0": 20, "1": 10, "2": 4}}})
    [found] = progress_of(progress(source(offsets(20, 10), latest)))
    assert found.total_lag == 4


def test_the_lag_of_a_repeated_batch_is_not_known() -> None:
    [found] = progress_of(progress(source(offsets(20, 10), "null")))
    assert (found.lag, found.total_lag) == (None, None)


def test_records_that_a_running_batch_may_have_lost_are_not_counted_as_skipped() -> None:
    end = offsets(20, 10, skipped={"a": {"0": 3}}, deletedWhileRead={"a": {"0": 1, "1": 2}})
    [found] = progress_of(progress(source(end, None)))
    assert (found.skipped, found.total_skipped) == ({P0: 3}, 3)
    assert found.deleted_while_read == {P0: 1, P1: 2}


@pytest.mark.parametrize(
    "end", [None, "null", "12", '{"a": {"0": 20}}', '{"version": 1}', "{", '{"version": 1, "topics": 3}']
)
def test_other_sources_are_left_out(end: str | None) -> None:
    assert progress_of(progress(source(end, end))) == []


def test_the_listener_logs_keeps_and_passes_on(caplog: pytest.LogCaptureFixture) -> None:
    passed_on: list[SourceProgress] = []
    listener = KraftProgressListener(passed_on.append)
    with caplog.at_level(logging.INFO, "spark_connector.progress"):
        listener.onQueryProgress(QueryProgressEvent(progress(source(offsets(20, 10), offsets(25, 10)))))
        listener.onQueryProgress(
            QueryProgressEvent(progress(source(offsets(25, 10, skipped={"a": {"0": 3}}), offsets(25, 10))))
        )
        listener.onQueryProgress(QueryProgressEvent(progress(source(None, None))))
    assert caplog.messages == [
        "micro-batch completed: query=flights batch=7 records=30 records_per_s=60 lag=5 skipped=0",
        "micro-batch completed: query=flights batch=7 records=30 records_per_s=60 lag=0 skipped=3",
        "records skipped: query=flights records=3",
    ]
    assert [each.total_lag for each in passed_on] == [5, 0]
    assert listener.last == {QUERY: passed_on[1:]}


def test_a_report_that_fails_does_not_end_the_listener(caplog: pytest.LogCaptureFixture) -> None:
    def fail(progress: SourceProgress) -> None:
        raise RuntimeError("no gauge")

    listener = KraftProgressListener(fail)
    listener.onQueryProgress(QueryProgressEvent(progress(source(offsets(20, 10), offsets(25, 10)))))
    assert caplog.messages == [
        "progress not reported: query=flights batch=7 records=30 records_per_s=60 lag=5 skipped=0"
    ]


def test_a_query_that_ended_is_forgotten() -> None:
    listener = KraftProgressListener()
    listener.onQueryProgress(QueryProgressEvent(progress(source(offsets(20, 10), None))))
    ended = {"id": QUERY, "runId": QUERY, "exception": None, "errorClassOnException": None}
    listener.onQueryTerminated(QueryTerminatedEvent.fromJson(ended))
    assert listener.last == {}
