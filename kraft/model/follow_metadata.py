"""FollowMetadata: committed metadata, from a controller to whoever follows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowMetadataRequest:
    """`after_index` is the last entry that the broker already holds, 0 for none."""

    cluster_id: str
    broker_id: int
    after_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataBatch:
    """One committed entry of the metadata log, or a beat: no records, the last entry's index.

    With `in_snapshot`, a part of a snapshot that stands at `index`; `ends_snapshot` says that it is whole now.
    """

    index: int
    term: int
    records: bytes
    committed_index: int
    in_snapshot: bool = False
    ends_snapshot: bool = False
