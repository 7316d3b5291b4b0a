"""The partition directories of one log directory: opened, checked for whose they are, set aside when nobody's.

Each holds `partition.metadata` with the topic's id, so that what is left of a deleted topic is never taken for the log
of a new one with the same name.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import structlog

from kraft.log.disk import Disk
from kraft.log.log_config import LogConfig
from kraft.log.partition_log import PartitionLog
from kraft.log.record_batch import TimestampType
from kraft.metadata.configs import LOG_APPEND_TIME, TopicConfig
from kraft.model.errors import Corruption
from kraft.model.ids import TopicId, TopicPartition, uuid_from_text, uuid_to_text

log = structlog.get_logger()

METADATA_FILE: Final = "partition.metadata"
STRAY_SUFFIX: Final = "-stray"
_STRAY_NAME_MAX: Final = 230
"""File systems take 255 bytes, and the name of a partition alone may come near that."""
_PARTITION_DIRECTORY: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>[0-9]{1,9})")


class PartitionStore:
    """Methods block on the disk; the broker calls them in a thread."""

    def __init__(self, disk: Disk, directory: str, *, clean_shutdown: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._clean_shutdown = clean_shutdown

    def open(self, topic_partition: TopicPartition, topic_id: TopicId, config: TopicConfig) -> PartitionLog:
        """The log of that partition, recovered, or a new empty one. Raises Corruption and OSError."""
        path = f"{self._directory}/{topic_partition}"
        if self._disk.exists(path) and self._topic_id(path) != topic_id:
            self._set_aside(str(topic_partition))
        existed = self._disk.exists(f"{path}/{METADATA_FILE}")
        if not existed:
            self._disk.make_dir(path)
            self._disk.write_atomically(
                f"{path}/{METADATA_FILE}", f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n".encode("ascii")
            )
            self._disk.sync_dir(self._directory)
        opened = PartitionLog.open(self._disk, path, log_config(config), topic_partition, self._clean_shutdown)
        if existed:
            log.info("log is open", partition=str(topic_partition), **_facts(opened))
        return opened

    def set_strays_aside(self, held: Collection[TopicPartition]) -> None:
        """Renames the directories of partitions that this broker does not hold: their topics are gone."""
        for name in self._disk.list(self._directory):
            found = _PARTITION_DIRECTORY.fullmatch(name)
            if found is None or TopicPartition(found["topic"], int(found["partition"])) in held:
                continue
            if self._disk.exists(f"{self._directory}/{name}/{METADATA_FILE}"):
                self._set_aside(name)

    def _topic_id(self, path: str) -> TopicId | None:
        """Whose directory it is; None for one that was never finished."""
        file = f"{path}/{METADATA_FILE}"
        try:
            lines = dict(line.split(": ", 1) for line in self._disk.read_file(file).decode("ascii").splitlines())
            return TopicId(uuid_from_text(lines["topic_id"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError) as error:
            raise Corruption(file, 0, f"does not name a topic id: {error}") from error

    def _set_aside(self, name: str) -> None:
        """Nothing is deleted on a suspicion; the operator may."""
        number, stem = 0, name[:_STRAY_NAME_MAX]
        while self._disk.exists(f"{self._directory}/{stem}.{number}{STRAY_SUFFIX}"):
            number += 1
        aside = f"{stem}.{number}{STRAY_SUFFIX}"
        self._disk.rename(f"{self._directory}/{name}", f"{self._directory}/{aside}")
        self._disk.sync_dir(self._directory)
        log.warning("directory belongs to no partition of this broker: set aside", directory=name, renamed_to=aside)


def log_config(config: TopicConfig) -> LogConfig:
    is_append_time = config.message_timestamp_type == LOG_APPEND_TIME
    return LogConfig(
        segment_bytes=config.segment_bytes,
        index_interval_bytes=config.index_interval_bytes,
        max_message_bytes=config.max_message_bytes,
        message_timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
    )


def _facts(opened: PartitionLog) -> dict[str, object]:
    report = opened.recovery_report
    return {
        "log_start": opened.log_start_offset,
        "log_end": opened.log_end_offset,
        **{name: getattr(report, name) for name in report.__slots__ if getattr(report, name)},
    }
