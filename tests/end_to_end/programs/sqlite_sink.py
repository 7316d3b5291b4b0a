"""`python -m tests.end_to_end.programs.sqlite_sink`: reads a topic into a database that also stores the position.

The output of some records and the position after them are one transaction. Whenever this process dies, both are there
or neither is, and the next process continues from that position: it repeats some work, but stores nothing twice.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from pathlib import Path

from kraft.client import Consumer, ConsumerRecord, TopicPartition

TRANSACTION_RECORDS = 500


class Sink:
    """The sink; `worked_on` has every processed record, even if its output was not stored."""

    def __init__(self, directory: Path) -> None:
        self.worked_on = directory / "worked-on"
        self._database = sqlite3.connect(directory / "output.db", isolation_level=None)
        self._database.execute("CREATE TABLE IF NOT EXISTS output (value INTEGER)")
        self._database.execute("CREATE TABLE IF NOT EXISTS places (partition INTEGER PRIMARY KEY, next INTEGER)")

    def place(self, partition: int) -> int:
        found = self._database.execute("SELECT next FROM places WHERE partition = ?", (partition,)).fetchone()
        return 0 if found is None else int(found[0])

    def values(self) -> list[int]:
        return [int(value) for (value,) in self._database.execute("SELECT value FROM output ORDER BY value")]

    def begin(self) -> None:
        self._database.execute("BEGIN")

    def store(self, record: ConsumerRecord) -> None:
        with self.worked_on.open("ab") as noted:
            noted.write((record.value or b"") + b"\n")
        self._database.execute("INSERT INTO output VALUES (?)", (int(record.value or b""),))
        place = (record.partition, record.offset + 1)
        self._database.execute("INSERT OR REPLACE INTO places VALUES (?, ?)", place)

    def commit(self) -> None:
        self._database.execute("COMMIT")


def main(servers: str, topic: str, directory: str, total: str, dies_after: str) -> None:
    """Run until `total` records are stored, or until it kills itself in the middle of a transaction."""
    sink, worked_on, stored = Sink(Path(directory)), 0, 0
    stored = len(sink.values())
    with Consumer(servers) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, sink.place(partition.partition))
        while stored < int(total):
            records = consumer.poll(timeout_ms=1_000, max_records=TRANSACTION_RECORDS)
            sink.begin()
            for record in records:
                sink.store(record)
                worked_on += 1
                if worked_on == int(dies_after):
                    os.kill(os.getpid(), signal.SIGKILL)
            sink.commit()
            stored += len(records)


if __name__ == "__main__":
    main(*sys.argv[1:])
