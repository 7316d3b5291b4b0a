"""What a sink has done, counted by its threads, and the metrics that show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from threading import Lock
from typing import Final

from kraft.model.printable import counted
from kraft.server.metrics.metric import counter, gauge, summary
from kraft.server.metrics.snapshot import Snapshot
from kraft.sink.documents import Verdict

RECORDS: Final = counter("kraft_sink_records", "Records read; tombstones (no value) are only counted", "kind")
DOCUMENTS: Final = counter("kraft_sink_documents", "Documents by what the engine answered", "result")
DEAD_LETTERS: Final = counter("kraft_sink_dead_letters", "Records stored in the topic of dead letters")
REQUESTS: Final = counter("kraft_sink_requests", "Bulk requests by whether they were answered", "result")
RETRIES: Final = counter("kraft_sink_retries", "Pauses before a retry")
SENT_BYTES: Final = counter("kraft_sink_sent_bytes", "Bytes of bulk requests that were answered, after compression")
REQUEST_S: Final = summary("kraft_sink_request_seconds", "Time from a bulk request to its answer")
COMMITS: Final = counter("kraft_sink_commits", "Commits of positions")
WAITING: Final = gauge("kraft_sink_waiting_records", "Records read and not settled")
PAUSED: Final = gauge("kraft_sink_paused", "1 while nothing is read because the engine is behind")

METRICS: Final = (
    RECORDS,
    DOCUMENTS,
    DEAD_LETTERS,
    REQUESTS,
    RETRIES,
    SENT_BYTES,
    REQUEST_S,
    COMMITS,
    WAITING,
    PAUSED,
)


class Counts:
    """May be used from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._verdicts: Counter[Verdict] = Counter()
        self._requests_failed = self._requests_done = self._sent_bytes = 0
        self._request_s = 0.0
        self._retries = self._dead_letters = 0
        # These belong to the loop alone.
        self.records = self.tombstones = self.commits = self.waiting = 0
        self.is_paused = False

    def request_failed(self) -> None:
        with self._lock:
            self._requests_failed += 1

    def request_done(self, took_s: float, sent_bytes: int) -> None:
        with self._lock:
            self._requests_done += 1
            self._request_s += took_s
            self._sent_bytes += sent_bytes

    def judged(self, verdicts: Iterable[Verdict]) -> None:
        with self._lock:
            self._verdicts.update(verdicts)

    def retried(self) -> None:
        with self._lock:
            self._retries += 1

    def put_aside(self, records: int) -> None:
        with self._lock:
            self._dead_letters += records

    def said(self) -> str:
        """Return the counts as a sentence for people."""
        new, there = self._verdicts[Verdict.INDEXED], self._verdicts[Verdict.ALREADY_THERE]
        return (
            f"{counted(self.records, 'record')} read: {counted(new, 'document')} indexed, {there:,} already there,"
            f" {counted(self._dead_letters, 'dead letter')}, {self.tombstones:,} without a value"
        )

    async def collect(self, snapshot: Snapshot) -> None:
        snapshot.add(RECORDS, self.records - self.tombstones, "value")
        snapshot.add(RECORDS, self.tombstones, "tombstone")
        for each in Verdict:
            snapshot.add(DOCUMENTS, self._verdicts[each], each)
        snapshot.add(DEAD_LETTERS, self._dead_letters)
        snapshot.add(REQUESTS, self._requests_done, "answered")
        snapshot.add(REQUESTS, self._requests_failed, "failed")
        snapshot.add(RETRIES, self._retries)
        snapshot.add(SENT_BYTES, self._sent_bytes)
        snapshot.add_summary(REQUEST_S, self._requests_done, self._request_s)
        snapshot.add(COMMITS, self.commits)
        snapshot.add(WAITING, self.waiting)
        snapshot.add(PAUSED, int(self.is_paused))
