"""`python -m tests.golden.make_transaction_records`: has Kafka encode records of `__transaction_state` again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import typer

from tests.golden.make_group_records import json_value, write_lines
from tests.golden.transaction_records import RECORDS
from tests.support.kafka.kafka_jars import kafka_jars

FILE: Final = Path(__file__).parent / "transaction_records.txt"
_PROGRAM: Final = Path(__file__).with_name("TransactionRecords.java")
_DEADLINE_S: Final = 120.0


def main() -> None:
    """Have Kafka encode the golden records of __transaction_state again, in place."""
    inputs = [
        {
            "id": record.key.transactional_id,
            "version": record.version,
            "value": None if record.value is None else json_value(record.value, record.version),
        }
        for record in RECORDS.values()
    ]
    finished = subprocess.run(
        ["java", "-cp", f"{kafka_jars()}/*", str(_PROGRAM)],
        input="\n".join(map(json.dumps, inputs)),
        stdout=subprocess.PIPE,
        text=True,
        timeout=_DEADLINE_S,
        check=True,
    )
    write_lines(FILE, [f"{name} {line}" for name, line in zip(RECORDS, finished.stdout.splitlines(), strict=True)])


if __name__ == "__main__":
    typer.run(main)
