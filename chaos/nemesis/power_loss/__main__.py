"""`python -m chaos.nemesis.power_loss MEDIUM MOUNT_POINT SYNC_MS_MAX SEED`: the process of one disk; see `disk.py`.

Commands and answers are JSON, one a line, from standard input and to standard output. The first answer says that the
disk is mounted. The end of the input ends the process, so that it never outlives the one that started it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any, Final

from chaos.nemesis.power_loss.disk import unmount
from chaos.nemesis.power_loss.loss import Loss
from chaos.nemesis.power_loss.volume import Volume

_UNMOUNT_DEADLINE_S: Final = 1.0


def main(medium: Path, mount_point: Path, sync_ms_max: float, seed: int) -> None:
    # libfuse is loaded here and nowhere else.
    from chaos.nemesis.power_loss.mount import serve

    chance = Random(seed)

    def wait_for_disk() -> None:
        """A sync takes as long as on a disk that has to turn, so that power fails in the middle of some."""
        time.sleep(chance.uniform(0, sync_ms_max) / 1000 + volume.slow_sync_s)

    def obey() -> None:
        for line in sys.stdin:
            _answer(_done(volume, json.loads(line)))
        unmount(mount_point)
        # A file that somebody still has open would keep the file system, and so this process, alive.
        time.sleep(_UNMOUNT_DEADLINE_S)
        os._exit(0)

    volume = Volume(medium, wait_for_disk)
    threading.Thread(target=obey, name="commands", daemon=True).start()
    serve(volume, mount_point, on_mounted=lambda: _answer({"mounted": True}))


def _done(volume: Volume, command: dict[str, Any]) -> dict[str, Any]:
    match command:
        case {"do": "hold syncs"}:
            volume.hold_syncs()
            return {}
        case {"do": "slow syncs", "seconds": seconds}:
            volume.slow_sync_s = seconds
            return {}
        case {"do": "fail syncs", "path_ends_with": path_ends_with}:
            volume.fail_syncs(path_ends_with)
            return {}
        case {"do": "heal syncs"}:
            return {"failed_bytes": volume.heal_syncs()}
        case {"do": "cut power"}:
            volume.cut_power()
            return {}
        case {"do": "restore power", "loss": loss, "seed": seed}:
            return asdict(volume.restore_power(Loss(loss), seed))
        case _:
            return {"error": f"no such command: {command}"}


def _answer(values: dict[str, Any]) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
