"""The file `log-checkpoint` in a log's directory: the facts about the log that its segments do not hold.

Text: a version, one "name value" per line, and `# crc32c=` with eight hexadecimal digits over what precedes. The
previous file is kept beside it. If only that one can be read, it is interpreted cautiously: everything is checked
again, holes between offsets do not count as corruption, and every segment may have aborted transactions. A new log
start offset is written to both files, so that either shows whether the first segment that is left is the log's first.

Where offsets may be missing, only the file shows whether a segment is. It names segments after they exist, and no
longer names them before they are removed; those below the log start offset may be named and gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Final

from crc32c import crc32c

from kraft.log.disk import Disk
from kraft.model.errors import Corruption
from kraft.model.ids import Offset

CHECKPOINT_NAME: Final = "log-checkpoint"
EARLIER_SUFFIX: Final = ".earlier"

_VERSION: Final = "0"
_CRC_PREFIX: Final = b"# crc32c="
_NOTHING: Final = Offset(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheckpoint:
    """Content of the file."""

    log_start_offset: Offset = _NOTHING
    """Log start offset: records below were deleted, though the segment that holds them may still exist."""

    recovery_point: Offset = _NOTHING
    """Recovery point: everything below was durable, whole and in the index. It may be too low, never too high."""

    cleaned_end_offset: Offset = _NOTHING
    """Offset below which the log is compacted."""

    is_sparse: bool = False
    """True if compaction, here or in the leader's log, has left holes between the offsets."""

    aborted_from: Offset | None = None
    """Segments that end above this offset have an index of aborted transactions; None: no transaction was aborted."""

    segments: tuple[Offset, ...] = ()
    """Base offsets of segments that must exist, in a sparse log; in another one, the offsets show what is missing."""

    is_latest: bool = field(default=True, compare=False)
    """False if this was read from the previous file, because the latest could not be read. Not in the file."""

    def missing_front(self, first_base: int | None) -> str | None:
        """Return the reason why segments must be missing before `first_base`, the first base offset; None if none are.

        `first_base` is None for a log without segments. Such a log was just created or is being restarted, and then
        nothing in it counts as durable. Otherwise the log start offset moves before segments below it are removed.
        """
        if first_base is None and self.recovery_point > 0:
            return f"no segment is left, but everything below offset {self.recovery_point} was durable"
        if first_base is not None and first_base > self.log_start_offset:
            return f"the log starts at offset {self.log_start_offset}, but its first segment is missing"
        return None

    def missing_segments(self, base_offsets: Sequence[int]) -> list[Offset]:
        """Return the base offsets of the segments that must exist and are not among `base_offsets`.

        Without any segment the log is being created or restarted; see `missing_front`.
        """
        left = set(base_offsets)
        missing = []
        for base_offset, following in zip_longest(self.segments, self.segments[1:]):
            is_deleted = following is not None and following <= self.log_start_offset
            if left and not is_deleted and base_offset not in left:
                missing.append(base_offset)
        return missing

    def encode(self) -> bytes:
        content = (
            f"{_VERSION}\nlog_start_offset {self.log_start_offset}\nrecovery_point {self.recovery_point}\n"
            f"cleaned_end_offset {self.cleaned_end_offset}\nis_sparse {int(self.is_sparse)}\n"
        ).encode("ascii")
        if self.aborted_from is not None:
            content += f"aborted_from {self.aborted_from}\n".encode("ascii")
        if self.segments:
            content += f"segments {','.join(map(str, self.segments))}\n".encode("ascii")
        return content + _CRC_PREFIX + f"{crc32c(content):08x}\n".encode("ascii")

    @classmethod
    def decode(cls, data: bytes, path: str) -> LogCheckpoint:
        """Return the checkpoint that `encode` wrote. Raises Corruption for any other bytes."""
        content, prefix, checksum = data.rpartition(_CRC_PREFIX)
        if not prefix or checksum != f"{crc32c(content):08x}\n".encode("ascii"):
            raise Corruption(path, 0, "not a log checkpoint: the checksum is wrong")
        try:
            version, *lines = content.decode("ascii").splitlines()
            if version != _VERSION:
                raise ValueError(f"version {version[:20]} is not supported")
            fields = dict(line.split(" ") for line in lines)
            found = cls(
                log_start_offset=_offset(fields["log_start_offset"]),
                recovery_point=_offset(fields["recovery_point"]),
                cleaned_end_offset=_offset(fields["cleaned_end_offset"]),
                is_sparse=bool(int(fields["is_sparse"])),
                aborted_from=_offset(fields["aborted_from"]) if "aborted_from" in fields else None,
                segments=tuple(map(_offset, fields["segments"].split(","))) if "segments" in fields else (),
            )
        except KeyError as missing:
            raise Corruption(path, 0, f"not a log checkpoint: {missing} is missing") from None
        except ValueError as error:
            raise Corruption(path, 0, f"not a log checkpoint: {error}") from None
        return found


def _offset(text: str) -> Offset:
    offset = int(text)
    if not 0 <= offset <= 0x7FFFFFFFFFFFFFFF:
        raise ValueError(f"{offset} is not an offset")
    return Offset(offset)


def read_checkpoint(disk: Disk, directory: str) -> LogCheckpoint:
    """Return the latest checkpoint that can be read; without one, the log starts at 0 and nothing counts as durable."""
    path = f"{directory}/{CHECKPOINT_NAME}"
    try:
        return LogCheckpoint.decode(disk.read_file(path), path)
    except (FileNotFoundError, Corruption) as problem:
        earlier = _earlier(disk, path + EARLIER_SUFFIX)
        if earlier is not None:
            # A truncation may have lowered the recovery point after that file was written, and removed segments.
            return replace(
                earlier,
                recovery_point=Offset(0),
                is_sparse=True,
                aborted_from=Offset(0),
                segments=(),
                is_latest=False,
            )
        is_unknown = isinstance(problem, Corruption)
        return LogCheckpoint(is_sparse=is_unknown, aborted_from=Offset(0) if is_unknown else None, is_latest=False)


def _earlier(disk: Disk, path: str) -> LogCheckpoint | None:
    try:
        return LogCheckpoint.decode(disk.read_file(path), path)
    except (FileNotFoundError, Corruption):
        return None


def write_checkpoint(disk: Disk, directory: str, checkpoint: LogCheckpoint) -> None:
    """Write the checkpoint, durably. The previous file is kept beside it."""
    path = f"{directory}/{CHECKPOINT_NAME}"
    if disk.exists(path):
        disk.rename(path, path + EARLIER_SUFFIX)
    disk.write_atomically(path, checkpoint.encode())
