from __future__ import annotations

from collections.abc import Collection

from kraft.log.format.record_batch import decode_batch_columns, read_header, rebuild_batch
from kraft.log.format.record_codec import RecordColumns


def with_only(batch: bytes, offsets: Collection[int]) -> bytes:
    """Return what compaction leaves of a batch if only these offsets stay."""
    columns = decode_batch_columns(batch)
    kept = [at for at, offset in enumerate(columns.offsets) if offset in offsets]
    left = RecordColumns(
        offsets=[columns.offsets[at] for at in kept],
        timestamps_ms=[columns.timestamps_ms[at] for at in kept],
        keys=[columns.keys[at] for at in kept],
        values=[columns.values[at] for at in kept],
        headers=[columns.headers[at] for at in kept],
    )
    return rebuild_batch(read_header(batch), left)
