"""The sink at work: it reads as a member of a group, fills requests, and commits what is settled.

One thread reads and commits; others send. While as many requests are under way as may be, and another is full, the
partitions are paused: the member stays in its group, and reads nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from time import perf_counter
from typing import Final

import structlog

from kraft.client import (
    Admin,
    AuthenticationFailed,
    Consumer,
    ErrorCode,
    KraftError,
    NewTopic,
    PartitionColumns,
    Producer,
    Refusal,
    TopicPartition,
)
from kraft.sink.config import SinkConfig
from kraft.sink.counts import Counts
from kraft.sink.delivery import Batch, Delivery, Stopped
from kraft.sink.documents import Documents, Record, Refused
from kraft.sink.engine import Engine, EngineAway, LoginRefused, NoEngine, RequestRefused
from kraft.sink.metrics_page import metrics_page
from kraft.sink.progress import Progress
from kraft.tls.store_files import StoreError

log = structlog.get_logger()

COMMIT_EVERY_S: Final = 1.0
END_S_MAX: Final = 5.0
"""Longest wait for requests that are under way, when the sink is stopped."""

_POLL_MS: Final = 100
_PAUSE_AFTER_ERROR_S: Final = 1.0


class CannotLoad(KraftError):
    """The sink cannot begin; one line, with the remedy."""


def run(config: SinkConfig, say: Callable[[str], None]) -> None:
    """Load until an interrupt comes. Raises CannotLoad, and KraftError of the client before the beginning."""
    counts, stop = Counts(), threading.Event()
    _check_login(config)
    _have_dead_letters(config)
    settings = {
        "group_id": config.group_id,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        # What was aborted is sent again by its producer, and would be in the index twice.
        "isolation_level": "read_committed",
    }
    with (
        metrics_page(config.metrics, counts),
        Producer(**config.client) as producer,
        Consumer(**{**config.client, **settings, **config.consumer}) as consumer,
        ThreadPoolExecutor(config.in_flight_max, "bulk") as senders,
    ):
        retry = (config.retry_first_ms, config.retry_max_ms)
        delivery = Delivery(config.dead_letters, producer, retry, counts, stop)
        sink = Sink(config, consumer, delivery, senders, counts)
        say(
            f"Loading {', '.join(config.topics)} into {config.index} at {', '.join(config.engine.urls)}"
            " (Ctrl-C ends it)"
        )
        try:
            while True:
                sink.step()
        except KeyboardInterrupt:
            sink.end()
        finally:
            stop.set()
            sink.abandon()
            # Dead letters that are not stored by now are read, and sent, again.
            producer.close(timeout_ms=0)
            say(f"Ended: {counts.said()}")


def _check_login(config: SinkConfig) -> None:
    """A login that the engine does not take ends the sink at its beginning. An engine that is away is waited for."""
    engine = Engine(config.engine)
    try:
        engine.check()
    except LoginRefused as error:
        raise CannotLoad(f"the search engine refuses the login: {error}: set connection.username or .api.key") from None
    except (StoreError, RequestRefused, NoEngine) as error:
        raise CannotLoad(f"connection.url: {error}") from None
    except EngineAway as error:
        log.warning("search engine unavailable", reason=str(error))
    finally:
        engine.close()


def _have_dead_letters(config: SinkConfig) -> None:
    """Create the topic of dead letters, unless it is there: then nobody needs the right to create it."""
    with Admin(**config.client) as admin:
        if config.dead_letters in admin.find_topics([config.dead_letters]):
            return
        try:
            admin.create_topics([NewTopic(topic=config.dead_letters)])
        except Refusal as error:
            if error.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise CannotLoad(f"topic {config.dead_letters} cannot be created: {error}") from None


class Sink:
    """Moves records by steps. For one thread."""

    def __init__(
        self,
        config: SinkConfig,
        consumer: Consumer,
        delivery: Delivery,
        senders: ThreadPoolExecutor,
        counts: Counts,
    ) -> None:
        self._config = config
        self._consumer = consumer
        self._delivery = delivery
        self._senders = senders
        self._counts = counts
        self._documents = Documents(config.index, config.value_format, config.id_prefix)
        self._progress = Progress()
        self._engines = [Engine(config.engine) for _ in range(config.in_flight_max)]
        """Those that no thread has: a request under way has one."""

        self._in_flight: dict[Future[int], tuple[Batch, Engine]] = {}
        self._full: deque[Batch] = deque()
        self._number = 0
        self._filling = self._new_batch()
        self._commit_at_s = 0.0
        consumer.subscribe(config.topics, on_revoked=self._revoked, on_lost=self._lost)

    def step(self) -> None:
        """Read what is there, send what is full, and commit what is settled."""
        self._settle()
        self._send()
        self._pause_or_go_on()
        try:
            for part in self._consumer.poll_batches(self._poll_ms(), self._config.batch_count):
                self._add(part)
        except AuthenticationFailed:
            raise
        except KraftError as error:
            log.warning("records cannot be read", reason=str(error))
            # The client has retried as long as it may; a loop without a pause would only fill the log.
            time.sleep(_PAUSE_AFTER_ERROR_S)
        if time.monotonic() >= self._commit_at_s:
            self._commit()

    def end(self) -> None:
        """Wait for what is under way, and commit it."""
        wait(self._in_flight, END_S_MAX)
        self._settle()
        self._commit()

    def abandon(self) -> None:
        """End what is still under way: nothing of it is committed, and it is sent again by the next sink."""
        for _, engine in self._in_flight.values():
            engine.interrupt()

    # --- reading -----------------------------------------------------------------------------------------------

    def _poll_ms(self) -> int:
        """Return how long records may be waited for: what has been read is sent soon, too."""
        if self._counts.is_paused or self._in_flight:
            return _POLL_MS // 2
        if self._filling.count:
            left_s = self._filling.began_s + self._config.linger_ms / 1_000 - perf_counter()
            return max(1, min(_POLL_MS, int(left_s * 1_000)))
        return _POLL_MS

    def _pause_or_go_on(self) -> None:
        has_to_pause = bool(self._full)
        if has_to_pause:
            # Also those that a rebalance has just given.
            self._consumer.pause(*self._consumer.assignment())
        elif self._counts.is_paused:
            self._consumer.resume(*self._consumer.paused())
        self._counts.is_paused = has_to_pause

    def _add(self, part: PartitionColumns) -> None:
        topic, partition = part.partition.topic, part.partition.partition
        columns = part.columns
        if not self._filling.count:
            self._filling.began_s = perf_counter()
        for offset, time_ms, key, value, headers in zip(
            columns.offsets, columns.timestamps_ms, columns.keys, columns.values, columns.headers, strict=True
        ):
            self._counts.records += 1
            if value is None:
                self._counts.tombstones += 1
                continue
            record = Record(topic, partition, offset, time_ms, key, value, headers)
            batch = self._filling
            document = self._documents.document(record)
            if isinstance(document, Refused):
                batch.refused.append(document)
                batch.size_bytes += len(value)
            else:
                batch.documents.append(document)
                batch.size_bytes += len(document.lines)
            if batch.count >= self._config.batch_count or batch.size_bytes >= self._config.batch_bytes:
                self._progress.added(batch.number, part.partition, offset + 1)
                self._fill_next()
        # The end of a part may be after its last record.
        self._progress.added(self._filling.number, part.partition, part.next_offset)

    def _new_batch(self) -> Batch:
        self._number += 1
        return Batch(number=self._number, began_s=perf_counter(), documents=[], refused=[])

    def _fill_next(self) -> None:
        self._full.append(self._filling)
        self._filling = self._new_batch()

    # --- sending -----------------------------------------------------------------------------------------------

    def _send(self) -> None:
        lingered_s = perf_counter() - self._filling.began_s
        if not self._full and lingered_s * 1_000 >= self._config.linger_ms:
            if self._filling.count and self._engines:
                self._fill_next()
            elif not self._filling.count and not self._in_flight:
                # Only tombstones and gaps: nothing has to be sent.
                self._progress.settled(self._filling.number)
                self._filling = self._new_batch()
        while self._full and self._engines:
            batch, engine = self._full.popleft(), self._engines.pop()
            self._in_flight[self._senders.submit(self._delivery.settle, batch, engine)] = batch, engine
        self._counts.waiting = self._filling.count + sum(each.count for each in self._full)
        self._counts.waiting += sum(batch.count for batch, _ in self._in_flight.values())

    def _settle(self) -> None:
        for future in [each for each in self._in_flight if each.done()]:
            _, engine = self._in_flight.pop(future)
            self._engines.append(engine)
            # The end of the sink has stopped some: what they have is read again by the next one.
            if not isinstance(future.exception(), Stopped):
                self._progress.settled(future.result())

    # --- positions ---------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        self._commit_at_s = time.monotonic() + COMMIT_EVERY_S
        offsets = self._progress.committable()
        if not offsets:
            return
        try:
            self._consumer.commit(offsets)
        except AuthenticationFailed:
            raise
        except KraftError as error:
            # What is read again by that is there already.
            log.warning("positions not committed", reason=str(error))
        else:
            self._counts.commits += 1
            self._progress.committed(offsets)

    def _revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self._settle()
        self._commit()
        self._progress.forget(partitions)

    def _lost(self, partitions: Iterable[TopicPartition]) -> None:
        self._progress.forget(partitions)
