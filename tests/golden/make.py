"""`python -m tests.golden.make`: builds the golden batches again with the installed clients."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from kraft.log.format.compression import Codec
from tests.golden.clients import built_by_aiokafka, built_by_kafka_python, built_by_librdkafka
from tests.golden.records import RECORDS

FOLDER: Final = Path(__file__).parent / "batches"
PRODUCER: Final = (4000, 3, 0)
"""Producer id, epoch and base sequence of the batches of idempotent producers."""


def main() -> None:
    """Build the golden batches again with the installed clients, in place."""
    for codec in Codec:
        _write(f"kafka-python-{codec.config_name}", built_by_kafka_python(RECORDS, codec))
        _write(f"aiokafka-{codec.config_name}", built_by_aiokafka(RECORDS, codec))
        _write(f"librdkafka-{codec.config_name}", built_by_librdkafka(RECORDS, codec))
    _write("kafka-python-idempotent", built_by_kafka_python(RECORDS, Codec.NONE, PRODUCER))
    _write("aiokafka-idempotent", built_by_aiokafka(RECORDS, Codec.NONE, PRODUCER))
    _write("librdkafka-idempotent", built_by_librdkafka(RECORDS, Codec.NONE, idempotent=True))


def _write(name: str, batch: bytes) -> None:
    (FOLDER / f"{name}.bin").write_bytes(batch)
    print(f"{name}.bin: {len(batch):,} bytes")


if __name__ == "__main__":
    typer.run(main)
