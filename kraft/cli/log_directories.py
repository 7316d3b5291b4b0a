"""`kraft brokers log-dirs`: the log directories of brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kraft.cli.printing import print_columns
from kraft.model.errors import ErrorCode, KraftError, error_code
from kraft.model.printable import readable_size

if TYPE_CHECKING:
    from kraft.wire.schema.describe_log_dirs import DescribeLogDirsPartition, DescribeLogDirsResult

Outcomes = Mapping[int, "Sequence[DescribeLogDirsResult] | KraftError"]
"""Directories of each broker, or why it did not answer."""


def print_directories(outcomes: Outcomes) -> None:
    rows: list[tuple[object, ...]] = []
    for broker_id, outcome in sorted(outcomes.items()):
        if isinstance(outcome, KraftError):
            rows.append((broker_id, "-", "unknown", "-", "-", "-", "-"))
            continue
        for each in outcome:
            replicas = [replica for _, replica in _replicas(each)]
            size_bytes = sum(replica.partition_size for replica in replicas)
            sizes = [
                readable_size(size) if size >= 0 else "-" for size in (size_bytes, each.usable_bytes, each.total_bytes)
            ]
            rows.append((broker_id, each.log_dir, _state(each), len(replicas), *sizes))
    print_columns(("BrokerId", "LogDir", "State", "Replicas", "Size", "Free", "Total"), rows)


def as_json(outcomes: Outcomes) -> dict[str, Any]:
    """Return what kafka-log-dirs.sh prints."""
    return {
        "version": 1,
        "brokers": [
            {
                "broker": broker_id,
                "logDirs": [] if isinstance(outcome, KraftError) else [_directory_as_json(each) for each in outcome],
                "error": str(outcome) if isinstance(outcome, KraftError) else None,
            }
            for broker_id, outcome in sorted(outcomes.items())
        ],
    }


def _replicas(described: DescribeLogDirsResult) -> Iterator[tuple[str, DescribeLogDirsPartition]]:
    """Yield each replica with the name of its topic."""
    for topic in described.topics:
        for each in topic.partitions:
            yield topic.name, each


def _directory_as_json(described: DescribeLogDirsResult) -> dict[str, Any]:
    return {
        "error": None if described.error_code == ErrorCode.NONE else error_code(described.error_code).name,
        "logDir": described.log_dir,
        "reason": described.reason or None,
        "totalBytes": described.total_bytes,
        "usableBytes": described.usable_bytes,
        "partitions": [
            {
                "partition": f"{topic}-{each.partition_index}",
                "size": each.partition_size,
                "offsetLag": each.offset_lag,
                "isFuture": each.is_future_key,
            }
            for topic, each in _replicas(described)
        ],
    }


def _state(described: DescribeLogDirsResult) -> str:
    if described.error_code != ErrorCode.NONE:
        return "failed"
    return "refuses appends" if described.reason else "in use"
