from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from kraft.log.record_batch import TimestampType
from kraft.metadata.configs import LOG_APPEND_TIME, broker_defaults
from kraft.model.errors import Corruption
from kraft.model.ids import LeaderEpoch, TopicId, TopicPartition
from kraft.runtime.disk import RealDisk
from kraft.server.partition_store import METADATA_FILE, PartitionStore, log_config
from tests.unit.metadata.clusters import ORDERS
from tests.unit.server.replicas import DEFAULTS, ORDERS_0, batch

RECREATED = TopicId(UUID(int=200))


@pytest.fixture
def store(tmp_path: Path) -> PartitionStore:
    return PartitionStore(RealDisk(), str(tmp_path), clean_shutdown=False)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def written(store: PartitionStore, topic_partition: TopicPartition = ORDERS_0, topic_id: TopicId = ORDERS) -> None:
    opened = store.open(topic_partition, topic_id, DEFAULTS)
    opened.append_as_leader(batch("a"), LeaderEpoch(0), 0)
    opened.close()


def test_a_directory_says_whose_it_is_and_is_opened_again_for_the_same_topic(
    store: PartitionStore, tmp_path: Path
) -> None:
    written(store)
    assert (tmp_path / "orders-0" / METADATA_FILE).read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAZA\n"
    assert store.open(ORDERS_0, ORDERS, DEFAULTS).log_end_offset == 1
    assert names(tmp_path) == ["orders-0"]


def test_the_log_of_a_deleted_topic_is_never_taken_for_that_of_a_new_one_with_its_name(
    store: PartitionStore, tmp_path: Path
) -> None:
    written(store)
    assert store.open(ORDERS_0, RECREATED, DEFAULTS).log_end_offset == 0
    assert names(tmp_path) == ["orders-0", "orders-0.0-stray"]
    assert (tmp_path / "orders-0.0-stray" / f"{0:020}.log").stat().st_size > 0


def test_a_directory_that_was_never_finished_is_not_trusted(store: PartitionStore, tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(batch("whose?"))
    assert store.open(ORDERS_0, ORDERS, DEFAULTS).log_end_offset == 0
    assert names(tmp_path) == ["orders-0", "orders-0.0-stray"]


def test_what_was_set_aside_before_is_kept_beside_what_is_set_aside_now(store: PartitionStore, tmp_path: Path) -> None:
    for topic_id in (ORDERS, RECREATED, ORDERS):
        written(store, topic_id=topic_id)
    assert names(tmp_path) == ["orders-0", "orders-0.0-stray", "orders-0.1-stray"]


def test_strays_are_set_aside_and_nothing_else_is_touched(store: PartitionStore, tmp_path: Path) -> None:
    gone = TopicPartition("gone", 3)
    for topic_partition in (ORDERS_0, gone):
        written(store, topic_partition)
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / "notes-7").mkdir()
    (tmp_path / "__cluster_metadata").mkdir()
    store.set_strays_aside({ORDERS_0})
    store.set_strays_aside({ORDERS_0})
    assert names(tmp_path) == ["__cluster_metadata", "gone-3.0-stray", "meta.properties", "notes-7", "orders-0"]


def test_the_longest_name_that_a_topic_can_have_can_be_set_aside(store: PartitionStore, tmp_path: Path) -> None:
    longest = TopicPartition("x" * 249, 99)
    for topic_id in (ORDERS, RECREATED, ORDERS):
        written(store, longest, topic_id)
    aside = [name for name in names(tmp_path) if name.endswith("-stray")]
    assert len(aside) == 2
    assert store.open(longest, ORDERS, DEFAULTS).log_end_offset == 1


@pytest.mark.parametrize("text", ["", "topic_id: short\n", "version: 0\n", "gibberish", "topic_id: \xe4" + 21 * "A"])
def test_a_damaged_word_on_whose_directory_it_is_is_corruption_and_no_guess(
    store: PartitionStore, tmp_path: Path, text: str
) -> None:
    written(store)
    (tmp_path / "orders-0" / METADATA_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(Corruption, match="does not name a topic id"):
        store.open(ORDERS_0, ORDERS, DEFAULTS)
    assert names(tmp_path) == ["orders-0"]


def test_a_topics_configs_are_its_logs() -> None:
    defaults = broker_defaults({"log.segment.bytes": "1048576", "log.message.timestamp.type": LOG_APPEND_TIME})
    config = log_config(defaults)
    assert (config.segment_bytes, config.message_timestamp_type) == (1_048_576, TimestampType.LOG_APPEND_TIME)
    assert log_config(DEFAULTS).message_timestamp_type is TimestampType.CREATE_TIME
