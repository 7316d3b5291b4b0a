"""One connection to a cluster in each process, made at its first use.

Spark forks its Python workers, pickles readers between processes and runs one worker for many tasks. A connection is
therefore never made before the fork nor kept in a reader, and it outlives the task: one made anew for each task
nearly doubles the time of a small micro-batch.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from spark_connector.broker import Broker, Connect

_Key = tuple[int, Connect, tuple[str, ...]]

# A forked child inherits the entries of its parent, whose threads it has not; the process id keeps them apart.
_brokers: dict[_Key, Broker] = {}
_guard = threading.Lock()


def broker(connect: Connect, bootstrap_servers: Sequence[str]) -> Broker:
    """This process's broker for these addresses."""
    key = _key(connect, bootstrap_servers)
    with _guard:
        if key not in _brokers:
            _brokers[key] = connect(bootstrap_servers)
        return _brokers[key]


def close(connect: Connect, bootstrap_servers: Sequence[str]) -> None:
    """Closes this process's broker for these addresses, if there is one; the next use connects again."""
    with _guard:
        open_broker = _brokers.pop(_key(connect, bootstrap_servers), None)
    if open_broker is not None:
        open_broker.close()


def _key(connect: Connect, bootstrap_servers: Sequence[str]) -> _Key:
    return os.getpid(), connect, tuple(bootstrap_servers)
