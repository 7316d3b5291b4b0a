from __future__ import annotations

import resource
import subprocess
import sys

from kraft.server.process.file_limit import UNLIMITED, connection_shares

_LOOK = """
import resource
from kraft.server.process.file_limit import raise_file_limit

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, min(hard, 5_000)))
print(raise_file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE), raise_file_limit())
"""


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    # In a process of its own: a limit that was lowered stays low.
    finished = subprocess.run([sys.executable, "-c", _LOOK], capture_output=True, text=True, timeout=60, check=True)
    after, soft, hard, again = map(int, finished.stdout.split())
    assert after == soft == hard == again > 256


def shares(files_max: int, *, kafka: bool = True, grpc: bool = True, controller: bool = True) -> list[int]:
    found = connection_shares(files_max, has_kafka=kafka, has_grpc=grpc, has_controller=controller)
    return [found.kafka, found.grpc, found.controller]


def test_connections_of_all_listeners_together_leave_a_quarter_of_the_files_for_the_logs() -> None:
    assert shares(1_024) == [384, 288, 96]
    assert shares(1_024, kafka=False) == [0, 576, 192]
    assert shares(1_024, controller=False) == [438, 329, 0]
    assert shares(1_024, kafka=False, grpc=False) == [0, 0, 768]
    assert sum(shares(20_000)) == 15_000


def test_without_a_limit_of_files_there_is_none_of_connections() -> None:
    assert shares(resource.RLIM_INFINITY) == [UNLIMITED] * 3
