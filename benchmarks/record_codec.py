"""The record codec, compiled and as the interpreter runs the same source, in turns in one process.

`python -m benchmarks.record_codec` exits with 1 where the compiled codec misses its aim.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Annotated, Any, Final

import typer

from benchmarks.report import Cell, Output, Report, is_codec_compiled, print_report, say
from kraft.log.format import record_codec

RATIO_TARGET: Final = 4.0
"""Ratio of compiled to pure, for encoding and decoding records at the smallest size."""

VALUE_SIZES: Final = (100, 1000)
_AIMED_AT: Final = ("encode records", "decode records")
_BASE_TIMESTAMP_MS: Final = 1_700_000_000_000
_ROUND_NS_MIN: Final = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One thing that the codec does, with the codec as its argument; once for a whole batch."""

    name: str
    value_size: int
    records: int
    run: Callable[[Any], object]


def measure(rounds: int, batch_bytes: int) -> Report:
    rows = [_row(task, rounds) for size in VALUE_SIZES for task in _tasks(record_codec, size, batch_bytes // size)]
    return Report(
        title="Record codec: nanoseconds a record, pure Python beside the same source compiled",
        durability="nothing is written",
        rows=rows,
        notes=[
            f"Medians of {rounds} rounds, pure and compiled in turns, batches of {batch_bytes >> 10} KiB of values.",
            "Every second record has a key of 10 bytes; the size is that of the value; no headers, no compression.",
            "Processor time of the process, so that other load on the machine counts less.",
            f"The aim is {RATIO_TARGET:g} times for records of {VALUE_SIZES[0]} bytes; the rest is for comparison.",
            f"mypy {_version('mypy')}, librt {_version('librt')}.",
        ],
    )


def _tasks(any_codec: ModuleType, value_size: int, count: int) -> list[Task]:
    records = [
        any_codec.Record(
            index, _BASE_TIMESTAMP_MS + index // 10, b"key-%06d" % index if index % 2 else None, bytes(value_size)
        )
        for index in range(count)
    ]
    columns = any_codec.RecordColumns(*map(list, zip(*records, strict=True)))
    payload = any_codec.encode_records(records, _BASE_TIMESTAMP_MS)
    ways: dict[str, Callable[[Any], object]] = {
        "encode records": lambda codec: codec.encode_records(records, _BASE_TIMESTAMP_MS),
        "encode columns": lambda codec: codec.encode_columns(columns, 0, _BASE_TIMESTAMP_MS),
        "decode records": lambda codec: codec.decode_records(payload, count, 0, _BASE_TIMESTAMP_MS),
        "decode columns": lambda codec: codec.decode_columns(payload, count, 0, _BASE_TIMESTAMP_MS),
    }
    return [Task(name=name, value_size=value_size, records=count, run=run) for name, run in ways.items()]


def _row(task: Task, rounds: int) -> dict[str, Cell]:
    say(f"record codec: {task.name} at {task.value_size} bytes")
    pure, compiled = _pure_codec(), record_codec
    assert task.run(pure) == task.run(compiled), "both do the same, or the figures compare nothing"
    repeats = {codec: _repeats(task, codec) for codec in (pure, compiled)}
    figures: dict[ModuleType, list[float]] = {pure: [], compiled: []}
    for _ in range(rounds):
        for codec, measured in figures.items():
            measured.append(_batch_ns(task, codec, repeats[codec]) / task.records)
    pure_ns, compiled_ns = median(figures[pure]), median(figures[compiled])
    ratio = pure_ns / compiled_ns
    aims = task.value_size == VALUE_SIZES[0] and task.name in _AIMED_AT
    return {
        "task": task.name,
        "value bytes": task.value_size,
        "pure ns": round(pure_ns),
        "compiled ns": round(compiled_ns),
        "ratio": round(ratio, 2),
        "aim": RATIO_TARGET if aims else None,
        "reached": ratio >= RATIO_TARGET if aims else None,
    }


def _repeats(task: Task, codec: ModuleType) -> int:
    """Return how often a round runs the task, so that the clock's own cost does not count."""
    _batch_ns(task, codec, 1)
    return max(1, round(_ROUND_NS_MIN / max(_batch_ns(task, codec, 1), 1)))


def _batch_ns(task: Task, codec: ModuleType, repeats: int) -> float:
    begun = time.process_time_ns()
    for _ in range(repeats):
        task.run(codec)
    return (time.process_time_ns() - begun) / repeats


def _pure_codec() -> ModuleType:
    """The source beside the compiled module, as the interpreter runs it."""
    source = Path(record_codec.__file__ or "").parent / "record_codec.py"
    spec = spec_from_file_location("interpreted_record_codec", source)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Named tuples look their own module up while they are made.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rounds: Annotated[int, typer.Option(min=1, help="Each measures both codecs in turns.")] = 41,
    batch_kib: Annotated[int, typer.Option(min=1, help="Values in a batch, together.")] = 64,
    output: Annotated[Output, typer.Option(help="For people or for programs.")] = Output.TABLE,
) -> None:
    """Encode and decode records, compiled and as the interpreter runs the same source."""
    if not is_codec_compiled():
        raise SystemExit("record_codec: the codec is not compiled here, there is nothing to compare: run make setup")
    report = measure(rounds, batch_kib << 10)
    print_report(report, output)
    if any(row["reached"] is False for row in report.rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.record_codec")
