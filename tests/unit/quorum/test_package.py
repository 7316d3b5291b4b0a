from __future__ import annotations

import subprocess
import sys


def test_the_engine_leaves_the_socket_module_as_it_was() -> None:
    code = """
import socket
before = socket.inet_ntop
import kraft.quorum.raft_quorum
assert socket.inet_ntop is before
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
