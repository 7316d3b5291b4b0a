from __future__ import annotations

from kraft.client.sans_io.read_epochs import UNKNOWN, ReadEpochs


def epochs(*entries: tuple[int, int]) -> ReadEpochs:
    read = ReadEpochs()
    for epoch, offset in entries:
        read.read(epoch, offset)
    return read


def test_each_epoch_is_kept_with_the_first_offset_read_of_it() -> None:
    assert epochs((1, 0), (1, 10), (3, 20), (3, 30)).entries == [(1, 0), (3, 20)]
    assert epochs((1, 0), (3, 20)).latest == 3
    assert epochs().latest == epochs((-1, 5)).latest == UNKNOWN


def test_a_record_older_than_the_epoch_that_a_position_was_looked_up_in_counts() -> None:
    assert epochs((7, 0), (2, 0), (5, 40)).entries == [(2, 0), (5, 40)]


def test_going_back_forgets_what_lies_behind() -> None:
    read = epochs((1, 0), (3, 20), (4, 30))
    assert read.up_to(25).entries == [(1, 0), (3, 20)]
    assert read.up_to(0).entries == [(1, 0)]


def test_a_log_that_has_everything_differs_nowhere() -> None:
    read = epochs((1, 0), (3, 20))
    assert read.first_difference(30, 3, 30) == 30
    assert read.first_difference(30, 3, 45) == 30


def test_a_log_that_ends_earlier_in_the_same_epoch_differs_from_its_end_on() -> None:
    assert epochs((1, 0), (3, 20)).first_difference(30, 3, 26) == 26


def test_a_log_without_the_epoch_differs_where_an_earlier_one_ends() -> None:
    assert epochs((1, 0), (3, 20)).first_difference(30, 1, 15) == 15


def test_records_of_an_epoch_that_the_reader_never_saw_do_not_pass_for_its_own() -> None:
    """The leader has epoch 2 up to offset 25; what was read from offset 20 on is of epoch 3."""
    assert epochs((1, 0), (3, 20)).first_difference(30, 2, 25) == 20
