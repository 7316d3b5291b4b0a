"""A broker joins while strangers flood the CONTROLLER listener of a node that may open 1,024 files.

    python -m tests.soak.joining_runs --times 3

Each kind of flood in turn, none first. Printed is how long the broker took from its start until it was in service.
Ends with 1 if one took longer than JOINED_S_MAX. Strangers who connect again at once share the machine with the nodes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kraft.local.free_ports import ReservedPorts
from kraft.local.launching import KRAFT
from tests.soak.loads import http2_flood
from tests.soak.stranger_runs import FILES_MAX
from tests.support.waiting import until

NONE: Final = "none"
KINDS: Final = (NONE, *http2_flood.KINDS, http2_flood.RETURNING)
FLOODED_S: Final = 1.0
DEADLINE_S: Final = 60.0
JOINED_S_MAX: Final = 10.0

_CLUSTER: Final = "kJ2Yk0mVT0ma0wV2Yk0mVQ"


@contextmanager
def _node(directory: Path, node_id: int, settings: Sequence[str], event: str) -> Iterator[None]:
    """Start a node; yields when it has logged the event."""
    file, log_file = directory / f"{node_id}.properties", directory / f"{node_id}.log"
    common = (f"node.id={node_id}", f"log.dirs={directory / str(node_id)}", f"cluster.id={_CLUSTER}")
    file.write_text("\n".join((*common, f"cluster.secret.file={directory / 'secret'}", *settings)) + "\n")
    subprocess.run([*KRAFT, "storage", "format", "-c", str(file)], check=True, capture_output=True)
    limited = ["sh", "-c", f'ulimit -n {FILES_MAX}; exec "$@"', "sh", *KRAFT, "server", "start", "-c", str(file)]
    with log_file.open("wb") as log:
        process = subprocess.Popen(limited, stdout=log, stderr=log)
    try:
        until(lambda: event in log_file.read_text(), lambda: log_file.read_text()[-2_000:], DEADLINE_S)
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def _flood(port: int, kind: str) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.soak.loads.http2_flood", str(port), kind]
    path = ("--path", "/kraft.v1.Membership/Challenge")
    with subprocess.Popen([*command, *path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as stranger:
        time.sleep(FLOODED_S)
        try:
            yield
        finally:
            stranger.kill()


def joined_s(kind: str) -> float:
    """Return how long a broker takes to be in service during this flood."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        directory, reserved = Path(name), ReservedPorts(2)
        stack.callback(reserved.release)
        secret = directory / "secret"
        secret.write_text("a secret of a cluster that nobody else knows\n")
        secret.chmod(0o600)
        controller, broker = (f"127.0.0.1:{port}" for port in reserved.ports)
        voters = f"controller.quorum.voters=1@{controller}"
        as_controller = ("process.roles=controller", voters, f"listeners=CONTROLLER://{controller}")
        stack.enter_context(_node(directory, 1, as_controller, "controller activated"))
        if kind != NONE:
            stack.enter_context(_flood(reserved.ports[0], kind))
        began_s = time.monotonic()
        as_broker = ("process.roles=broker", voters, f"listeners=GRPC://{broker}")
        with _node(directory, 2, as_broker, "broker unfenced"):
            return time.monotonic() - began_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, help="only this flood")
    arguments = parser.parse_args()
    longest_s = 0.0
    for kind in KINDS if arguments.kind is None else (arguments.kind,):
        times_s = [joined_s(kind) for _ in range(arguments.times)]
        longest_s = max(longest_s, *times_s)
        print(f"{kind:11} in service after {', '.join(f'{each:.2f}' for each in times_s)} s", flush=True)
    sys.exit(1 if longest_s > JOINED_S_MAX else 0)


if __name__ == "__main__":
    main()
