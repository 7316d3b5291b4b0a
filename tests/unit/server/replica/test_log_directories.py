from __future__ import annotations

import pytest

from kraft.model.ids import LogDirectory
from kraft.server.replica.log_directories import LogDirectories

A, B, C = LogDirectory("/a"), LogDirectory("/b"), LogDirectory("/c")


def test_a_directory_that_failed_is_out_of_use_for_good_and_the_order_of_the_others_stays() -> None:
    directories = LogDirectories([A, B, C], {})
    assert directories.fail(B, "input/output error")
    assert not directories.fail(B, "again")
    assert (directories.online, directories.offline) == ((A, C), {B: "input/output error"})
    assert [directories.is_online(each) for each in (A, B, LogDirectory("/x"))] == [True, False, False]


def test_what_could_not_be_used_at_the_start_is_out_of_use() -> None:
    directories = LogDirectories([A], {B: "not formatted"})
    assert (directories.online, directories.offline) == ((A,), {B: "not formatted"})
    assert not directories.fail(B, "failed")
    assert directories.fail(A, "failed")
    assert directories.online == ()


def test_a_broker_without_a_log_directory_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        LogDirectories([], {})
