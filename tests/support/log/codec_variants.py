"""The record codec twice: interpreted from its source, and compiled by mypyc if it was compiled."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import kraft.log.format
from kraft.log.format import record_codec

SOURCE = Path(kraft.log.format.__file__).parent / "record_codec.py"


def pure_codec(*, without_librt: bool = False) -> ModuleType:
    """Load the codec from its source file, as a module of its own with its own Record."""
    spec = spec_from_file_location(f"interpreted_record_codec_{without_librt}", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    hidden = {"librt": None, "librt.strings": None} if without_librt else {}
    before = {name: sys.modules.pop(name) for name in hidden if name in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type]  # Python's own mark for a module that cannot be found.
    # Named tuples look up their own module while they are created.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
        sys.modules.update(before)
    return module


def compiled_codec() -> ModuleType | None:
    """Return the compiled codec; None if it was not compiled."""
    return None if str(record_codec.__file__).endswith(".py") else record_codec
