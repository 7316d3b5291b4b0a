"""A reader of transfers between accounts, which checks what it reads while it is written."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from tests.support.kafka.transactions.options import ACCOUNTS
from tests.support.working_thread import WorkingThread

BALANCE: Final = 1_000
_STOP_DEADLINE_S: Final = 60.0
_POLL_S: Final = 0.1
_READ_MAX: Final = 500


class Ledger(WorkingThread):
    """Reads committed transfers of a topic from its beginning, and keeps the balances.

    A transfer is two records in two partitions. Whenever both records of all that it knows have been read, the total is
    what it was; a third record of a transfer is an error. `check` raises AssertionError.
    """

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        super().__init__("ledger", _STOP_DEADLINE_S)
        self.balances = [BALANCE] * ACCOUNTS
        self.totals = 0
        """How often the total was compared."""
        self.halves: dict[str, float] = {}
        """When one record of these transfers was read, and the other was not."""
        self.whole: set[str] = set()
        self._topic = topic
        self._partitions = partitions
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "ledger",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 1_000,
                "reconnect.backoff.max.ms": 500,
                "fetch.wait.max.ms": 100,
            }
        )

    def _work(self) -> None:
        self._consumer.assign([TopicPartition(self._topic, each, 0) for each in range(self._partitions)])
        while not self._stopping.is_set():
            for message in self._consumer.consume(_READ_MAX, _POLL_S):
                if message.error() is None:
                    self._read(message.key() or b"", message.value() or b"")
            if not self.halves:
                total = sum(self.balances)
                assert total == BALANCE * ACCOUNTS, f"the total is {total}"
                self.totals += 1
        self._consumer.close()

    def _read(self, account: bytes, value: bytes) -> None:
        name, change = value.decode().split()
        assert name not in self.whole, f"a third record of transfer {name}"
        self.balances[int(account)] += int(change)
        if self.halves.pop(name, None) is None:
            self.halves[name] = time.monotonic()
        else:
            self.whole.add(name)
