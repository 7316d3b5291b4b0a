"""Files that are created once, complete and for their owner only, and never overwritten."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from kraft.runtime.disk import RealDisk


def create_once(path: Path, data: bytes) -> bool:
    """Create a file, durable and readable only by its owner; False, and nothing is written, if it exists.

    It is complete whenever it is visible, also to processes that create it at the same time. Raises OSError.
    """
    if path.exists():
        return False
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        # Unlike a rename, a link replaces nothing: of several that create it at once, one does.
        os.link(draft, path)
        RealDisk().sync_dir(str(path.parent))
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
    return True
