"""A worker's client by Kraft's own client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from kraft.client import (
    Consumer,
    OffsetAndMetadata,
    Producer,
    ProducerFenced,
    Refusal,
    TopicPartition,
    TransactionAborted,
    TransactionTimeout,
    Unreachable,
)
from tests.support.kafka.group_members import kraft_member
from tests.support.kafka.group_members.journal import Journal
from tests.support.kafka.group_members.options import POLL_S, READ_MAX
from tests.support.kafka.transactions.options import Options
from tests.support.kafka.transactions.work import Aborted, Client, Ended, Read

_CALL_MS: Final = 5_000
_DEADLINE_S: Final = 120.0
_RETRY_S: Final = 0.1

Result = TypeVar("Result")


class KraftClient(Client):
    def __init__(self, options: Options, journal: Journal) -> None:
        self._options = options
        self._journal = journal
        self._consumer = Consumer(options.servers, **_consumer_settings(options))
        self._producer = Producer(
            options.servers,
            client_id=options.name,
            transactional_id=options.name,
            transaction_timeout_ms=options.transaction_timeout_ms,
            max_block_ms=_CALL_MS,
            linger_ms=0,
        )
        _repeated(self._producer.init_transactions)

    def subscribe(self) -> None:
        self._consumer.subscribe(self._options.source)

    def poll(self) -> Sequence[Read]:
        try:
            records = self._consumer.poll(int(POLL_S * 1_000), READ_MAX)
        except (Refusal, Unreachable) as error:
            self._journal.failed("poll", error)
            return ()
        return [Read(each.partition, each.offset, each.value or b"") for each in records]

    def begin(self) -> None:
        _repeated(self._producer.begin_transaction)

    def send(self, partition: int, key: bytes, value: bytes) -> None:
        with _translated():
            self._producer.send(self._options.target, value, key=key, partition=partition)

    def send_offsets(self) -> None:
        with _translated():
            self._producer.send_offsets_to_transaction(self._consumer.consumed(), self._consumer.group_metadata())

    def commit(self) -> None:
        _repeated(self._producer.commit_transaction)

    def abort(self) -> None:
        _repeated(self._producer.abort_transaction)

    def rewind(self) -> None:
        for partition, committed in self._committed().items():
            self._consumer.seek(partition, 0 if committed is None else committed.offset)

    def _committed(self) -> dict[TopicPartition, OffsetAndMetadata | None]:
        until_s = time.monotonic() + _DEADLINE_S
        while True:
            try:
                return self._consumer.committed(self._consumer.assignment(), _CALL_MS)
            except (Refusal, Unreachable):
                if time.monotonic() > until_s:
                    raise
                time.sleep(_RETRY_S)

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()


def connect(options: Options, journal: Journal) -> Client:
    return KraftClient(options, journal)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ProducerFenced as error:
        raise Ended(str(error)) from error
    except (TransactionAborted, Refusal, Unreachable) as error:
        raise Aborted(str(error)) from error


def _repeated(call: Callable[[], Result]) -> Result:
    until_s = time.monotonic() + _DEADLINE_S
    while True:
        try:
            with _translated():
                return call()
        except TransactionTimeout:
            if time.monotonic() > until_s:
                raise


def _consumer_settings(options: Options) -> dict[str, Any]:
    return {**kraft_member.settings(options.as_member()), "isolation_level": "read_committed"}
