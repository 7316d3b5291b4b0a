"""A worker's client by confluent-kafka, that is librdkafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.kafka.group_members import confluent_member
from tests.support.kafka.group_members.journal import Journal
from tests.support.kafka.group_members.options import POLL_S, READ_MAX
from tests.support.kafka.transactions.options import Options
from tests.support.kafka.transactions.work import Aborted, Client, Ended, Read

_CALL_S: Final = 5.0
_DEADLINE_S: Final = 120.0
_RETRY_S: Final = 0.1
_EARLIEST: Final = 0

Result = TypeVar("Result")


class ConfluentClient(Client):
    def __init__(self, options: Options, journal: Journal) -> None:
        self._options = options
        self._journal = journal
        self._consumer: Any = Consumer(_consumer_settings(options))
        self._producer: Any = Producer(_producer_settings(options))
        self._polled: list[Read] = []
        _repeated(lambda: self._producer.init_transactions(_CALL_S))

    def subscribe(self) -> None:
        def drop(_: Any, partitions: list[TopicPartition]) -> None:
            # They belong to another member from now on.
            gone = {each.partition for each in partitions}
            self._polled = [each for each in self._polled if each.partition not in gone]

        self._consumer.subscribe([self._options.source], on_revoke=drop, on_lost=drop)

    def poll(self) -> Sequence[Read]:
        self._polled = []
        message = self._consumer.poll(POLL_S)
        while message is not None:
            if message.error() is not None:
                self._journal.failed("poll", message.error())
            else:
                self._polled.append(Read(message.partition(), message.offset(), message.value()))
            if len(self._polled) >= READ_MAX:
                break
            message = self._consumer.poll(0)
        return self._polled

    def begin(self) -> None:
        _called(self._producer.begin_transaction)

    def send(self, partition: int, key: bytes, value: bytes) -> None:
        _called(lambda: self._producer.produce(self._options.target, value, key, partition))

    def send_offsets(self) -> None:
        after = {each.partition: each.offset + 1 for each in self._polled}
        offsets = [TopicPartition(self._options.source, each, offset) for each, offset in after.items()]
        member = self._consumer.consumer_group_metadata()
        _repeated(lambda: self._producer.send_offsets_to_transaction(offsets, member, _CALL_S))

    def commit(self) -> None:
        _repeated(lambda: self._producer.commit_transaction(_CALL_S))

    def abort(self) -> None:
        _repeated(lambda: self._producer.abort_transaction(_CALL_S))

    def rewind(self) -> None:
        assigned = self._consumer.assignment()
        if not assigned:
            return
        for each in _repeated(lambda: self._consumer.committed(assigned, _CALL_S), is_always_repeated=True):
            if each.offset < 0:
                each.offset = _EARLIEST
            try:
                self._consumer.seek(each)
            except KafkaException as raised:
                # The partition is being taken away, or not begun yet. A program that has lost its place starts again.
                raise Ended(str(raised)) from raised

    def close(self) -> None:
        self._consumer.close()


def connect(options: Options, journal: Journal) -> Client:
    return ConfluentClient(options, journal)


def _called(call: Callable[[], Result]) -> Result:
    try:
        return call()
    except KafkaException as raised:
        error = raised.args[0]
        if error.fatal():
            raise Ended(str(raised)) from raised
        if error.txn_requires_abort() or error.name() == "_STATE":
            raise Aborted(str(raised)) from raised
        raise


def _repeated(call: Callable[[], Result], *, is_always_repeated: bool = False) -> Result:
    until_s = time.monotonic() + _DEADLINE_S
    while True:
        try:
            return _called(call)
        except KafkaException as raised:
            may_repeat = is_always_repeated or raised.args[0].retriable()
            if not may_repeat or time.monotonic() > until_s:
                raise
            time.sleep(_RETRY_S)


def _producer_settings(options: Options) -> dict[str, Any]:
    return {
        "bootstrap.servers": options.servers,
        "client.id": options.name,
        "transactional.id": options.name,
        "transaction.timeout.ms": options.transaction_timeout_ms,
        "reconnect.backoff.max.ms": 500,
        "topic.metadata.refresh.interval.ms": 1_000,
        "linger.ms": 0,
    }


def _consumer_settings(options: Options) -> dict[str, Any]:
    return {**confluent_member.settings(options.as_member()), "isolation.level": "read_committed"}
