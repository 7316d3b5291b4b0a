"""Whether a simulation notices that a guard is removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

log = structlog.get_logger()


def is_noticed(run: Callable[[int], object], is_expected: Callable[[Exception], bool], seeds: Iterable[int]) -> bool:
    """Return whether one of the seeds ends with the expected error.

    Weakened code may also fail in another way. That is ignored: it does not prove that the guard is needed.
    """
    for seed in seeds:
        try:
            run(seed)
        except Exception as error:  # noqa: BLE001  Weakened code may fail in any way.
            if is_expected(error):
                return True
            log.debug("seed ended in another way", seed=seed, error=repr(error))
    return False
