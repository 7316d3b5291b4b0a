from __future__ import annotations

from kraft.client.model.values import ConsumerRecord
from kraft.client.sans_io.progress import Progress
from kraft.log.format.record_batch import TimestampType
from kraft.model.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)
RETURNS = TopicPartition("returns", 0)


def record(partition: TopicPartition, offset: int) -> ConsumerRecord:
    return ConsumerRecord(partition.topic, partition.partition, offset, 0, TimestampType.CREATE_TIME, None, None, ())


def returned(progress: Progress, *offsets: int, partition: TopicPartition = ORDERS) -> list[ConsumerRecord]:
    """Return the records of a poll."""
    progress.returned(partition, offsets[0])
    return [record(partition, offset) for offset in offsets]


def test_what_a_poll_returned_is_read_and_not_yet_processed() -> None:
    progress = Progress()
    returned(progress, 5, 6, 7)
    assert (progress.read(ORDERS, 8), progress.processed(ORDERS, 8)) == (8, 5)
    assert progress.poll_began() == {}
    assert (progress.read(ORDERS, 8), progress.processed(ORDERS, 8)) == (8, 8)


def test_an_iteration_has_read_what_it_has_yielded_and_processed_all_but_the_last() -> None:
    progress = Progress()
    records = progress.each(returned(progress, 5, 6, 9))
    next(records)
    assert (progress.read(ORDERS, 10), progress.processed(ORDERS, 10)) == (6, 5)
    next(records)
    assert (progress.read(ORDERS, 10), progress.processed(ORDERS, 10)) == (7, 6)
    next(records)
    assert (progress.read(ORDERS, 10), progress.processed(ORDERS, 10)) == (10, 9)
    assert list(records) == []
    assert progress.poll_began() == {}


def test_an_iteration_that_was_left_goes_on_behind_its_last_record() -> None:
    progress = Progress()
    records = progress.each([*returned(progress, 5, 6), *returned(progress, 1, 2, partition=RETURNS)])
    next(records)
    assert progress.poll_began() == {ORDERS: 6, RETURNS: 1}
    assert list(records) == [], "the next poll returns them"


def test_an_iteration_that_was_left_before_its_first_record_goes_on_with_it() -> None:
    progress = Progress()
    progress.each(returned(progress, 5, 6))
    assert progress.read(ORDERS, 7) == 5
    assert progress.poll_began() == {ORDERS: 5}


def test_records_that_the_caller_of_a_poll_did_not_get_are_taken_back_once() -> None:
    progress = Progress()
    returned(progress, 5, 6)
    progress.each(returned(progress, 1, 2, partition=RETURNS))
    assert progress.taken_back() == {ORDERS: 5, RETURNS: 1}
    assert progress.taken_back() == progress.poll_began() == {}


def test_records_of_a_partition_that_was_taken_away_are_not_yielded() -> None:
    progress = Progress()
    records = progress.each([*returned(progress, 5, 6), *returned(progress, 1, 2, partition=RETURNS)])
    next(records)
    progress.forget(ORDERS)
    assert [each.topic for each in records] == ["returns", "returns"]
    assert progress.processed(ORDERS, 20) == 20
