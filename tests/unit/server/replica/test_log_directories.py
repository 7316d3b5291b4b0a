from __future__ import annotations

import pytest

from kraft.server.replica.log_directories import LogDirectories


def test_a_directory_that_failed_is_out_of_use_for_good_and_the_order_of_the_others_stays() -> None:
    directories = LogDirectories(["/a", "/b", "/c"])
    assert directories.fail("/b", "input/output error")
    assert not directories.fail("/b", "again")
    assert (directories.online, directories.offline) == (("/a", "/c"), {"/b": "input/output error"})
    assert (directories.is_online("/a"), directories.is_online("/b"), directories.is_online("/x")) == (
        True,
        False,
        False,
    )


def test_what_could_not_be_used_at_the_start_is_out_of_use() -> None:
    directories = LogDirectories(["/a"], {"/b": "not formatted"})
    assert (directories.online, directories.offline) == (("/a",), {"/b": "not formatted"})
    assert not directories.fail("/b", "failed")
    assert directories.fail("/a", "failed")
    assert directories.online == ()


def test_a_broker_without_a_log_directory_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        LogDirectories([])
