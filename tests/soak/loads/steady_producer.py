"""A producer that writes to every partition of a topic at a steady rate, so that a pause of its readers shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import confluent_kafka

from tests.support.working_thread import WorkingThread

PERIOD_S: Final = 0.05
_DEADLINE_S: Final = 60.0


def _numbered(number: int) -> bytes:
    return b"%d" % number


class SteadyProducer(WorkingThread):
    """Writes a record to each partition every `period_s`; `value` makes one of the number of the round."""

    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: int,
        period_s: float = PERIOD_S,
        value: Callable[[int], bytes] = _numbered,
    ) -> None:
        super().__init__("steady producer", _DEADLINE_S)
        self._topic = topic
        self._partitions = partitions
        self._period_s = period_s
        self._value = value
        settings = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "topic.metadata.refresh.interval.ms": 1_000,
        }
        self._producer = confluent_kafka.Producer(settings)

    def grow(self, partitions: int) -> None:
        self._partitions = partitions

    def stop(self) -> None:
        """All that was written is stored when it returns. Raises what ended the thread."""
        self._stopping.set()
        self._thread.join(_DEADLINE_S)
        self.check()
        left = self._producer.flush(_DEADLINE_S)
        assert left == 0, f"{left} records are not acknowledged"

    def _work(self) -> None:
        number = 0
        while not self._stopping.wait(self._period_s):
            number += 1
            for partition in range(self._partitions):
                self._write(partition, number)
            self._producer.poll(0)

    def _write(self, partition: int, number: int) -> None:
        try:
            self._producer.produce(self._topic, self._value(number), partition=partition)
        except confluent_kafka.KafkaException as error:
            # It learns of new partitions with its next metadata.
            if error.args[0].code() != confluent_kafka.KafkaError._UNKNOWN_PARTITION:
                raise
