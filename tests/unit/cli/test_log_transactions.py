"""`kraft log` on the files of transactions; the end-to-end tests compare its lines with Kafka's."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kraft.cli.log import app
from kraft.coordinator.transactions.record_codec import encode
from kraft.log.change import run_now
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.log.transactions.aborted import ENTRY_BYTES
from kraft.model.ids import LeaderEpoch, TopicPartition
from kraft.runtime.disk import RealDisk
from tests.golden.transaction_records import RECORDS, TIME_MS, TRANSACTIONAL_ID
from tests.support.log.log_building import NOW_MS
from tests.support.log.transactional_log import ABORT, end, send


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A partition with two aborted transactions, and one that is open."""
    path = tmp_path / "orders-0"
    # The records are years older than their markers.
    config = TopicConfig(segment_ms=2 * NOW_MS)
    log = PartitionLog.open(RealDisk(), str(path), config, TopicPartition("orders", 0))
    for producer_id in (1, 2):
        send(log, producer_id, 0, "a", "b")
        end(log, producer_id, ABORT, coordinator_epoch=5)
    send(log, 3, 0, "c")
    log.close()
    return path


@pytest.fixture
def state_log(tmp_path: Path) -> Path:
    """The `.log` of a partition of `__transaction_state`: the golden records, and three that cannot be decoded."""
    path = tmp_path / "__transaction_state-0"
    log = PartitionLog.open(RealDisk(), str(path), TopicConfig(), TopicPartition("__transaction_state", 0))
    strange = [(b"\0\x09later", b"\0\0"), (encode(RECORDS["deletion"])[0], b"\0\x09"), (b"\0", b"")]
    contents = [*map(encode, RECORDS.values()), *strange, (None, b"no key")]
    for key, value in contents:
        log.append_as_leader(build_batch([Record(0, TIME_MS, key, value)]), LeaderEpoch(1), TIME_MS, run_now)
    log.close()
    return path / f"{0:020d}.log"


def index_of(directory: Path) -> Path:
    (index,) = directory.glob("*.txnindex")
    return index


def test_aborted_transactions_are_printed(directory: Path) -> None:
    index = index_of(directory)
    code, output, errors = run("dump", index)
    assert (code, errors) == (0, "")
    assert output.splitlines() == [
        f"Dumping {index}",
        "version: 0 producerId: 1 firstOffset: 0 lastOffset: 2 lastStableOffset: 3",
        "version: 0 producerId: 2 firstOffset: 3 lastOffset: 5 lastStableOffset: 6",
    ]
    first, second = json_lines(run("dump", "--output", "json", index)[1])
    assert first == {
        "file": str(index),
        "type": "aborted_transaction",
        "producer_id": 1,
        "first_offset": 0,
        "last_offset": 2,
        "last_stable_offset": 3,
    }
    assert second["producer_id"] == 2


def test_a_snapshot_has_the_open_transaction_and_the_last_coordinator(directory: Path) -> None:
    snapshot = max(directory.glob("*.snapshot"))
    lines = run("dump", snapshot)[1].splitlines()[1:]
    words = [line.partition(" lastTimestamp")[0] for line in lines]
    assert words == [
        "producerId: 1 producerEpoch: 0 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong.empty",
        "producerId: 2 producerEpoch: 0 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong.empty",
        "producerId: 3 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong[6]",
    ]
    found = json_lines(run("dump", "--output", "json", snapshot)[1])
    assert [(each["coordinator_epoch"], each["transaction_start_offset"]) for each in found] == [
        (5, None),
        (5, None),
        (-1, 6),
    ]


def test_a_broken_index_is_printed_as_far_as_it_can_be_read(directory: Path) -> None:
    index = index_of(directory)
    sound = index.read_bytes()
    index.write_bytes(sound + b"!!")
    code, output, errors = run("dump", index)
    assert (code, output.count("version: 0 ")) == (1, 2)
    assert errors == f"kraft: {index} at byte 68: 2 bytes at the end are not a whole entry of 34 bytes\n"
    index.write_bytes(sound[:ENTRY_BYTES] + b"\0\7" + sound[ENTRY_BYTES + 2 :])
    code, output, errors = run("dump", index)
    assert (code, output.count("version: 0 ")) == (1, 1)
    assert errors == f"kraft: {index} at byte 34: an entry has version 7, not 0\n"


def test_no_damage_of_an_index_ends_in_anything_but_lines(directory: Path) -> None:
    chance, index = random.Random(7), index_of(directory)
    sound = index.read_bytes()
    for _ in range(30):
        damaged = bytearray(sound)
        damaged[chance.randrange(len(damaged))] ^= chance.randrange(1, 256)
        index.write_bytes(damaged[: chance.choice((len(damaged), chance.randrange(len(damaged))))])
        assert run("dump", index)[0] in (0, 1)
        assert run("verify", directory)[0] in (0, 1)
    index.write_bytes(sound)
    assert run("verify", directory)[0] == 0


def test_records_of_transactions_are_decoded(state_log: Path) -> None:
    code, output, errors = run("dump", "--transaction-log-decoder", "--skip-record-metadata", state_log)
    assert (code, errors) == (0, "")
    lines = [line for line in output.splitlines() if line.startswith("| ")]
    key = f'| key: {{"type":"0","data":{{"transactionalId":"{TRANSACTIONAL_ID}"}}}}'
    printed = dict(zip(RECORDS, lines, strict=False))
    assert printed["deletion"] == f"{key} payload: <DELETE>"
    assert printed["empty-v0"] == (
        f'{key} payload: {{"version":"0","data":{{"producerId":1099511627777,"producerEpoch":0,'
        '"transactionTimeoutMs":60000,"transactionStatus":0,"transactionPartitions":null,'
        f'"transactionLastUpdateTimestampMs":{TIME_MS + 10},"transactionStartTimestampMs":-1}}}}'
    )
    assert '"previousProducerId":1099511627777,"nextProducerId":4611686018427387904,' in "".join(lines)
    assert lines[len(RECORDS) :] == [
        f"| key: Unknown record type 9 at offset {len(RECORDS)}, skipping.",
        f"| key: Unknown version 9 of a value at offset {len(RECORDS) + 1}, skipping.",
        f"| key: Error at offset {len(RECORDS) + 2}, skipping. a key or value of a record has 1 bytes",
        f"| key: Error at offset {len(RECORDS) + 3}, skipping. a record of __transaction_state has no key",
    ]


def test_programs_get_decoded_records_as_json(state_log: Path) -> None:
    code, output, _ = run("dump", "--transaction-log-decoder", "--output", "json", state_log)
    assert code == 0
    records = [each for each in json_lines(output) if each["type"] == "record"]
    decoded = dict(zip(RECORDS, records, strict=False))
    assert decoded["deletion"]["value"] == "<DELETE>"
    ongoing = decoded["ongoing-v1"]
    assert ongoing["key"] == {"type": "0", "data": {"transactionalId": TRANSACTIONAL_ID}}
    assert ongoing["value"]["version"] == "1"
    assert ongoing["value"]["data"]["transactionStatus"] == 1
    assert ongoing["value"]["data"]["transactionPartitions"][0] == {"topic": "__consumer_offsets", "partitionIds": [49]}
    assert ongoing["value"]["data"]["clientTransactionVersion"] == 2
    assert (records[-1]["key"].startswith("Error at offset "), records[-1]["value"]) == (True, None)
