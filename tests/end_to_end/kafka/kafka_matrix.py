"""The clients whose records are compared: what each can write and show, and what, by its nature, it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.end_to_end.kafka import kafka_readers as readers
from tests.end_to_end.kafka import kafka_writers as writers
from tests.end_to_end.kafka.kafka_records import Place, Record, Section, Stored, Trait, traits_of

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

_REFUSED: Final = "it raises before anything is sent"
_ONE_KEY: Final = "it keeps headers as an object, by their names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """`cannot_write` and `cannot_show` map what it cannot do to the reason."""

    write: Callable[[Place, str, Sequence[Record]], None]
    read: Callable[[Place, Sequence[Section]], list[Stored]]
    codecs: tuple[str, ...] = CODECS
    has_own_timestamps: bool = True
    """True if it accepts a timestamp. Otherwise it uses the time at which it sends."""

    cannot_write: Mapping[Trait, str] = field(default_factory=dict)
    cannot_show: Mapping[Trait, str] = field(default_factory=dict)

    def can_write(self, record: Record) -> bool:
        return traits_of(record).isdisjoint(self.cannot_write)


CLIENTS: Final[Mapping[str, Client]] = {
    "confluent": Client(write=writers.write_by_confluent, read=readers.read_by_confluent),
    "kafka-python": Client(
        write=writers.write_by_kafka_python,
        read=readers.read_by_kafka_python,
        cannot_write={Trait.BOTH_NULL: _REFUSED, Trait.NULL_HEADER: _REFUSED},
    ),
    "aiokafka": Client(
        write=writers.write_by_aiokafka, read=readers.read_by_aiokafka, cannot_write={Trait.BOTH_NULL: _REFUSED}
    ),
    "kraft": Client(write=writers.write_by_kraft, read=readers.read_by_kraft),
    "kcat": Client(
        write=writers.write_by_kcat,
        read=readers.read_by_kcat,
        has_own_timestamps=False,
        cannot_write={Trait.EMPTY_BESIDE_NULL: "in one run an empty text is null, or it is not"},
        cannot_show={Trait.NULL_HEADER: "it prints NULL, as for a header of that text"},
    ),
    "java": Client(
        write=writers.write_by_java,
        read=readers.read_by_java,
        has_own_timestamps=False,
        cannot_write={Trait.NO_TEXT: "its console reads lines of UTF-8"},
    ),
    "kafkajs": Client(
        write=writers.write_by_kafkajs,
        read=readers.read_by_kafkajs,
        # Those beside it for lz4 and zstd are compiled when they are installed.
        codecs=("none", "gzip", "snappy"),
        cannot_write={Trait.NULL_HEADER: _REFUSED, Trait.SCATTERED_HEADERS: _ONE_KEY},
        cannot_show={Trait.SCATTERED_HEADERS: _ONE_KEY},
    ),
}
