"""The record codec twice: interpreted from its source, and compiled by mypyc if it was compiled."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import kraft.log.format
from kraft.log.format import arrow_columns, record_codec

FOLDER = Path(kraft.log.format.__file__).parent
SOURCE = FOLDER / "record_codec.py"


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
