"""A partly deleted directory, as after a kill during the deletion: a log never loses only its front."""

from __future__ import annotations

from random import Random
from typing import Final

from kraft.log.format.record_batch import split
from kraft.log.recovery.log_checkpoint import CHECKPOINT_NAME
from kraft.model.errors import Corruption
from tests.simulation.log_workload import Workload
from tests.support.disks.sim_disk import SimDisk
from tests.support.log.log_building import DIRECTORY
from tests.support.log.log_expectations import Broken, read_bytes
from tests.support.log.modelled_log import ModelledLog, open_log

ORDERS_OF_DELETION: Final = 6


def delete_halves(workload_seed: int, steps: int) -> tuple[int, int]:
    """Return how many directories were opened, and how many of them were refused as damaged. Raises Broken."""
    workload = Workload(workload_seed)
    workload.run(steps)
    model, random = workload.model, Random(workload_seed)
    model.reopen(clean_shutdown=True)
    model.log.close()
    names = list(model.disk.list(DIRECTORY))
    tried = refused = 0
    for _ in range(ORDERS_OF_DELETION):
        random.shuffle(names)
        disk = model.disk.clone()
        for name in names:
            disk.remove(f"{DIRECTORY}/{name}")
            for clean_shutdown in (False, True):
                tried += 1
                refused += not _is_a_beginning(disk.clone(), model, clean_shutdown)
    return tried, refused


def _is_a_beginning(disk: SimDisk, model: ModelledLog, clean_shutdown: bool) -> bool:
    """Return whether the log opens from its start; False if it is refused. Raises Broken for anything else.

    A compacted log that lost its checkpoint opens like any other, and its first read refuses the hole at its start.
    """
    left = disk.list(DIRECTORY)
    try:
        log = open_log(disk, model.config, clean_shutdown)
    except Corruption:
        return False
    if log.log_start_offset > model.start:
        raise Broken(f"the log began at {model.start} and begins at {log.log_start_offset}, of {left} all that is left")
    try:
        batches = list(split(read_bytes(log)))
    except Corruption:
        return False
    found = [bytes(batch) for header, batch in batches if header.next_offset > model.start]
    expected = [batch.data for batch in model.batches]
    # Without its checkpoint a log may be compacted, so missing segments in its middle are not noticed.
    knows_holes = CHECKPOINT_NAME in left and not model.is_sparse
    if knows_holes and found != expected[: len(found)]:
        raise Broken(f"{len(found)} batches are not the first of {len(expected)}, of {left} all that is left")
    return True
