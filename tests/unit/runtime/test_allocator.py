from __future__ import annotations

import platform
import subprocess
import sys

_FAULTS = """
import resource
from kraft.runtime.allocator import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        block = bytearray(1_000_000), bytearray(2_000_000)
        del block
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(keep_freed_memory(), faults() + faults())
"""


def test_freed_memory_is_reused_without_the_system() -> None:
    # In a process of its own: the allocator is everybody's.
    finished = subprocess.run([sys.executable, "-c", _FAULTS], capture_output=True, text=True, timeout=60, check=True)
    done, faults = finished.stdout.split()
    assert done == str(platform.libc_ver()[0] == "glibc")
    if done == "True":
        # Three megabytes have 733 pages, which are mapped once and not 200 times.
        assert int(faults) < 10 * 733


_SCATTERED = """
from pathlib import Path
from kraft.runtime.allocator import release_freed_memory, keep_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

keep_freed_memory()
blocks = [bytes(500_000) for _ in range(100)]
between = []
for number in range(100):
    blocks[number] = bytearray(500_000)
    between.append(bytearray(2_000))
blocks.clear()
before = resident()
print(release_freed_memory(), before - resident())
"""


def test_memory_freed_between_blocks_in_use_is_returned_on_request() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", _SCATTERED], capture_output=True, text=True, timeout=60, check=True
    )
    done, bytes_given_back = finished.stdout.split()
    assert done == str(platform.libc_ver()[0] == "glibc")
    if done == "True":
        assert int(bytes_given_back) > 20_000_000
