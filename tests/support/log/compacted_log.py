"""A log of keyed records in plain segment files, and one call that compacts it like a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kraft.log.cleaning.cleaned_segments import CleaningResult
from kraft.log.cleaning.cleaning_plan import CleaningPlan, plan_cleaning
from kraft.log.cleaning.compaction import clean
from kraft.log.cleaning.segment_swap import swap_in
from kraft.log.disk import Disk
from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import BatchHeader, build_batch, decode_batch, read_header, split
from kraft.log.format.record_codec import Record
from kraft.log.segment.segment_facts import SegmentFacts
from kraft.log.topic_config import TopicConfig
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk

DIRECTORY = "data/orders-0"
MAP_BYTES = 1 << 20
COMPACT = TopicConfig(cleanup_policy=("compact", "delete"), min_cleanable_dirty_ratio=0, delete_retention_ms=1_000)
ANY_OFFSET = Offset(1 << 62)
NOW_MS = 10 * 86_400_000

Pair = tuple[str | None, str | None]
"""Key and value of a record."""


def batch_at(base_offset: int, *pairs: Pair, timestamp_ms: int = 1_000, **details: Any) -> bytes:
    records = [
        Record(0, timestamp_ms + index, _encoded(key), _encoded(value)) for index, (key, value) in enumerate(pairs)
    ]
    return build_batch(records, base_offset=base_offset, **{"leader_epoch": 3, **details})


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def decoded(text: bytes | None) -> str | None:
    return None if text is None else text.decode()


class CompactedLog:
    """A log whose batches are durable in the active segment at once."""

    def __init__(self, disk: Disk, directory: str = DIRECTORY) -> None:
        self.disk = disk
        self.directory = directory
        self.next_offset = 0
        self.cleaned_end = Offset(0)
        disk.make_dir(directory)
        disk.sync_dir("")
        disk.sync_dir("data")
        self._begin_segment()

    # --- writing ---------------------------------------------------------------------------------------------

    def append(self, *pairs: Pair, **details: Any) -> bytes:
        """Write one batch; a new segment begins after it only when `roll` is called."""
        return self.append_batch(batch_at(self.next_offset, *pairs, **details))

    def append_batch(self, batch: bytes) -> bytes:
        file = self.disk.open(self._paths()[-1], create=False)
        file.append([batch])
        file.sync()
        file.close()
        self.next_offset = read_header(batch).next_offset
        return batch

    def segment(self, *batches: Sequence[Pair], **details: Any) -> None:
        """Write batches and end their segment."""
        for pairs in batches:
            self.append(*pairs, **details)
        self.roll()

    def roll(self) -> None:
        self._begin_segment()

    def _begin_segment(self) -> None:
        stem = f"{self.directory}/{self.next_offset:020d}"
        for suffix in (".log", ".index", ".timeindex"):
            file = self.disk.open(stem + suffix, create=True)
            file.sync()
            file.close()
        self.disk.sync_dir(self.directory)

    # --- reading ---------------------------------------------------------------------------------------------

    def _paths(self) -> list[str]:
        return [f"{self.directory}/{name}" for name in self.disk.list(self.directory) if name.endswith(".log")]

    def facts(self) -> list[SegmentFacts]:
        paths = self._paths()
        bases = [int(path.rpartition("/")[2].removesuffix(".log")) for path in paths]
        ends = [*bases[1:], self.next_offset]
        facts = []
        for path, base, end in zip(paths, bases, ends, strict=True):
            data = self.disk.read_file(path)
            timestamps = [header.max_timestamp_ms for header, _ in split(data)]
            facts.append(
                SegmentFacts(
                    base_offset=Offset(base),
                    end_offset=Offset(end),
                    size_bytes=len(data),
                    max_timestamp_ms=max(timestamps, default=-1),
                    first_timestamp_ms=timestamps[0] if timestamps else -1,
                    path=path,
                )
            )
        return facts

    def batches(self) -> list[tuple[BatchHeader, bytes]]:
        return [(header, bytes(batch)) for path in self._paths() for header, batch in split(self.disk.read_file(path))]

    def records(self) -> list[Record]:
        return [record for _, batch in self.batches() for record in decode_batch(batch)]

    def pairs(self) -> list[tuple[int, str | None, str | None]]:
        """Return offset, key and value of every record."""
        return [(record.offset, decoded(record.key), decoded(record.value)) for record in self.records()]

    def files(self) -> dict[str, bytes]:
        return {name: self.disk.read_file(f"{self.directory}/{name}") for name in self.disk.list(self.directory)}

    # --- compacting ------------------------------------------------------------------------------------------

    def plan(self, config: TopicConfig = COMPACT, now_ms: int = 0, upper: Offset = ANY_OFFSET) -> CleaningPlan | None:
        return plan_cleaning(self.facts(), config, self.cleaned_end, upper, now_ms)

    def clean(
        self,
        config: TopicConfig = COMPACT,
        now_ms: int = 0,
        map_bytes_max: int = MAP_BYTES,
        active_producers: Mapping[int, int] | None = None,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> CleaningResult:
        """Write the cleaned files beside the log. There must be something to clean."""
        plan = self.plan(config, now_ms)
        assert plan is not None
        producers = active_producers or {}
        return clean(self.disk, self.directory, plan, config, now_ms, map_bytes_max, producers, on_progress, ())

    def install(self, result: CleaningResult) -> None:
        assert result.fits(self.facts())
        for group in result.groups:
            for path in swap_in(self.disk, self.directory, group.base_offset, group.end_offset):
                self.disk.remove(path)
        self.cleaned_end = result.end_offset

    def compact(
        self,
        config: TopicConfig = COMPACT,
        now_ms: int = 0,
        map_bytes_max: int = MAP_BYTES,
        active_producers: Mapping[int, int] | None = None,
    ) -> CleaningResult:
        result = self.clean(config, now_ms, map_bytes_max, active_producers)
        self.install(result)
        return result


def facts(base: int, end: int, size_bytes: int = 100, max_ms: int = 1_000, first_ms: int = 1_000) -> SegmentFacts:
    return SegmentFacts(
        base_offset=Offset(base),
        end_offset=Offset(end),
        size_bytes=size_bytes,
        max_timestamp_ms=max_ms,
        first_timestamp_ms=first_ms,
        path=f"{base:020d}.log",
    )


CODECS = list(Codec)


def new_log() -> CompactedLog:
    return CompactedLog(MemoryDisk())


def view(records: list[tuple[int, str | None, str | None]]) -> dict[str, tuple[int, str]]:
    """Result of reading the whole log: offset and value of each key that was not deleted."""
    known: dict[str, tuple[int, str]] = {}
    for offset, key, value in records:
        if key is not None and value is not None:
            known[key] = offset, value
        elif key is not None:
            known.pop(key, None)
    return known
