"""`kraft brokers log-dirs`: the log directories of brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kraft.cli.printing import print_columns, readable_size
from kraft.model.errors import ErrorCode, KraftError

if TYPE_CHECKING:
    from kraft.model.log_directories import LogDirectoryDescription

Outcomes = Mapping[int, "Sequence[LogDirectoryDescription] | KraftError"]
"""Directories of each broker, or why it did not answer."""


def print_directories(outcomes: Outcomes) -> None:
    rows: list[tuple[object, ...]] = []
    for broker_id, outcome in sorted(outcomes.items()):
        if isinstance(outcome, KraftError):
            rows.append((broker_id, "-", "unknown", "-", "-", "-", "-"))
            continue
        for each in outcome:
            size_bytes = sum(replica.size_bytes for replica in each.replicas)
            sizes = [
                readable_size(size) if size >= 0 else "-" for size in (size_bytes, each.usable_bytes, each.total_bytes)
            ]
            rows.append((broker_id, each.directory, _state(each), len(each.replicas), *sizes))
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


def _directory_as_json(described: LogDirectoryDescription) -> dict[str, Any]:
    return {
        "error": None if described.error_code is ErrorCode.NONE else described.error_code.name,
        "logDir": described.directory,
        "reason": described.reason or None,
        "totalBytes": described.total_bytes,
        "usableBytes": described.usable_bytes,
        "partitions": [
            {
                "partition": f"{each.topic}-{each.partition}",
                "size": each.size_bytes,
                "offsetLag": each.offset_lag,
                "isFuture": each.is_future,
            }
            for each in described.replicas
        ],
    }


def _state(described: LogDirectoryDescription) -> str:
    if described.error_code is not ErrorCode.NONE:
        return "failed"
    return "refuses appends" if described.reason else "in use"
