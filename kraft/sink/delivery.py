"""The delivery of one batch: sent until each record is in the index or in the dead letters, however long that takes."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait
from time import perf_counter
from typing import Final, Protocol

import structlog
from msgspec import Struct, structs

from kraft.client import ErrorCode, KraftError, Producer, RecordMetadata, RecordTooLarge, Refusal
from kraft.client.sans_io.backoff import Backoff
from kraft.log.format.record_codec import Header
from kraft.sink.counts import Counts
from kraft.sink.documents import Document, Item, Refused, Verdict, refused, verdict
from kraft.sink.engine import EngineAway, LoginRefused, Overloaded, RequestRefused

log = structlog.get_logger()

_RESTART: Final = "if the login has changed, correct it in the file, and start the sink again: it goes on where it was"

_REASON_MAX: Final = 1_000
_OVERLOADED_MAX: Final = 3
"""Times that a request finds no room before it is halved: an engine never has room for more than a part of its heap."""

_TOLD_AFTER_S: Final = 5.0
"""Time after which it is told why dead letters are not stored yet; the next times are twice as long."""

_OF_NO_TOPIC: Final = ": the topic is created by the next start of the sink, or by kraft topics create"

_CONNECT: Final = "__connect.errors."
"""Kafka Connect's names of headers, which tools for dead letters know."""


class Stopped(Exception):
    """The sink ends before the batch is settled: it is read again by the next one."""


class Batch(Struct, kw_only=True):
    """Documents of one request, and the records that are none."""

    number: int
    began_s: float
    documents: list[Document]
    refused: list[Refused]
    size_bytes: int = 0

    @property
    def count(self) -> int:
        return len(self.documents) + len(self.refused)


class Bulk(Protocol):
    """What is needed of an engine."""

    def bulk(self, documents: Sequence[Document]) -> tuple[list[Item], int]: ...


class Delivery:
    """Settles batches, in any number of threads; each thread gives its own engine."""

    def __init__(
        self, dead_letters: str, producer: Producer, retry: tuple[int, int], counts: Counts, stop: threading.Event
    ) -> None:
        """`retry` are the first and the longest pause before a retry, in milliseconds."""
        self._dead_letters = dead_letters
        self._producer = producer
        self._backoff = Backoff(first_ms=retry[0], max_ms=retry[1], chance=random.random)
        self._counts = counts
        self._stop = stop
        self._told: set[str] = set()

    def settle(self, batch: Batch, engine: Bulk) -> int:
        """Return the number of the batch once it is settled. Raises Stopped."""
        found = [*batch.refused, *self._index(batch.documents, engine)]
        self._put_aside(found)
        return batch.number

    def _index(self, documents: list[Document], engine: Bulk) -> list[Refused]:
        """Return what the engine refuses."""
        found: list[Refused] = []
        failures = 0
        away_s: float | None = None
        while documents:
            began_s = perf_counter()
            try:
                items, sent_bytes = engine.bulk(documents)
            except RequestRefused as error:
                self._counts.request_failed()
                if len(documents) > 1:
                    # One of them may be too large, or all together.
                    return [*found, *self._index_halves(documents, engine)]
                return [*found, Refused(documents[0].record, "request_refused", str(error))]
            except EngineAway as error:
                self._counts.request_failed()
                failures += 1
                away_s = began_s if away_s is None else away_s
                remedy = f": {_RESTART}" if isinstance(error, LoginRefused) else ""
                self._pause(failures, f"{error}{remedy}", len(documents), error.retry_after_s)
                if isinstance(error, Overloaded) and failures >= _OVERLOADED_MAX and len(documents) > 1:
                    return [*found, *self._index_halves(documents, engine)]
                continue
            self._counts.request_done(perf_counter() - began_s, sent_bytes)
            if away_s is not None:
                log.info("search engine answers again", after_s=round(began_s - away_s, 1), documents=len(documents))
                away_s = None
            verdicts = [verdict(each) for each in items]
            self._counts.judged(verdicts)
            sent = list(zip(documents, items, verdicts, strict=True))
            if not failures:
                # A request that is repeated, because no answer came, finds its own documents.
                self._tell_repeats(each for each, _, judged in sent if judged is Verdict.ALREADY_THERE)
            found += [refused(each, item) for each, item, judged in sent if judged is Verdict.REFUSED]
            later = [(each, item) for each, item, judged in sent if judged is Verdict.LATER]
            # What got through shows that the engine works: pauses begin anew.
            failures = failures + 1 if len(later) == len(documents) else 1
            documents = [each for each, _ in later]
            if later:
                why = refused(*later[0])
                self._pause(failures, f"{why.kind}: {why.reason}", len(documents))
        return found

    def _index_halves(self, documents: list[Document], engine: Bulk) -> list[Refused]:
        middle = len(documents) // 2
        return [*self._index(documents[:middle], engine), *self._index(documents[middle:], engine)]

    def _tell_repeats(self, documents: Iterable[Document]) -> None:
        """Log once for each topic that documents are there already, for they may be of another topic of that name."""
        for each in documents:
            if (topic := each.record.topic) not in self._told:
                self._told.add(topic)
                log.warning(
                    "records are left out: the index has their ids already, as after a crash of the sink or a reset "
                    "of its group",
                    topic=topic,
                    partition=each.record.partition,
                    offset=each.record.offset,
                    remedy="if the topic was deleted and created again, set document.id.prefix, and reset the group",
                )

    def _put_aside(self, found: list[Refused]) -> None:
        """Store dead letters, each once it is acknowledged."""
        failures = 0
        while found:
            sent = [(each, self._sent(each)) for each in found]
            self._wait_for([future for _, future in sent])
            failed = [(each, error) for each, future in sent if (error := future.exception()) is not None]
            self._counts.put_aside(len(found) - len(failed))
            found = [_without_value(each) if _is_too_large(error) else each for each, error in failed]
            if failed:
                error = failed[0][1]
                if not isinstance(error, KraftError):
                    raise error
                failures += 1
                self._pause(failures, f"dead letters are not stored: {error}", len(found))

    def _wait_for(self, futures: Sequence[Future[RecordMetadata]]) -> None:
        """Wait until all are stored or have failed, and tell what they wait for."""
        told_after_s = _TOLD_AFTER_S
        while left := wait(futures, told_after_s).not_done:
            delay = self._producer.longest_delay()
            reason = "no response yet" if delay is None else delay.reason
            remedy = _OF_NO_TOPIC if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name in reason else ""
            log.warning(
                "dead letters are not stored yet",
                topic=self._dead_letters,
                letters=len(left),
                reason=f"{reason}{remedy}",
            )
            told_after_s *= 2

    def _sent(self, found: Refused) -> Future[RecordMetadata]:
        record = found.record
        try:
            return self._producer.send(self._dead_letters, record.value, key=record.key, headers=_headers(found))
        except KraftError as error:
            failed: Future[RecordMetadata] = Future()
            failed.set_exception(error)
            return failed

    def _pause(self, failures: int, reason: str, documents: int, asked_s: int = 0) -> None:
        """Wait before a retry, as long as asked for and no longer than ever. Raises Stopped."""
        pause_ms = max(self._backoff.delay_ms(failures), min(asked_s * 1_000, self._backoff.max_ms))
        self._counts.retried()
        log.warning(
            "delivery will be retried", reason=reason, documents=documents, failures=failures, pause_ms=pause_ms
        )
        if self._stop.wait(pause_ms / 1_000):
            raise Stopped


def _headers(found: Refused) -> list[Header]:
    record = found.record
    said = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "exception.class.name": found.kind,
        "exception.message": found.reason[:_REASON_MAX],
    }
    return [*record.headers, *((f"{_CONNECT}{name}", text.encode()) for name, text in said.items())]


def _is_too_large(error: BaseException) -> bool:
    is_refused = isinstance(error, Refusal) and error.error_code is ErrorCode.MESSAGE_TOO_LARGE
    return is_refused or isinstance(error, RecordTooLarge)


def _without_value(found: Refused) -> Refused:
    """Return a letter for a record that has no room for headers beside its value, or even beside its key."""
    if not found.record.value and not found.record.headers:
        record = structs.replace(found.record, key=None)
        return Refused(record, found.kind, f"(key left out, it is too large) {found.reason}")
    record = structs.replace(found.record, value=b"", headers=())
    return Refused(record, found.kind, f"(value left out, it is too large) {found.reason}")
