"""A producer of Kafka's that numbers the records of each partition, as fast as it may."""

from __future__ import annotations

import time
from typing import Final

import confluent_kafka

from tests.support.working_thread import WorkingThread

_DEADLINE_S: Final = 300.0
_BURST: Final = 1_000


class NumberedRecords(WorkingThread):
    """Writes `partition:number` to the partitions in turns, at most `rate` records in a second, until `finish`."""

    def __init__(self, servers: str, topic: str, partitions: int, rate: int) -> None:
        super().__init__("numbered records", _DEADLINE_S)
        self.written: list[int] = [0] * partitions
        """Records of each partition that the client took. All are acknowledged once `finish` returns."""
        self._topic = topic
        self._rate = rate
        self._failure = ""
        settings = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            # Each connection to a node that was killed is an error to it.
            "log_level": 0,
            "linger.ms": 20,
            "compression.type": "lz4",
            "topic.metadata.refresh.interval.ms": 1_000,
            # What cannot be delivered is a failure of the run; it is not given up while a broker is away.
            "message.timeout.ms": int(_DEADLINE_S * 1_000),
        }
        self._producer = confluent_kafka.Producer(settings)

    def grow(self, partitions: int) -> None:
        self.written += [0] * (partitions - len(self.written))

    def finish(self) -> None:
        """Stop; all that was written is stored when it returns. Raises what ended the thread."""
        self._stopping.set()
        self._thread.join(_DEADLINE_S)
        left = self._producer.flush(_DEADLINE_S)
        assert left == 0, f"{left} records are not acknowledged"
        self.check()
        assert not self._failure, f"a record is not acknowledged: {self._failure}"

    def _work(self) -> None:
        began_s, turn = time.monotonic(), 0
        while not self._stopping.is_set():
            partition = turn % len(self.written)
            turn += 1
            for _ in range(_BURST):
                self._write(partition)
            self._producer.poll(0)
            # Kept to its rate, so that the faults meet a stream that has something to do, and one that waits.
            self._stopping.wait(max(0.0, began_s + sum(self.written) / self._rate - time.monotonic()))

    def _write(self, partition: int) -> None:
        value = b"%d:%d" % (partition, self.written[partition])
        while not self._stopping.is_set():
            try:
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.1)
            except confluent_kafka.KafkaException as error:
                # It learns of new partitions with its next metadata.
                if error.args[0].code() != confluent_kafka.KafkaError._UNKNOWN_PARTITION:
                    raise
                return
            else:
                self.written[partition] += 1
                return

    def _delivered(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            self._failure = str(error)
