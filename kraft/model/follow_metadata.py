"""FollowMetadata: a controller streams committed metadata to a broker."""

from __future__ import annotations

from msgspec import Struct


class FollowMetadataRequest(Struct, frozen=True, kw_only=True):
    """Request for the entries after `after_index`, the last one that the broker already holds; 0 for none."""

    cluster_id: str
    broker_id: int
    after_index: int


class MetadataBatch(Struct, frozen=True, kw_only=True):
    """Committed entry of the metadata log, or a beat without records, with the index of the last entry sent.

    With `in_snapshot`, a part of the snapshot whose last entry is `index`; `ends_snapshot` marks its last part.
    """

    index: int
    term: int
    records: bytes
    committed_index: int
    in_snapshot: bool = False
    ends_snapshot: bool = False
