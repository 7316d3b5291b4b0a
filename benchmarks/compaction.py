"""`python -m benchmarks.compaction`: how fast a log is compacted, in how much memory, and what is left of it."""

from __future__ import annotations

import resource
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Annotated, Final

import typer

from benchmarks.report import Cell, Output, Report, file_system, print_report, say
from kraft.log.cleaning.cleaned_segments import CleaningResult
from kraft.log.cleaning.cleaning_plan import plan_cleaning
from kraft.log.cleaning.compaction import clean
from kraft.log.cleaning.segment_swap import swap_in
from kraft.log.format.compression import CODEC_OF_NAME, Codec
from kraft.log.format.record_batch import build_batch, iter_records, split
from kraft.log.format.record_codec import Record
from kraft.log.segment.paths import LOG_SUFFIX, file_name
from kraft.log.segment.segment_facts import SegmentFacts
from kraft.log.topic_config import TopicConfig
from kraft.model.ids import Offset
from kraft.runtime.disk import RealDisk

MIB: Final = 1 << 20
RECORD_BYTES: Final = 100
"""Key and value together."""

BATCH_RECORDS: Final = 150
TIMESTAMP_MS: Final = 1_700_000_000_000
SEGMENT_BYTES: Final = 32 * MIB
CONFIG: Final = TopicConfig(
    cleanup_policy=("compact", "delete"), min_cleanable_dirty_ratio=0, segment_bytes=SEGMENT_BYTES
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A log of records whose keys are drawn by chance from `keys` of them, the same ones at each call."""

    records: int
    keys: int
    codec: Codec

    def drawn(self) -> Iterator[int]:
        """The number of the key of each record, in their order."""
        chance = Random(self.records)
        return (chance.randrange(self.keys) for _ in range(self.records))

    def value(self, offset: int) -> bytes:
        """Says where the record stands; half of it can be compressed."""
        text = b"%012d" % offset
        return (text + Random(offset).randbytes(RECORD_BYTES))[: RECORD_BYTES // 2] + b"." * (RECORD_BYTES // 2 - 12)


def key_of(number: int) -> bytes:
    return b"key %08d" % number


def write_log(directory: Path, load: Load) -> None:
    """Segments of batches; the last one, which would be the active one, is empty."""
    written: list[bytes] = []
    segment_base = base = size_bytes = 0
    pending: list[Record] = []

    def end_batch() -> None:
        nonlocal base, size_bytes
        batch = build_batch(pending, codec=load.codec, base_offset=base, leader_epoch=0)
        written.append(batch)
        size_bytes += len(batch)
        base += len(pending)
        pending.clear()

    def end_segment() -> None:
        nonlocal segment_base, size_bytes
        (directory / file_name(segment_base, LOG_SUFFIX)).write_bytes(b"".join(written))
        written.clear()
        segment_base, size_bytes = base, 0

    for offset, number in enumerate(load.drawn()):
        pending.append(Record(0, TIMESTAMP_MS + offset, key_of(number), load.value(offset)))
        if len(pending) == BATCH_RECORDS:
            end_batch()
        if size_bytes > SEGMENT_BYTES - MIB:
            end_segment()
    if pending:
        end_batch()
    if written:
        end_segment()
    end_segment()


def _write_log_elsewhere(directory: Path, load: Load) -> None:
    """Write the log in a process of its own, whose memory is not that of the compaction."""
    writer = get_context("spawn").Process(target=write_log, args=(directory, load))
    # Ctrl-C is for this process, which then ends the writer.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    writer.start()
    signal.signal(signal.SIGINT, handler)
    try:
        writer.join()
    finally:
        writer.kill()
        writer.join()
    if writer.exitcode != 0:
        raise typer.Exit(1)


def segments_of(directory: Path, log_end: int) -> list[SegmentFacts]:
    paths = sorted(directory.glob(f"*{LOG_SUFFIX}"))
    bases = [int(path.stem) for path in paths]
    return [
        SegmentFacts(
            base_offset=Offset(base),
            end_offset=Offset(end),
            size_bytes=path.stat().st_size,
            max_timestamp_ms=TIMESTAMP_MS,
            first_timestamp_ms=TIMESTAMP_MS,
            path=str(path),
        )
        for path, base, end in zip(paths, bases, [*bases[1:], log_end], strict=True)
    ]


def measure(directory: Path, load: Load, map_mib: int) -> Report:
    say(f"writing {load.records:,} records over {load.keys:,} keys ...")
    _write_log_elsewhere(directory, load)
    rows: list[dict[str, Cell]] = []
    cleaned_end = Offset(0)
    for number in range(1, 1_000):
        plan = plan_cleaning(
            segments_of(directory, load.records), CONFIG, cleaned_end, Offset(load.records), TIMESTAMP_MS
        )
        if plan is None:
            break
        resident_before = _peak_mib()
        begin = perf_counter()
        result = clean(RealDisk(), str(directory), plan, CONFIG, TIMESTAMP_MS, map_mib * MIB, {}, lambda _: None, ())
        cleaned = perf_counter()
        for group in result.groups:
            for path in swap_in(RealDisk(), str(directory), group.base_offset, group.end_offset):
                Path(path).unlink()
        rows.append(_row(number, result, cleaned - begin, perf_counter() - cleaned, _peak_mib() - resident_before))
        cleaned_end = result.end_offset
    say("checking what is left ...")
    left = check(directory, load)
    return Report(
        title=f"Compaction of {load.records:,} records of {RECORD_BYTES} B over {load.keys:,} keys, {load.codec.name}",
        durability=f"cleaned files synced before they are swapped in; {file_system(directory)}",
        rows=rows,
        notes=(
            "MB/s and records/s count what stood in the log, read twice (once for the keys, once for the records).",
            f"The log afterwards: exactly the newest record of each of the {left:,} keys, at its offset, in order.",
            f"Peak memory is by how much the process grew during the cleaning; the bound of the map is {map_mib} MiB.",
        ),
    )


def _row(number: int, result: CleaningResult, seconds: float, swap_seconds: float, grown_mib: float) -> dict[str, Cell]:
    return {
        "cleaning": number,
        "records read": result.records_read,
        "kept": result.records_kept,
        "seconds": seconds,
        "MB/s": result.bytes_read / seconds / 1e6,
        "records/s": result.records_read / seconds,
        "swap ms": swap_seconds * 1e3,
        "MB before": result.bytes_read / 1e6,
        "MB after": result.bytes_kept / 1e6,
        "keys in map": result.map_keys,
        "map MiB": result.map_bytes / MIB,
        "peak memory MiB": grown_mib,
    }


def _peak_mib() -> float:
    """Return the peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def check(directory: Path, load: Load) -> int:
    """Return the number of records left. Raises AssertionError unless they are exactly the newest of each key."""
    newest = {number: offset for offset, number in enumerate(load.drawn())}
    expected = sorted((offset, number) for number, offset in newest.items())
    left: list[tuple[int, int]] = []
    for segment in segments_of(directory, load.records):
        data = Path(segment.path).read_bytes()
        for header, batch in split(data):
            assert header.codec is load.codec or header.record_count == 0, "the codec of a batch has changed"
            for record in iter_records(batch):
                assert record.timestamp_ms == TIMESTAMP_MS + record.offset, "a timestamp has changed"
                assert record.value == load.value(record.offset), "a value has changed"
                assert record.key is not None, "a record without a key is left"
                left.append((record.offset, int(record.key.removeprefix(b"key "))))
    assert left == expected, f"{len(left)} records are left, {len(expected)} are the newest of their keys"
    return len(left)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def compaction(
    records: Annotated[int, typer.Option(min=1)] = 1_000_000,
    keys: Annotated[int, typer.Option(min=1)] = 100_000,
    codec: Annotated[str, typer.Option(help=", ".join(CODEC_OF_NAME))] = Codec.NONE.config_name,
    map_mib: Annotated[int, typer.Option(min=1, help="Bound of the offset map.")] = 128,
    directory: Annotated[
        Path | None, typer.Option(help="Where to write; by default where temporary files go.", exists=True)
    ] = None,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """Compact a log of keyed records, and check that exactly the newest record of each key is left."""
    if codec not in CODEC_OF_NAME:
        raise typer.BadParameter(f"{codec} is none of {', '.join(CODEC_OF_NAME)}", param_hint="--codec")
    with tempfile.TemporaryDirectory(prefix="kraft-benchmark-", dir=directory) as place:
        load = Load(records=records, keys=keys, codec=CODEC_OF_NAME[codec])
        print_report(measure(Path(place), load, map_mib), output)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.compaction")
