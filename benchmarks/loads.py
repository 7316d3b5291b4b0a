"""The loads that a benchmark can produce with, as users choose them."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from benchmarks import kafka_load, prepared_load
from benchmarks.kafka_load import Flow


class Load(StrEnum):
    """Load on a broker; each is a process of its own."""

    LIBRDKAFKA = "librdkafka"
    PREPARED = "prepared"

    @property
    def meaning(self) -> str:
        """Return a sentence for the notes below a table."""
        if self is Load.LIBRDKAFKA:
            return "librdkafka: a client that makes a batch of records, one after the other, and computes its checksum."
        return (
            "prepared: one request, encoded once, goes over a bare socket again and again,"
            f" {prepared_load.IN_FLIGHT} at most without their responses."
        )


class Produce(Protocol):
    def __call__(
        self, servers: str, topic: str, records: int, batch_bytes: int, acks: int = 1, partition: int = 0
    ) -> Flow:
        """Produce into one partition. Raises LoadFailed."""


def produce_with(load: Load) -> Produce:
    return kafka_load.produce if load is Load.LIBRDKAFKA else prepared_load.produce
