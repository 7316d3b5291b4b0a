"""Work beside the garbage: librdkafka writes and reads repeatedly, and records its errors."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Final

import confluent_kafka

TOPIC: Final = "unhurt"
LARGE: Final = "large"
"""The topic that clients fetch without reading the responses."""

DEADLINE_S: Final = 30.0
_ROUND_PAUSE_S: Final = 0.1
RECORDS_A_ROUND: Final = 50


def fill(servers: str, megabytes: int) -> int:
    """Fill LARGE; return its end offset."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 20})
    for _ in range(megabytes):
        for _ in range(16):
            producer.produce(LARGE, bytes(65_536), partition=0)
        assert producer.flush(DEADLINE_S) == 0
    return 16 * megabytes


class Work:
    """A context manager. Each round writes records, and is over when a consumer has read all of them."""

    def __init__(self, servers: str, round_s: list[float], errors: Counter[str]) -> None:
        self._round_s, self._errors = round_s, errors
        shared = {"bootstrap.servers": servers, "error_cb": self._trouble}
        # Idempotent: after a delay of seconds it sends again, and each record must be there once.
        self._producer = confluent_kafka.Producer(shared | {"enable.idempotence": True, "linger.ms": 0})
        self._consumer = confluent_kafka.Consumer(shared | {"group.id": "nobody", "enable.auto.commit": False})
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="work")

    def __enter__(self) -> Work:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._consumer.close()
        if self._error is not None:
            raise self._error

    def wait_for_rounds(self, count: int) -> None:
        with self._changed:
            goal = len(self._round_s) + count
            self._changed.wait_for(lambda: len(self._round_s) >= goal or self._error is not None, timeout=60)
            if len(self._round_s) < goal:
                raise self._error or TimeoutError("the node's work does not continue")

    def _trouble(self, error: confluent_kafka.KafkaError) -> None:
        self._errors[error.str()] += 1

    def _run(self) -> None:
        try:
            self._consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
            while not self._ended.wait(_ROUND_PAUSE_S):
                self._round()
        except BaseException as error:  # noqa: BLE001  The main thread raises it.
            self._error = error
        with self._changed:
            self._changed.notify_all()

    def _round(self) -> None:
        began = time.monotonic()
        sent = [b"%d %d" % (len(self._round_s), number) for number in range(RECORDS_A_ROUND)]
        for value in sent:
            self._producer.produce(TOPIC, value, partition=0, on_delivery=self._delivered)
        assert self._producer.flush(DEADLINE_S) == 0, "records were not acknowledged in time"
        found: list[object] = []
        while len(found) < len(sent):
            messages = self._consumer.consume(len(sent) - len(found), DEADLINE_S)
            assert messages, f"only {len(found)} of {len(sent)} records came back in time"
            assert not any(message.error() for message in messages), "a consumer got an error"
            found += [message.value() for message in messages]
        assert found == sent, "the records that were read differ from those written"
        with self._changed:
            self._round_s.append(time.monotonic() - began)
            self._changed.notify_all()

    def _delivered(self, error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        if error is not None:
            self._trouble(error)
