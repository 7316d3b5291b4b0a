from __future__ import annotations

import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from kraft.log.change import run_now
from kraft.model.errors import Corruption
from kraft.model.ids import LeaderEpoch, LogDirectory, TopicId, TopicPartition
from kraft.runtime.disk import RealDisk, RealFile
from kraft.server.identity.storage import StorageError
from kraft.server.replica.directory_remover import DeletedDirectory
from kraft.server.replica.log_directories import LogDirectories, as_log_directory
from kraft.server.replica.replica_directories import (
    CORRUPT_FILE,
    METADATA_FILE,
    DeletedReplica,
    DirectoryFailed,
    FoundPartition,
    ReplicaDirectories,
)
from tests.support.cluster_images import ORDERS
from tests.support.server.replicas import DEFAULTS, ORDERS_0, batch

RECREATED = TopicId(UUID(int=200))


@pytest.fixture
def store(tmp_path: Path) -> ReplicaDirectories:
    return store_of(tmp_path)


def store_of(*directories: Path, disk: RealDisk | None = None) -> ReplicaDirectories:
    in_use = LogDirectories([as_log_directory(directory) for directory in directories], {})
    return ReplicaDirectories(disk or RealDisk(), in_use, closed_cleanly=())


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def written(store: ReplicaDirectories, topic_partition: TopicPartition = ORDERS_0, topic_id: TopicId = ORDERS) -> None:
    opened = store.open(topic_partition, topic_id, DEFAULTS)
    opened.append_as_leader(batch("a"), LeaderEpoch(0), 0, run_now)
    opened.close()


def deleted(topic_partition: TopicPartition, directory: Path) -> DeletedReplica:
    return DeletedReplica(
        topic_partition=topic_partition, directory=as_log_directory(directory), files_in_use=nullcontext()
    )


def marked_deleted(
    store: ReplicaDirectories, topic_partition: TopicPartition, directory: Path
) -> list[DeletedDirectory]:
    marked, failures = store.mark_deleted([deleted(topic_partition, directory)])
    assert failures == []
    return marked


def test_a_directory_has_its_topic_id_and_is_opened_again_for_the_same_topic(
    store: ReplicaDirectories, tmp_path: Path
) -> None:
    written(store)
    assert (tmp_path / "orders-0" / METADATA_FILE).read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAZA\n"
    assert store.open(ORDERS_0, ORDERS, DEFAULTS).log_end_offset == 1
    assert names(tmp_path) == ["orders-0"]


def test_the_log_of_a_deleted_topic_is_never_taken_for_that_of_a_new_one_with_its_name(
    store: ReplicaDirectories, tmp_path: Path
) -> None:
    written(store)
    assert store.open(ORDERS_0, RECREATED, DEFAULTS).log_end_offset == 0
    assert names(tmp_path) == ["orders-0", "orders-0.0-stray"]
    assert (tmp_path / "orders-0.0-stray" / f"{0:020}.log").stat().st_size > 0


def test_a_directory_that_was_never_finished_is_not_trusted(store: ReplicaDirectories, tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(batch("whose?"))
    assert store.open(ORDERS_0, ORDERS, DEFAULTS).log_end_offset == 0
    assert names(tmp_path) == ["orders-0", "orders-0.0-stray"]


def test_earlier_renamed_directories_are_kept(store: ReplicaDirectories, tmp_path: Path) -> None:
    for topic_id in (ORDERS, RECREATED, ORDERS):
        written(store, topic_id=topic_id)
    assert names(tmp_path) == ["orders-0", "orders-0.0-stray", "orders-0.1-stray"]


def test_strays_are_renamed_and_nothing_else_is_touched(store: ReplicaDirectories, tmp_path: Path) -> None:
    gone = TopicPartition("gone", 3)
    for topic_partition in (ORDERS_0, gone):
        written(store, topic_partition)
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / "notes-7").mkdir()
    (tmp_path / "__cluster_metadata").mkdir()
    store.rename_strays({ORDERS_0})
    store.rename_strays({ORDERS_0})
    assert names(tmp_path) == ["__cluster_metadata", "gone-3.0-stray", "meta.properties", "notes-7", "orders-0"]


def test_a_stray_with_the_longest_topic_name_is_renamed(store: ReplicaDirectories, tmp_path: Path) -> None:
    longest = TopicPartition("x" * 249, 99)
    for topic_id in (ORDERS, RECREATED, ORDERS):
        written(store, longest, topic_id)
    aside = [name for name in names(tmp_path) if name.endswith("-stray")]
    assert len(aside) == 2
    assert store.open(longest, ORDERS, DEFAULTS).log_end_offset == 1


@pytest.mark.parametrize("text", ["", "topic_id: short\n", "version: 0\n", "gibberish", "topic_id: \xe4" + 21 * "A"])
def test_a_damaged_topic_id_file_is_corruption(store: ReplicaDirectories, tmp_path: Path, text: str) -> None:
    written(store)
    (tmp_path / "orders-0" / METADATA_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(Corruption, match="no readable topic id"):
        store.open(ORDERS_0, ORDERS, DEFAULTS)
    assert names(tmp_path) == ["orders-0"]


# --- damaged replicas ---------------------------------------------------------------------------------------------


def test_a_quarantined_replica_is_kept_and_its_place_is_free(store: ReplicaDirectories, tmp_path: Path) -> None:
    for number in range(2):
        written(store)
        before = (tmp_path / "orders-0" / f"{0:020}.log").read_bytes()
        store.quarantine(ORDERS_0, as_log_directory(tmp_path))
        assert (tmp_path / f"orders-0.{number}-quarantine" / f"{0:020}.log").read_bytes() == before
        assert not store.holds(ORDERS_0, ORDERS)
    assert store.open(ORDERS_0, ORDERS, DEFAULTS).log_end_offset == 0
    assert names(tmp_path) == ["orders-0", "orders-0.0-quarantine", "orders-0.1-quarantine"]


def test_the_longest_name_that_a_topic_can_have_can_be_quarantined(store: ReplicaDirectories, tmp_path: Path) -> None:
    longest = TopicPartition("x" * 249, 99)
    for _ in range(2):
        written(store, longest)
        store.quarantine(longest, as_log_directory(tmp_path))
    assert len([name for name in names(tmp_path) if name.endswith("-quarantine")]) == 2


def test_renamed_directories_are_not_renamed_again(store: ReplicaDirectories, tmp_path: Path) -> None:
    written(store)
    store.quarantine(ORDERS_0, as_log_directory(tmp_path))
    again = store_of(tmp_path)
    again.rename_strays(set())
    assert names(tmp_path) == ["orders-0.0-quarantine"]


def test_a_replica_that_was_found_damaged_is_damaged_at_the_next_start_whatever_is_read_then(
    store: ReplicaDirectories, tmp_path: Path
) -> None:
    written(store)
    store.mark_corrupt(ORDERS_0, as_log_directory(tmp_path), "a flipped bit")
    store.mark_corrupt(ORDERS_0, as_log_directory(tmp_path), "told twice")
    again = store_of(tmp_path)
    assert again.holds(ORDERS_0, ORDERS)
    with pytest.raises(Corruption, match="was found corrupt earlier: a flipped bit"):
        again.open(ORDERS_0, ORDERS, DEFAULTS)
    again.quarantine(ORDERS_0, as_log_directory(tmp_path))
    assert again.open(ORDERS_0, ORDERS, DEFAULTS).log_end_offset == 0


def test_the_mark_does_not_bring_a_deleted_replica_back(store: ReplicaDirectories, tmp_path: Path) -> None:
    written(store)
    assert [one.name for one in marked_deleted(store, ORDERS_0, tmp_path)] == ["orders-0.0-delete"]
    assert marked_deleted(store, ORDERS_0, tmp_path) == []
    store.mark_corrupt(ORDERS_0, as_log_directory(tmp_path), "too late")
    assert names(tmp_path) == ["orders-0.0-delete"]
    assert CORRUPT_FILE not in names(tmp_path / "orders-0.0-delete")


def test_a_replica_that_was_marked_for_deletion_is_found_again_and_its_name_is_free(tmp_path: Path) -> None:
    for number in range(2):
        store = store_of(tmp_path)
        written(store)
        marked_deleted(store, ORDERS_0, tmp_path)
        again = store_of(tmp_path)
        assert not again.holds(ORDERS_0, ORDERS)
        assert again.found() == []
        again.rename_strays([])
        assert [one.name for one in again.left_to_remove()] == [f"orders-0.{each}-delete" for each in range(number + 1)]
        assert {one.replica for one in again.left_to_remove()} == {"orders-0"}


def test_many_deletions_cost_one_sync_of_each_log_directory(two: tuple[Path, Path]) -> None:
    store = store_of(*two)
    for number in range(6):
        written(store, TopicPartition("orders", number))
    disk, synced = store._disk, list[str]()

    def sync_dir(path: str) -> None:
        synced.append(path)

    disk.sync_dir = sync_dir  # type: ignore[method-assign]  # Counts.
    replicas = [deleted(TopicPartition("orders", number), two[number % 2]) for number in range(6)]
    marked, failures = store.mark_deleted(replicas)
    assert (len(marked), failures, synced) == (6, [], [str(path) for path in two])


def test_a_failed_log_directory_does_not_block_deletions_in_others(two: tuple[Path, Path]) -> None:
    store = store_of(*two)
    for number in range(2):
        written(store, TopicPartition("orders", number))

    def fail(source: str, target: str) -> None:
        if source.startswith(str(two[0])):
            raise OSError("input/output error")
        RealDisk().rename(source, target)

    store._disk.rename = fail  # type: ignore[method-assign]  # A disk that fails.
    marked, failures = store.mark_deleted([deleted(TopicPartition("orders", number), two[number]) for number in (0, 1)])
    assert [one.name for one in marked] == ["orders-1.0-delete"]
    assert [failure.directory for failure in failures] == [str(two[0])]


def test_a_replica_whose_directory_vanished_is_recreated_and_fails_no_log_directory(
    store: ReplicaDirectories, tmp_path: Path
) -> None:
    written(store)
    shutil.rmtree(tmp_path / "orders-0")
    store.mark_corrupt(ORDERS_0, as_log_directory(tmp_path), "the file is gone")
    assert not store.holds(ORDERS_0, ORDERS)
    written(store)
    shutil.rmtree(tmp_path / "orders-0")
    store.quarantine(ORDERS_0, as_log_directory(tmp_path))
    assert store.open(ORDERS_0, ORDERS, DEFAULTS).log_end_offset == 0
    assert names(tmp_path) == ["orders-0"]
    shutil.rmtree(tmp_path / "orders-0")
    assert marked_deleted(store, ORDERS_0, tmp_path) == []


def test_a_damaged_mark_still_counts(store: ReplicaDirectories, tmp_path: Path) -> None:
    written(store)
    (tmp_path / "orders-0" / CORRUPT_FILE).write_bytes(b"\xff\xfe")
    with pytest.raises(Corruption, match="was found corrupt earlier"):
        store_of(tmp_path).open(ORDERS_0, ORDERS, DEFAULTS)


# --- several log directories --------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path / "a", tmp_path / "b"


def test_new_partitions_go_where_the_fewest_are(two: tuple[Path, Path]) -> None:
    a, b = two
    store = store_of(a, b)
    for number in range(5):
        written(store, TopicPartition("orders", number))
    assert (names(a), names(b)) == (["orders-0", "orders-2", "orders-4"], ["orders-1", "orders-3"])
    store.quarantine(TopicPartition("orders", 0), as_log_directory(a))
    marked_deleted(store, TopicPartition("orders", 2), a)
    written(store, TopicPartition("orders", 5))
    assert "orders-5" in names(a), "what is set aside does not count"


def test_a_partition_is_found_wherever_it_is(two: tuple[Path, Path]) -> None:
    a, b = two
    written(store_of(b))
    again = store_of(a, b)
    assert again.holds(ORDERS_0, ORDERS)
    assert again.open(ORDERS_0, ORDERS, DEFAULTS).log_end_offset == 1
    assert (again.directory_of(ORDERS_0), names(a)) == (str(b), [])


def test_a_partition_in_two_directories_is_refused_in_one_line(two: tuple[Path, Path]) -> None:
    a, b = two
    written(store_of(a))
    written(store_of(b))
    with pytest.raises(StorageError, match=rf"orders-0 is in both {a} and {b}") as refused:
        store_of(a, b).holds(ORDERS_0, ORDERS)
    assert "\n" not in str(refused.value)
    assert (names(a), names(b)) == (["orders-0"], ["orders-0"])


def test_the_log_of_an_earlier_topic_in_another_directory_is_renamed(two: tuple[Path, Path]) -> None:
    a, b = two
    written(store_of(a), topic_id=RECREATED)
    written(store_of(b))
    assert store_of(a, b).open(ORDERS_0, ORDERS, DEFAULTS).log_end_offset == 1
    assert (names(a), names(b)) == (["orders-0.0-stray"], ["orders-0"])


class BrokenDisk(RealDisk):
    """Cannot read one directory."""

    def __init__(self, broken: Path) -> None:
        self._broken = str(broken)

    def list(self, directory: str) -> list[str]:
        if directory == self._broken:
            raise OSError(5, "Input/output error")
        return list(super().list(directory))

    def open(self, path: str, create: bool) -> RealFile:
        if path.startswith(self._broken):
            raise OSError(28, "No space left on device")
        return super().open(path, create)


def test_a_directory_that_cannot_be_read_does_not_seem_to_be_empty(two: tuple[Path, Path]) -> None:
    a, b = two
    written(store_of(b))
    store = store_of(a, b, disk=BrokenDisk(b))
    assert [failure.directory for failure in store.list_directories()] == [str(b)]
    with pytest.raises(DirectoryFailed, match="Input/output error"):
        store.holds(ORDERS_0, ORDERS)


def test_what_recovery_did_is_logged(tmp_path: Path) -> None:
    written(store_of(tmp_path))
    file = tmp_path / "orders-0" / f"{0:020}.log"
    file.write_bytes(b"torn")
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").unlink()
    # As after a crash in the first append.
    (tmp_path / "orders-0" / "log-checkpoint").unlink(missing_ok=True)
    with capture_logs() as events:
        store_of(tmp_path).open(ORDERS_0, ORDERS, DEFAULTS).release()
    (opened,) = [event for event in events if event["event"] == "log opened"]
    assert (opened["torn_at"], opened["torn_bytes"], opened["torn_file"]) == (0, 4, str(file))
    assert opened["torn_reason"]
    assert opened["epochs_rebuilt"]


def test_without_room_for_the_log_of_a_new_partition_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    store = store_of(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(RealFile, "reserve", full)
        with pytest.raises(DirectoryFailed) as failed:
            store.open(ORDERS_0, ORDERS, replace(DEFAULTS, preallocate=True))
    assert failed.value.is_full
    assert (names(tmp_path), store.directory_of(ORDERS_0)) == ([], None)
    assert store.open(ORDERS_0, ORDERS, DEFAULTS).log_end_offset == 0


def test_a_partition_for_which_there_is_no_room_leaves_nothing_behind(tmp_path: Path) -> None:
    store = store_of(tmp_path, disk=BrokenDisk(tmp_path / "orders-0"))
    with pytest.raises(DirectoryFailed) as failed:
        store.open(ORDERS_0, ORDERS, DEFAULTS)
    assert failed.value.is_full
    assert names(tmp_path) == []
    assert not store.holds(ORDERS_0, ORDERS)


# --- ahead of the metadata -------------------------------------------------------------------------------------------


def test_a_log_in_one_directory_with_a_topic_id_can_be_preloaded(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for directory in (one, two):
        directory.mkdir()
        written(store_of(directory))
    written(store_of(one), TopicPartition("orders", 1))
    written(store_of(two), TopicPartition("orders", 2))
    written(store_of(two), TopicPartition("orders", 3))
    (two / "orders-3" / METADATA_FILE).write_text("nonsense")
    (one / "orders-4").mkdir()
    (one / "orders-1").rename(one / "orders-01")
    (one / "a.0-stray").mkdir()
    store = store_of(one, two)
    (found,) = store.found()
    assert found == FoundPartition(
        directory=as_log_directory(two), topic_partition=TopicPartition("orders", 2), topic_id=ORDERS
    )
    assert (store.preload(found, DEFAULTS), names(two)) == (True, ["orders-0", "orders-2", "orders-3"])
    store.release_preloaded()


def test_a_preloaded_log_is_used_when_its_topic_is_opened(store: ReplicaDirectories, tmp_path: Path) -> None:
    written(store)
    (found,) = store.found()
    assert store.preload(found, DEFAULTS)
    # Nothing of it is read again.
    (tmp_path / "orders-0" / f"{0:020}.log").unlink()
    opened = store.open(ORDERS_0, ORDERS, replace(DEFAULTS, retention_ms=77))
    assert (opened.log_end_offset, opened.config.retention_ms) == (1, 77)
    store.close_preloaded()
    opened.append_as_leader(batch("b"), LeaderEpoch(0), 0, run_now)
    opened.release()


def test_a_damaged_log_is_found_damaged_again_when_it_is_opened(store: ReplicaDirectories, tmp_path: Path) -> None:
    written(store)
    store.mark_corrupt(ORDERS_0, as_log_directory(tmp_path), "a flipped bit")
    (found,) = store.found()
    assert not store.preload(found, DEFAULTS)
    with pytest.raises(Corruption, match="a flipped bit"):
        store.open(ORDERS_0, ORDERS, DEFAULTS)


def test_a_partition_is_created_in_the_preferred_directory_but_not_moved_there(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in "abc"]
    for directory in directories:
        directory.mkdir()
    store = store_of(*directories)
    store.prefer(ORDERS_0, as_log_directory(directories[2]))
    written(store)
    assert store.directory_of(ORDERS_0) == str(directories[2])
    store.prefer(ORDERS_0, as_log_directory(directories[1]))
    store.open(ORDERS_0, ORDERS, DEFAULTS).close()
    assert [names(directory) for directory in directories] == [[], [], ["orders-0"]]
    store.prefer(TopicPartition("orders", 1), LogDirectory("/not/in/use"))
    written(store, TopicPartition("orders", 1))
    assert names(directories[0]) == ["orders-1"]


def test_a_moved_partition_is_found_in_its_new_directory(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in "ab"]
    for directory in directories:
        directory.mkdir()
    store = store_of(*directories)
    written(store)
    (directories[0] / "orders-0").rename(directories[1] / "orders-0")
    store.moved(ORDERS_0, as_log_directory(directories[0]), as_log_directory(directories[1]))
    assert store.directory_of(ORDERS_0) == str(directories[1])
    assert store.open(ORDERS_0, ORDERS, DEFAULTS).log_end_offset == 1
