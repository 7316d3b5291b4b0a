from __future__ import annotations

from errno import EIO
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kraft.model.ids import LogDirectory, TopicPartition
from kraft.runtime.disk import RealDisk
from kraft.server.replica.log_directories import as_log_directory
from kraft.server.replica.move_directories import (
    begin_copy,
    copies_left,
    copy_name,
    finish_moves,
    moved_name,
    opened,
    put_copy_in_place,
    remove_copy,
    remove_original,
    rename_original,
)
from kraft.server.replica.replica_directories import METADATA_FILE, DirectoryFailed
from tests.support.cluster_images import ORDERS
from tests.support.server.replicas import ORDERS_0

ID, OTHER_ID = "0" * 31 + "1", "0" * 31 + "2"
COPY, MOVED = copy_name(ORDERS_0, ID), moved_name(ORDERS_0, ID)


@pytest.fixture
def paths(tmp_path: Path) -> list[LogDirectory]:
    made = [tmp_path / name for name in "abc"]
    for path in made:
        path.mkdir()
    return [as_log_directory(path) for path in made]


def lay(path: str, *names: str) -> None:
    """Create directories, each with a file that has its original name."""
    for name in names:
        Path(path, name).mkdir()
        Path(path, name, "was").write_text(name)


def lie(paths: list[LogDirectory]) -> list[dict[str, str]]:
    """Return the present directories by name, with their original names."""
    return [{each.name: (each / "was").read_text() for each in Path(path).iterdir()} for path in paths]


class BadDisk(RealDisk):
    """Renames and removals fail in one directory."""

    def __init__(self, bad: str) -> None:
        self._bad = bad

    def rename(self, source: str, target: str) -> None:
        if source.startswith(self._bad):
            raise OSError(EIO, "input/output error")
        super().rename(source, target)


def test_a_copy_has_a_name_of_its_own_and_says_whose_it_is(paths: list[LogDirectory]) -> None:
    begin_copy(RealDisk(), paths[1], ORDERS_0, ORDERS, ID)
    assert f"orders-0.{ID}-future" == COPY
    assert Path(paths[1], COPY, METADATA_FILE).read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAZA\n"
    (left,) = copies_left(RealDisk(), paths)
    assert (left.directory, left.topic_partition, left.move_id, left.topic_id) == (paths[1], ORDERS_0, ID, ORDERS)
    remove_copy(RealDisk(), paths[1], ORDERS_0, ID)
    remove_copy(RealDisk(), paths[1], ORDERS_0, ID)
    assert copies_left(RealDisk(), paths) == []


def test_a_copy_that_cannot_be_begun_leaves_nothing(paths: list[LogDirectory]) -> None:
    class FullDisk(RealDisk):
        def write_atomically(self, path: str, data: bytes) -> None:
            raise OSError(EIO, "input/output error")

    with pytest.raises(DirectoryFailed):
        begin_copy(FullDisk(), paths[1], ORDERS_0, ORDERS, ID)
    assert lie(paths) == [{}, {}, {}]


def test_the_two_steps_of_a_swap(paths: list[LogDirectory]) -> None:
    lay(paths[0], "orders-0")
    lay(paths[1], COPY)
    with opened(RealDisk(), paths[0]) as held:
        rename_original(RealDisk(), paths[0], ORDERS_0, ID, held)
    assert lie(paths) == [{MOVED: "orders-0"}, {COPY: COPY}, {}]
    with opened(RealDisk(), paths[1]) as held:
        put_copy_in_place(RealDisk(), paths[1], ORDERS_0, ID, held)
    remove_original(RealDisk(), paths[0], ORDERS_0, ID)
    assert lie(paths) == [{}, {"orders-0": COPY}, {}]


def test_a_copy_of_a_move_that_ended_before_its_swap_is_left_over(paths: list[LogDirectory]) -> None:
    lay(paths[0], "orders-0")
    lay(paths[1], COPY)
    assert finish_moves(RealDisk(), paths) == []
    assert lie(paths) == [{"orders-0": "orders-0"}, {COPY: COPY}, {}]
    assert [left.topic_id for left in copies_left(RealDisk(), paths)] == [None]


def test_a_swap_is_finished_from_where_it_was_left(paths: list[LogDirectory]) -> None:
    lay(paths[0], MOVED, "orders-1")
    lay(paths[1], COPY, copy_name(ORDERS_0, OTHER_ID))
    # Of the same replica, and of another move.
    assert finish_moves(RealDisk(), paths) == []
    assert lie(paths) == [
        {"orders-1": "orders-1"},
        {"orders-0": COPY, copy_name(ORDERS_0, OTHER_ID): copy_name(ORDERS_0, OTHER_ID)},
        {},
    ]


def test_the_original_is_removed_when_the_copy_is_in_place(paths: list[LogDirectory]) -> None:
    lay(paths[0], MOVED)
    lay(paths[1], "orders-0")
    assert finish_moves(RealDisk(), paths) == []
    assert lie(paths) == [{}, {"orders-0": "orders-0"}, {}]


def test_nothing_is_changed_when_a_directory_with_one_half_is_missing(paths: list[LogDirectory]) -> None:
    lay(paths[0], MOVED)
    lay(paths[1], COPY)
    with capture_logs() as logged:
        assert finish_moves(RealDisk(), [paths[0], paths[2]]) == []
    assert [each["event"] for each in logged] == ["interrupted replica move ambiguous, original kept"]
    assert finish_moves(RealDisk(), [paths[1], paths[2]]) == []
    assert lie(paths) == [{MOVED: MOVED}, {COPY: COPY}, {}]


def test_a_copy_that_is_the_replica_is_not_left_over(paths: list[LogDirectory]) -> None:
    lay(paths[0], MOVED)
    lay(paths[1], COPY)
    (failure,) = finish_moves(BadDisk(paths[1]), paths)
    assert failure.directory == paths[1]
    assert copies_left(RealDisk(), paths) == []
    assert lie(paths) == [{MOVED: MOVED}, {COPY: COPY}, {}]


def test_an_ambiguous_move_keeps_every_directory(paths: list[LogDirectory]) -> None:
    lay(paths[0], MOVED)
    lay(paths[1], COPY)
    lay(paths[2], "orders-0")
    before = lie(paths)
    assert finish_moves(RealDisk(), paths) == []
    assert lie(paths) == before
    assert copies_left(RealDisk(), paths) == []


def test_a_directory_that_cannot_be_listed_keeps_nothing_else_from_being_finished(paths: list[LogDirectory]) -> None:
    lay(paths[0], MOVED)
    lay(paths[1], COPY)
    assert finish_moves(RealDisk(), [*paths, LogDirectory("/nowhere")]) == []
    assert lie(paths) == [{}, {"orders-0": COPY}, {}]
    with pytest.raises(DirectoryFailed, match="/nowhere"):
        copies_left(RealDisk(), [LogDirectory("/nowhere")])


def test_other_names_are_not_copies(paths: list[LogDirectory]) -> None:
    lay(paths[0], "orders-0.abc-future", f"orders.{ID}-future", "orders-0.0-stray", f"-0.{ID}-moved", "orders-0")
    assert copies_left(RealDisk(), paths) == []
    before = lie(paths)
    assert finish_moves(RealDisk(), paths) == []
    assert lie(paths) == before
    assert copy_name(TopicPartition("a.b-c_d-7", 12), ID) == f"a.b-c_d-7-12.{ID}-future"
