from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kraft.model.ids import uuid_from_text
from kraft.server.config.loading import load
from kraft.server.config.node_config import NodeConfig
from kraft.server.identity import storage
from kraft.server.identity.storage import StorageError, UsableLogDirectory

CLUSTER = "kJ2Yk0mVT0ma0wV2Yk0mVQ"
OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAg"

MakeConfig = Callable[..., NodeConfig]


@pytest.fixture(name="config_of")
def _config_of(tmp_path: Path) -> MakeConfig:
    def config_of(node_id: int = 1, voters: int = 3, **more: str) -> NodeConfig:
        values = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": f"GRPC://localhost:{node_id}94,CONTROLLER://localhost:{node_id}93",
            "controller.quorum.voters": ",".join(f"{voter}@localhost:{voter}93" for voter in range(1, voters + 1)),
            "log.dirs": str(tmp_path / "data"),
        } | {key.replace("_", "."): value for key, value in more.items()}
        file = tmp_path / "server.properties"
        file.write_text("\n".join(f"{key}={value}" for key, value in values.items()))
        return load(file)

    return config_of


def test_a_formatted_directory_names_its_node_and_cluster(config_of: MakeConfig) -> None:
    config = config_of()
    (formatted,) = storage.format(config, CLUSTER)
    assert formatted.created
    loaded = storage.load(config)
    assert (loaded.cluster_id, loaded.node_id, loaded.unusable) == (CLUSTER, 1, {})
    assert loaded.directories == (
        UsableLogDirectory(
            path=config.log_dir,
            directory_id=formatted.meta.directory_id,
            closed_cleanly=False,
            has_been_used=False,
        ),
    )
    (config.log_dir / "orders-0").mkdir()
    assert storage.load(config).directories[0].has_been_used
    assert (formatted.meta.cluster_id, formatted.meta.node_id) == (CLUSTER, 1)


def test_the_file_is_kafkas(config_of: MakeConfig) -> None:
    config = config_of()
    storage.format(config, CLUSTER)
    lines = dict(line.split("=", 1) for line in (config.log_dir / "meta.properties").read_text().splitlines())
    uuid_from_text(lines.pop("directory.id"))
    assert lines == {"version": "1", "cluster.id": CLUSTER, "node.id": "1"}


def test_what_kafka_wrote_is_read(config_of: MakeConfig) -> None:
    config = config_of()
    config.log_dir.mkdir()
    (config.log_dir / "meta.properties").write_text(
        f"#\n#Mon Jan 01 00:00:00 UTC 2024\nnode.id=1\ndirectory.id={OTHER_CLUSTER}\nversion=1\ncluster.id={CLUSTER}\n"
    )
    assert storage.load(config).cluster_id == CLUSTER


def test_formatting_again_with_the_same_ids_changes_nothing(config_of: MakeConfig) -> None:
    config = config_of()
    first = storage.format(config, CLUSTER)[0]
    again = storage.format(config, CLUSTER)[0]
    assert (again.created, again.meta) == (False, first.meta)


def test_formatting_for_another_cluster_or_node_is_refused(config_of: MakeConfig) -> None:
    storage.format(config_of(), CLUSTER)
    with pytest.raises(StorageError, match=f"belongs to cluster {CLUSTER}, not to {OTHER_CLUSTER}: correct"):
        storage.format(config_of(), OTHER_CLUSTER)
    with pytest.raises(StorageError, match="belongs to node 1, not to node 2: correct"):
        storage.format(config_of(node_id=2), CLUSTER)


def test_formatting_takes_the_cluster_id_of_the_file(config_of: MakeConfig) -> None:
    assert storage.format(config_of(cluster_id=CLUSTER), None)[0].meta.cluster_id == CLUSTER


def test_formatting_without_any_cluster_id_is_refused(config_of: MakeConfig) -> None:
    with pytest.raises(StorageError, match=r"has no cluster\.id: add the id of the cluster, or use --cluster-id"):
        storage.format(config_of(), None)


def test_two_cluster_ids_that_contradict_are_refused(config_of: MakeConfig) -> None:
    with pytest.raises(StorageError, match=r"contradicts cluster\.id"):
        storage.format(config_of(cluster_id=CLUSTER), OTHER_CLUSTER)


def test_data_of_unknown_origin_is_not_adopted(config_of: MakeConfig) -> None:
    config = config_of(voters=1)
    (config.log_dir / "orders-0").mkdir(parents=True)
    with pytest.raises(StorageError, match=r"holds data \(orders-0\) but no meta\.properties"):
        storage.format(config, CLUSTER)
    with pytest.raises(StorageError, match=r"holds data \(orders-0\) but no meta\.properties"):
        storage.load(config)


def test_a_disks_own_directory_does_not_count_as_data(config_of: MakeConfig) -> None:
    config = config_of()
    (config.log_dir / "lost+found").mkdir(parents=True)
    assert storage.format(config, CLUSTER)[0].created


def test_a_directory_that_is_not_formatted_names_the_command(config_of: MakeConfig) -> None:
    config = config_of()
    with pytest.raises(StorageError, match=f"is not formatted: run 'kraft storage format -c {config.file}'"):
        storage.load(config)


def test_a_node_alone_formats_itself_at_its_first_start(config_of: MakeConfig) -> None:
    config = config_of(voters=1)
    first = storage.load(config)
    assert storage.load(config) == first


def test_a_directory_of_another_cluster_or_node_is_refused(config_of: MakeConfig) -> None:
    storage.format(config_of(), CLUSTER)
    with pytest.raises(StorageError, match=f"belongs to cluster {CLUSTER}, not to {OTHER_CLUSTER}"):
        storage.load(config_of(cluster_id=OTHER_CLUSTER))
    with pytest.raises(StorageError, match="belongs to node 1, not to node 3"):
        storage.load(config_of(node_id=3))


def test_a_metadata_directory_of_its_own_is_formatted_and_checked_too(config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of(metadata_log_dir=str(tmp_path / "meta"))
    log, metadata = storage.format(config, CLUSTER)
    assert (log.directory, metadata.directory) == (tmp_path / "data", tmp_path / "meta")
    assert [one.directory_id for one in storage.load(config).directories] == [log.meta.directory_id]
    (tmp_path / "meta" / "meta.properties").write_text(
        (tmp_path / "meta" / "meta.properties").read_text().replace(CLUSTER, OTHER_CLUSTER)
    )
    with pytest.raises(StorageError, match=f"meta belongs to cluster {OTHER_CLUSTER}"):
        storage.load(config)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "version is missing"),
        ("version=1\ncluster.id=x\nnode.id=1\ndirectory.id=y\n", "is not a 22-character base64 id"),
        (f"version=1\ncluster.id={CLUSTER}\nnode.id=one\ndirectory.id={CLUSTER}\n", "invalid literal"),
        ("version=1\ncluster.id=\\u1\n", "four hexadecimal digits"),
        ("version=7\n", "version 7 is not supported"),
    ],
)
def test_a_damaged_file_is_named(config_of: MakeConfig, text: str, reason: str) -> None:
    config = config_of(voters=1)
    config.log_dir.mkdir()
    (config.log_dir / "meta.properties").write_text(text)
    with pytest.raises(StorageError, match=reason) as raised:
        storage.load(config)
    assert "meta.properties" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_directory_that_cannot_be_made_is_named(config_of: MakeConfig, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = config_of(log_dirs=str(tmp_path / "file" / "data"))
    for attempt in (lambda: storage.format(config, CLUSTER), lambda: storage.lock(config)):
        with pytest.raises(StorageError, match="Not a directory"):
            attempt()


def test_a_second_process_is_kept_out(config_of: MakeConfig) -> None:
    config = config_of()
    program = (
        "import sys; from kraft.server.config.loading import load; from kraft.server.identity import storage\n"
        "try: storage.lock(load(sys.argv[1]))\n"
        "except storage.StorageError as error: sys.exit(str(error))\n"
    )
    command = [sys.executable, "-c", program, str(config.file)]
    with storage.lock(config):
        refused = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert refused.returncode == 1
    assert f"{config.log_dir} is in use by another process (pid {os.getpid()}): stop it" in refused.stderr
    allowed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert allowed.returncode == 0, allowed.stderr


def test_a_lock_is_refused_inside_one_process_too_and_free_after_release(config_of: MakeConfig) -> None:
    config = config_of()
    with storage.lock(config), pytest.raises(StorageError, match="in use"):
        storage.lock(config)
    storage.lock(config).release()


def test_the_mark_of_a_clean_stop_is_taken_once(config_of: MakeConfig) -> None:
    config = config_of(voters=1)
    loaded = storage.load(config)

    def was_clean() -> bool:
        return storage.take_clean_shutdown_markers(config, loaded).directories[0].closed_cleanly

    assert not was_clean()
    storage.leave_clean_shutdown_markers([config.log_dir])
    # To read the directories takes no mark: the start may still be refused.
    assert [storage.load(config).directories[0].closed_cleanly for _ in range(2)] == [True, True]
    assert was_clean()
    assert not was_clean()


# --- several log directories --------------------------------------------------------------------------------------


@pytest.fixture(name="two")
def _two(config_of: MakeConfig, tmp_path: Path) -> NodeConfig:
    """Not formatted yet."""
    return config_of(log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}")


def test_each_log_directory_is_formatted_with_an_id_of_its_own(two: NodeConfig) -> None:
    a, b = storage.format(two, CLUSTER)
    assert (a.directory, b.directory) == two.log_dirs
    assert a.meta.directory_id != b.meta.directory_id
    assert [one.directory_id for one in storage.load(two).directories] == [a.meta.directory_id, b.meta.directory_id]


def test_formatting_again_completes_what_is_not_formatted_yet(two: NodeConfig) -> None:
    first, _ = storage.format(two, CLUSTER)
    shutil.rmtree(two.log_dirs[1])
    a, b = storage.format(two, CLUSTER)
    assert (a.created, a.meta, b.created) == (False, first.meta, True)


def test_a_node_alone_formats_all_its_directories_at_its_first_start(config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of(voters=1, log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}")
    assert len(storage.load(config).directories) == 2


def test_an_empty_directory_among_formatted_ones_is_not_used(config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of(voters=1, log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}")
    storage.load(config)
    shutil.rmtree(tmp_path / "b")
    with storage.lock(config) as held:
        found = storage.load(config, held.unusable)
    assert [one.path for one in found.directories] == [tmp_path / "a"]
    assert "b is not formatted: run 'kraft storage format" in found.unusable[tmp_path / "b"]


@pytest.mark.parametrize("damage", ["", "version=1\n"])
def test_a_node_starts_without_a_directory_whose_file_is_damaged(two: NodeConfig, damage: str) -> None:
    storage.format(two, CLUSTER)
    (two.log_dirs[1] / "meta.properties").write_text(damage)
    found = storage.load(two)
    assert [one.path for one in found.directories] == [two.log_dirs[0]]
    assert "is damaged" in found.unusable[two.log_dirs[1]]


def test_a_directory_that_cannot_be_written_to_is_left_out(two: NodeConfig) -> None:
    storage.format(two, CLUSTER)
    shutil.rmtree(two.log_dirs[1])
    two.log_dirs[1].write_text("not a directory")
    with storage.lock(two) as held:
        found = storage.load(two, held.unusable)
    assert [one.path for one in found.directories] == [two.log_dirs[0]]
    assert "cannot be written to" in found.unusable[two.log_dirs[1]]


def test_a_controller_does_not_start_without_its_metadata_log(two: NodeConfig) -> None:
    storage.format(two, CLUSTER)
    (two.metadata_log_dir / "meta.properties").write_text("")
    with pytest.raises(StorageError, match="is damaged"):
        storage.load(two)


def test_a_broker_starts_without_its_first_directory(config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of(
        node_id=4,
        process_roles="broker",
        listeners="GRPC://localhost:494",
        log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}",
    )
    storage.format(config, CLUSTER)
    shutil.rmtree(tmp_path / "a")
    assert [one.path for one in storage.load(config).directories] == [tmp_path / "b"]
    shutil.rmtree(tmp_path / "b")
    with pytest.raises(StorageError, match="a is not formatted"):
        storage.load(config)


def test_a_directory_of_another_node_is_refused_beside_a_good_one(config_of: MakeConfig, two: NodeConfig) -> None:
    storage.format(config_of(node_id=2, log_dirs=str(two.log_dirs[1])), CLUSTER)
    config = config_of(log_dirs=",".join(map(str, two.log_dirs)))
    storage.format(config_of(log_dirs=str(two.log_dirs[0])), CLUSTER)
    with pytest.raises(StorageError, match="belongs to node 2, not to node 1"):
        storage.load(config)


def test_a_copied_directory_is_refused(two: NodeConfig) -> None:
    storage.format(two, CLUSTER)
    shutil.copy(two.log_dirs[0] / "meta.properties", two.log_dirs[1] / "meta.properties")
    with pytest.raises(StorageError, match=r"have the same directory\.id: one is a copy of the other"):
        storage.load(two)


def test_each_directory_has_its_own_mark_of_a_clean_stop(two: NodeConfig) -> None:
    storage.format(two, CLUSTER)
    storage.leave_clean_shutdown_markers(two.log_dirs[1:])
    taken = storage.take_clean_shutdown_markers(two, storage.load(two))
    assert [one.closed_cleanly for one in taken.directories] == [False, True]


def test_random_cluster_ids_are_valid_and_never_look_like_an_option() -> None:
    for _ in range(200):
        text = storage.random_cluster_id()
        assert not text.startswith("-")
        uuid_from_text(text)
