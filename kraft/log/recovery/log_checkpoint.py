"""What a log has to remember of itself that its segments do not say: `log-checkpoint` in its directory.

Text: a version, one "name value" a line, and `# crc32c=` with eight hexadecimal digits over what precedes. The file
before is kept beside it. When only that can be read, what it says is taken so that nothing worse than work follows: all
is checked again, and holes between offsets are not taken for rot. A log start is written to both files, so that either
says whether the first segment that is left is the log's first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
    log_start_offset: Offset = _NOTHING
    """Records below were deleted, though the segment that holds them may still be there."""

    recovery_point: Offset = _NOTHING
    """Everything below was durable, whole and in the index when this was written. It may be too low, never too high."""

    cleaned_end_offset: Offset = _NOTHING
    """Compaction has been through everything below."""

    is_sparse: bool = False
    """Compaction, here or at a leader that was copied from, has left holes between the offsets."""

    is_latest: bool = field(default=True, compare=False)
    """False when the file could not be read, and this is what the one before it says. Not in the file."""

    def missing_front(self, first_base: int | None) -> str | None:
        """Why segments must be missing before the one that begins at `first_base`; None when they need not be.

        `first_base` is None for a log without segments. Such a log was just made or is being begun anew, and then
        nothing in it counts as durable. Otherwise the log start moves before the segments below it go.
        """
        if first_base is None and self.recovery_point > 0:
            return f"no segment is left, everything below offset {self.recovery_point} was durable"
        if first_base is not None and first_base > self.log_start_offset:
            return f"the log starts at offset {self.log_start_offset}, its first segment is missing"
        return None

    def encode(self) -> bytes:
        content = (
            f"{_VERSION}\nlog_start_offset {self.log_start_offset}\nrecovery_point {self.recovery_point}\n"
            f"cleaned_end_offset {self.cleaned_end_offset}\nis_sparse {int(self.is_sparse)}\n"
        ).encode("ascii")
        return content + _CRC_PREFIX + f"{crc32c(content):08x}\n".encode("ascii")

    @classmethod
    def decode(cls, data: bytes, path: str) -> LogCheckpoint:
        """Raises Corruption for a file that was not written so."""
        content, prefix, checksum = data.rpartition(_CRC_PREFIX)
        if not prefix or checksum != f"{crc32c(content):08x}\n".encode("ascii"):
            raise Corruption(path, 0, "not a log checkpoint: the checksum does not fit")
        try:
            version, *lines = content.decode("ascii").splitlines()
            if version != _VERSION:
                raise ValueError(f"version {version[:20]} is not known")
            fields = dict(line.split(" ") for line in lines)
            found = cls(
                log_start_offset=_offset(fields["log_start_offset"]),
                recovery_point=_offset(fields["recovery_point"]),
                cleaned_end_offset=_offset(fields["cleaned_end_offset"]),
                is_sparse=bool(int(fields["is_sparse"])),
            )
        except KeyError as missing:
            raise Corruption(path, 0, f"not a log checkpoint: {missing} is missing") from None
        except ValueError as error:
            raise Corruption(path, 0, f"not a log checkpoint: {error}") from None
        return found


def _offset(text: str) -> Offset:
    offset = int(text)
    if not 0 <= offset <= 0x7FFFFFFFFFFFFFFF:
        raise ValueError(f"{offset} is no offset")
    return Offset(offset)


def read_checkpoint(disk: Disk, directory: str) -> LogCheckpoint:
    """The latest that can be read; a directory without one has begun at offset 0 and knows nothing to be durable."""
    path = f"{directory}/{CHECKPOINT_NAME}"
    try:
        return LogCheckpoint.decode(disk.read_file(path), path)
    except (FileNotFoundError, Corruption) as problem:
        earlier = _earlier(disk, path + EARLIER_SUFFIX)
        if earlier is not None:
            # A truncation may have lowered the recovery point since.
            return replace(earlier, recovery_point=Offset(0), is_sparse=True, is_latest=False)
        return LogCheckpoint(is_sparse=isinstance(problem, Corruption), is_latest=False)


def _earlier(disk: Disk, path: str) -> LogCheckpoint | None:
    try:
        return LogCheckpoint.decode(disk.read_file(path), path)
    except (FileNotFoundError, Corruption):
        return None


def write_checkpoint(disk: Disk, directory: str, checkpoint: LogCheckpoint) -> None:
    """Durable on return. What was there before is kept beside it."""
    path = f"{directory}/{CHECKPOINT_NAME}"
    if disk.exists(path):
        disk.rename(path, path + EARLIER_SUFFIX)
    disk.write_atomically(path, checkpoint.encode())
