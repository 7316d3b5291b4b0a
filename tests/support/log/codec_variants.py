"""The record codec twice, interpreted from its source and compiled by mypyc; and what either makes of some bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import kraft.log.format
from kraft.log.format import arrow_columns, record_codec
from kraft.model.errors import InvalidBatch

FOLDER = Path(kraft.log.format.__file__).parent
SOURCE = FOLDER / "record_codec.py"
_SKIM_STEPS = 2
_WRONG_MAX = 3


def pure_codec(*, without_librt: bool = False) -> ModuleType:
    """Load the codec from its source file, as a module of its own with its own Record."""
    return _loaded("record_codec", without_librt=without_librt)


def pure_arrow_columns(*, without_librt: bool = False) -> ModuleType:
    """Load the decoder of Arrow's columns in the same way."""
    return _loaded("arrow_columns", without_librt=without_librt)


def compiled_arrow_columns() -> ModuleType | None:
    """Return the compiled decoder; None if it was not compiled."""
    return None if str(arrow_columns.__file__).endswith(".py") else arrow_columns


def _loaded(name: str, *, without_librt: bool) -> ModuleType:
    spec = spec_from_file_location(f"interpreted_{name}_{without_librt}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    hidden = {"librt": None, "librt.strings": None} if without_librt else {}
    before = {each: sys.modules.pop(each) for each in hidden if each in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type]  # Python's own mark for a module that cannot be found.
    # Named tuples look up their own module while they are created.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        for each in hidden:
            sys.modules.pop(each, None)
        sys.modules.update(before)
    return module


def compiled_codec() -> ModuleType | None:
    """Return the compiled codec; None if it was not compiled."""
    return None if str(record_codec.__file__).endswith(".py") else record_codec


# --- results and errors of every function that reads bytes -----------------------------------------------------------


def outcomes(
    codec: ModuleType, payload: bytes, count: int, base_offset: int = 5, base_timestamp_ms: int = 1_000
) -> dict[str, object]:
    """Return what each function of the codec makes of a payload that should hold `count` records."""
    place = base_offset, base_timestamp_ms
    return {
        "records": outcome(lambda: codec.decode_records(payload, count, *place)),
        "columns": outcome(lambda: codec.decode_columns(payload, count, *place)),
        "skim": outcome(lambda: _skimmed(codec, payload, count, base_timestamp_ms)),
        "find": outcome(lambda: _found(codec, payload, count)),
        "sizes": outcome(lambda: _sizes(codec, payload)),
        "headers": [outcome(partial(codec.header_count, payload, at)) for at in range(min(len(payload), 3))],
    }


def outcome(run: Callable[[], object]) -> object:
    """Return the result, or the text of an InvalidBatch, which begins with its code."""
    try:
        return run()
    except InvalidBatch as error:
        return str(error)


def _skimmed(codec: ModuleType, payload: bytes, count: int, base_timestamp_ms: int) -> object:
    skim = codec.RecordSkim(payload, count, base_timestamp_ms, base_timestamp_ms, base_timestamp_ms + 500, _WRONG_MAX)
    while not skim.go_on(_SKIM_STEPS):
        pass
    return skim.keyless, skim.early, skim.late, skim.max_timestamp_ms, skim.earliest_found_ms


def _found(codec: ModuleType, payload: bytes, count: int) -> object:
    """Search for the second record, in three pieces."""
    finder = codec.RecordFinder(count, 0, 1)
    size = len(payload) // 3 + 1
    found = any(finder.feed(payload[start : start + size]) for start in range(0, len(payload), size))
    return found, finder.offset_delta, finder.timestamp_delta, finder.left, finder.rest


def _sizes(codec: ModuleType, payload: bytes) -> list[int]:
    sizes: list[int] = []
    position = 0
    while position < len(payload) and (size := codec.record_size(payload, position)):
        sizes.append(size)
        position += size
    return sizes
