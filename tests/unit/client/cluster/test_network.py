"""What a client imports when it connects."""

from __future__ import annotations

import subprocess
import sys


def test_an_open_connection_imports_nothing_of_security_or_the_log_of_nodes() -> None:
    program = (
        "import sys\n"
        "from kraft.client.aio import Admin\n"
        "from kraft.client.cluster.network import Network\n"
        "from kraft.client.model.settings import ClientSettings\n"
        "Network().connect(ClientSettings(bootstrap_servers='localhost:1'))\n"
        "print([name for name in ('structlog', 'rich', 'kraft.rpc.secure_channel') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
