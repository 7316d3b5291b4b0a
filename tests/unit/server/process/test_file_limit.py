from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from kraft.server.process.file_limit import UNLIMITED, connections_max

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


@pytest.mark.parametrize(
    ("files_max", "connections"), [(20_000, 15_000), (1_024, 768), (resource.RLIM_INFINITY, UNLIMITED)]
)
def test_connections_leave_files_for_the_logs(files_max: int, connections: int) -> None:
    assert connections_max(files_max) == connections
