"""Batches of another cluster: sent as they are stored, with the producer's identity and sequences."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kraft.client.model.settings import ProducerSettings, settings_of
from kraft.client.sans_io.copied_batch import CopiedBatch, CopyReceipt, StoredRun
from kraft.client.sans_io.send_buffer import Delivered, SendBuffer
from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    build_batch,
    decode_batch,
    is_copyable,
    read_header,
    validate,
    with_producer,
)
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode
from tests.unit.client.sans_io.sends import ORDERS, drain, identity, new_buffer, payloads, put, result, sequences


class Future:
    """The methods of asyncio's futures that a receipt uses."""

    def __init__(self) -> None:
        self.result: list[StoredRun] | None = None
        self.error: Exception | None = None

    def done(self) -> bool:
        return self.result is not None or self.error is not None

    def set_result(self, result: list[StoredRun]) -> None:
        self.result = result

    def set_exception(self, exception: Exception) -> None:
        self.error = exception


def stored(*values: bytes, codec: Codec = Codec.LZ4) -> bytes:
    records = [
        Record(offset=70 + row, timestamp_ms=5 + row, key=b"k", value=value, headers=(("h", b"1"),))
        for row, value in enumerate(values)
    ]
    return build_batch(records, codec, 99, 3, 7, base_offset=70, leader_epoch=4, transactional=True)


def copied(buffer: SendBuffer, *values: bytes) -> Future:
    data, future = stored(*values), Future()
    buffer.append_copy(CopiedBatch(ORDERS, 0, read_header(data), data, CopyReceipt(future, len(values))))
    return future


def settle(outcomes: Sequence[object]) -> None:
    for outcome in outcomes:
        assert isinstance(outcome, Delivered)
        for receipt, first, count in outcome.batch.receipts:
            receipt.delivered(outcome.batch, first, count, outcome.base_offset, -1)


def test_only_the_header_changes() -> None:
    data = stored(b"a", b"b")
    sent = with_producer(data, 1, 0, 12)
    header = validate(sent)
    assert (header.base_offset, header.leader_epoch, header.producer_id, header.base_sequence) == (0, -1, 1, 12)
    assert (header.codec, header.is_transactional, header.record_count) == (Codec.LZ4, False, 2)
    assert sent[61:] == data[61:]
    assert with_producer(data, 1, 0, 12, transactional=True)[61:] == data[61:]
    assert [each.timestamp_ms for each in decode_batch(sent)] == [5, 6]


def test_a_copy_takes_the_sequences_between_records() -> None:
    buffer = new_buffer()
    put(buffer, b"first")
    future = copied(buffer, b"a", b"b", b"c")
    put(buffer, b"last")
    (attempt,) = drain(buffer)
    settle(buffer.answered(attempt, result(base_offset=0), 0))
    attempts = drain(buffer)
    assert sequences(attempts) == [(1, 1), (1, 4)]
    assert payloads(attempts) == [b"a", b"b", b"c", b"last"]
    settle(buffer.answered(attempts[0], result(base_offset=10), 0))
    assert future.result == [StoredRun(0, 3, 10)]
    settle(buffer.answered(attempts[1], result(base_offset=13), 0))
    assert buffer.memory_used == 0


def test_a_copy_that_is_too_large_is_split_and_keeps_its_codec() -> None:
    buffer = new_buffer()
    future = copied(buffer, b"a", b"b", b"c")
    (attempt,) = drain(buffer)
    assert buffer.answered(attempt, result(ErrorCode.MESSAGE_TOO_LARGE), 0) == []
    # The sequences of the refused batch are used up.
    buffer.give_identity(identity(2))
    for base_offset in (20, 30):
        (attempt,) = drain(buffer)
        assert read_header(attempt.batch.encoded or b"").codec is Codec.LZ4
        settle(buffer.answered(attempt, result(base_offset=base_offset), 0))
    assert future.result == [StoredRun(0, 1, 20), StoredRun(1, 2, 30)]


def test_in_a_transaction_it_is_marked() -> None:
    buffer = SendBuffer(settings_of(ProducerSettings, "b:1", {"transactional_id": "copies"}), lambda: 0.5)
    buffer.begin_transaction(identity(1))
    copied(buffer, b"a")
    (attempt,) = drain(buffer)
    assert read_header(attempt.batch.encoded or b"").is_transactional


@pytest.mark.parametrize("bit", [0x08, CONTROL_BIT, DELETE_HORIZON_BIT])
def test_what_brokers_write_is_not_copied(bit: int) -> None:
    header = read_header(stored(b"a"))
    assert is_copyable(header)
    assert not is_copyable(header._replace(attributes=header.attributes | bit))
    assert not is_copyable(header._replace(last_offset_delta=1)), "a compaction left a gap"
