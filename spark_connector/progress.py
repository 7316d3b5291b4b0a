"""Lag, skipped records and rates of running queries, from the progress that Spark reports after each micro-batch."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from kraft.client import TopicPartition
from spark_connector.offsets import OffsetsError, from_topics

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

_log = logging.getLogger("spark_connector.progress")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """One source `kraft` of a query after one of its micro-batches."""

    query_id: str
    query_name: str | None
    batch_id: int
    timestamp: str
    """Start of the trigger, in UTC as ISO 8601."""

    records: int
    """Number of records in the micro-batch."""

    records_per_s: float
    """Rate at which the query processed them."""

    arriving_per_s: float
    """Rate at which they arrived: above `records_per_s`, the lag grows."""

    end_offsets: Mapping[TopicPartition, int]
    """Where the micro-batch ended."""

    latest_offsets: Mapping[TopicPartition, int] | None
    """End of each partition when the micro-batch was planned; None if the query repeats one of an earlier run."""

    skipped: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Records that were deleted before the query read them, since its start."""

    deleted_while_read: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Records that were deleted while a micro-batch with them ran: the tasks that did not read them have logged it."""

    @property
    def lag(self) -> Mapping[TopicPartition, int] | None:
        """Number of records in each partition that the query has not read; None if that is not known."""
        if self.latest_offsets is None:
            return None
        return {
            partition: max(0, latest - self.end_offsets.get(partition, 0))
            for partition, latest in self.latest_offsets.items()
        }

    @property
    def total_lag(self) -> int | None:
        return None if self.lag is None else sum(self.lag.values())

    @property
    def total_skipped(self) -> int:
        return sum(self.skipped.values())


def progress_of(progress: StreamingQueryProgress) -> list[SourceProgress]:
    """Return the progress of each source `kraft`; of `query.lastProgress`, or of an event. Others are left out."""
    found = []
    for source in progress.sources:
        end = _document(source.endOffset)
        if end is None:
            continue
        latest = _document(source.latestOffset)
        found.append(
            SourceProgress(
                query_id=str(progress.id),
                query_name=progress.name,
                batch_id=progress.batchId,
                timestamp=progress.timestamp,
                records=source.numInputRows,
                records_per_s=source.processedRowsPerSecond,
                arriving_per_s=source.inputRowsPerSecond,
                end_offsets=from_topics(end["topics"]),
                latest_offsets=None if latest is None else from_topics(latest["topics"]),
                skipped=from_topics(end.get("skipped", {})),
                deleted_while_read=from_topics(end.get("deletedWhileRead", {})),
            )
        )
    return found


class KraftProgressListener(StreamingQueryListener):
    """Logs the lag, rate and skipped records of every query with a source `kraft`, and keeps the last values.

    `spark.streams.addListener(KraftProgressListener())`. Spark calls it in a thread of its own; `report` is called
    there, for instance to set the gauges of a metrics library. What it raises is logged.
    """

    def __init__(self, report: Callable[[SourceProgress], object] | None = None) -> None:
        self._report = report
        self.last: dict[str, list[SourceProgress]] = {}
        """By query id: the last progress of each of its sources. A query that ended is removed."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known before the first micro-batch."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        sources = progress_of(event.progress)
        if not sources:
            return
        before = self.last.get(sources[0].query_id, [])
        self.last[sources[0].query_id] = sources
        skipped_before = sum(each.total_skipped for each in before)
        for each in sources:
            _log.info("micro-batch completed: %s", _facts(each))
            self._pass_on(each)
        if (skipped := sum(each.total_skipped for each in sources)) > skipped_before:
            _log.warning("records skipped: query=%s records=%d", _name(sources[0]), skipped - skipped_before)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.last.pop(str(event.id), None)

    def _pass_on(self, progress: SourceProgress) -> None:
        if self._report is None:
            return
        try:
            self._report(progress)
        except Exception:  # noqa: BLE001 (it is the user's function)
            # Spark would log it too, but without the values.
            _log.exception("progress not reported: %s", _facts(progress))


def _document(text: object) -> Mapping[str, Any] | None:
    """Return the offsets of a source `kraft`: JSON with a version and topics. None for any other source."""
    try:
        document = json.loads(text) if isinstance(text, str) else text
        if not isinstance(document, dict) or not isinstance(document.get("version"), int):
            return None
        from_topics(document.get("topics"))
    except (ValueError, OffsetsError):
        return None
    return document


def _facts(progress: SourceProgress) -> str:
    lag = "unknown" if progress.total_lag is None else progress.total_lag
    rate, batch = round(progress.records_per_s), progress.batch_id
    counts = f"records={progress.records} records_per_s={rate} lag={lag} skipped={progress.total_skipped}"
    return f"query={_name(progress)} batch={batch} {counts}"


def _name(progress: SourceProgress) -> str:
    return progress.query_name or progress.query_id
