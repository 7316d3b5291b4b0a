"""All the files of one log: its segments and what stands beside them, as they begin, go and take each other's place.

What they mean - where the log ends, what is committed, when to roll - is the log's to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kraft.log.change import Change
from kraft.log.cleaning.cleaned_segments import CleanedGroup, CleaningResult
from kraft.log.cleaning.segment_swap import swap_in
from kraft.log.disk import Disk
from kraft.log.group_commit import GroupCommit
from kraft.log.log_config import LogConfig
from kraft.log.log_health import LogHealth
from kraft.log.recovery.side_files import SideFiles
from kraft.log.segment import lookup
from kraft.log.segment.rolling import begin_segment
from kraft.log.segment.segment import Segment
from kraft.model.ids import Offset


class LogFiles:
    """Changes raise OSError from the disk, and Refusal where they say so."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segments: list[Segment],
        side_files: SideFiles,
        sync: GroupCommit,
        health: LogHealth,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self.segments = segments
        """In order; only the last one grows."""
        self._side_files = side_files
        self._sync = sync
        self._health = health
        self._being_replaced: Sequence[Segment] = ()
        """Segments whose files a thread is swapping: their names may already be those of other content."""
        self._is_closed = False
        self._begun: Segment | None = None
        """It may never be one of `segments`: the change that began it may be given up."""

    def has_still(self, segments: Sequence[Segment]) -> bool:
        """Whether the files of all of these are in place, under their names, and stay there until the loop goes on."""
        return all(segment in self.segments and segment not in self._being_replaced for segment in segments)

    def begin_segment(self, base_offset: Offset, config: LogConfig) -> Change[None]:
        directory = self._directory

        def begin() -> Segment:
            self._begun = begin_segment(self._disk, directory, base_offset, config)
            return self._begun

        self.segments.append((yield begin))
        self._begun = None

    def drop_first(self, count: int, log_start: Offset) -> Change[list[str]]:
        """Moves the start of the log behind these segments. Returns files that nobody needs any more."""
        # The start moves first: a crash in between leaves files below it, which the next retention drops.
        yield from self._side_files.advance_start(max(log_start, self.segments[count].base_offset))
        dropped = self.segments[:count]
        del self.segments[:count]
        for segment in dropped:
            self._sync.close_file(segment.file)
        files: list[str] = yield lambda: [path for segment in dropped for path in segment.rename_deleted()]
        yield from self.drop_stale_snapshots()
        return files

    def drop_stale_snapshots(self) -> Change[None]:
        yield from self._side_files.drop_stale_snapshots(segment.base_offset for segment in self.segments)

    # --- compaction ---

    def install(self, result: CleaningResult, cleaned: Sequence[Segment]) -> Change[list[str]]:
        """Puts the cleaned segments in the place of what they were made from. Returns files that nobody needs any more.

        Raises Refusal only.
        """
        files: list[str] = []
        if result.groups:
            yield from self._health.guarding(self._side_files.remember_holes())
        directory = self._directory
        for group, segment in zip(result.groups, cleaned, strict=True):
            replaced = self._replaced_by(group)
            yield from self._health.guarding(_keep_indexes(replaced))
            self._being_replaced = replaced
            try:
                files += yield partial(swap_in, self._disk, directory, group.base_offset, group.end_offset)
            except OSError as error:
                # Half a swap is finished by recovery; until then nobody knows which files are which.
                self._health.fail(error)
            else:
                self._replace(replaced, segment)
            finally:
                self._being_replaced = ()
            yield from self._write_indexes(segment)
        checkpoint = replace(self._side_files.checkpoint, cleaned_end_offset=result.end_offset)
        yield from self._health.guarding(self._side_files.remember(checkpoint))
        yield from self._health.guarding(self.drop_stale_snapshots())
        return files

    def _replaced_by(self, group: CleanedGroup) -> list[Segment]:
        first = lookup.number_of(self.segments, group.base_offset)
        return self.segments[first : first + len(group.replaced)]

    def _replace(self, replaced: Sequence[Segment], cleaned: Segment) -> None:
        first = self.segments.index(replaced[0])
        self.segments[first : first + len(replaced)] = [cleaned]
        for segment in replaced:
            self._sync.close_file(segment.file)

    def _write_indexes(self, cleaned: Segment) -> Change[None]:
        try:
            yield from cleaned.write_indexes()
            cleaned.release_indexes()
        except OSError as error:
            # On a full disk they stay in memory, and recovery makes them anew.
            self._health.tolerate_full_disk(error)

    # --- truncation ---

    def truncate_to(self, offset: Offset) -> Change[None]:
        """Drops every batch that reaches `offset`, which is above the start of the first segment.

        Raises Refusal when the disk failed half-way, be it only full: the log has failed then.
        """
        growing = self.segments[lookup.number_of(self.segments, Offset(offset - 1))]
        yield from self._side_files.forget_from(offset, growing.base_offset)
        try:
            yield from self._cut_off(offset)
        except OSError as error:
            # What is left may end below the end that the log remembers: what was appended there would leave a hole.
            self._health.fail(error)

    def _cut_off(self, offset: Offset) -> Change[None]:
        # The latest segment goes first, so that a crash in between leaves a log without a hole.
        while len(self.segments) > 1 and self.segments[-1].base_offset >= offset:
            yield from self._remove_last()
        yield from self.segments[-1].truncate_to(offset)

    def begin_anew(self, offset: Offset, config: LogConfig) -> Change[None]:
        """Drops everything, and begins an empty segment at `offset`."""
        side_files = self._side_files
        yield from side_files.forget_from(Offset(0), Offset(0))
        while self.segments:
            yield from self._remove_last()
        yield from side_files.remember(replace(side_files.checkpoint, log_start_offset=offset, is_sparse=False))
        # While there is no segment recovery takes no epoch for the log's; beside one it would take those below its end.
        yield from side_files.cut_epochs(Offset(0))
        yield from self.begin_segment(offset, config)

    def _remove_last(self) -> Change[None]:
        segment, directory = self.segments.pop(), self._directory
        self._sync.close_file(segment.file)
        yield lambda: self._remove_files(segment, directory)

    def _remove_files(self, segment: Segment, directory: str) -> None:
        for path in segment.rename_deleted():
            self._disk.remove(path)
        self._disk.sync_dir(directory)

    def moved_to(self, directory: str) -> None:
        """The directory with all in it has this name now."""
        self._directory = directory
        self._side_files.moved_to(directory)
        for segment in self.segments:
            segment.moved_to(directory)

    # --- end of life ---

    def close(self) -> None:
        """Closes the files as they are."""
        if self._is_closed:
            return
        self._is_closed = True
        for segment in self.segments:
            self._sync.close_file(segment.file)
        if self._begun is not None:
            self._begun.file.close()
        self._health.failure = self._health.failure or "the log is closed"


def _keep_indexes(segments: Sequence[Segment]) -> Change[None]:
    """So that reads go on while the index files are put aside: to make an index anew would hold the loop."""
    stored = yield lambda: [segment.stored_index() for segment in segments]
    for segment, index in zip(segments, stored, strict=True):
        segment.keep_index(index)


def parent_of(path: str) -> str:
    head, separator, _ = path.rpartition("/")
    return head or separator or "."
