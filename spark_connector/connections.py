"""One connection to a cluster in each process, opened at first use.

Spark forks its Python workers, pickles readers between processes and runs one worker for many tasks. So a connection is
never opened before the fork nor kept in a reader, and it outlives the task: a new one for each task nearly doubles the
time of a small micro-batch.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from spark_connector.cluster import Cluster, Connect

_Key = tuple[int, Connect, tuple[str, ...]]

# A forked child inherits its parent's entries but not their threads; the process id keeps them apart.
_clusters: dict[_Key, Cluster] = {}
_guard = threading.Lock()


def cluster(connect: Connect, bootstrap_servers: Sequence[str]) -> Cluster:
    """Return this process's connection to the cluster at these addresses."""
    key = _key(connect, bootstrap_servers)
    with _guard:
        if key not in _clusters:
            _clusters[key] = connect(bootstrap_servers)
        return _clusters[key]


def close(connect: Connect, bootstrap_servers: Sequence[str]) -> None:
    """Close this process's connection to these addresses, if there is one; the next use connects again."""
    with _guard:
        open_cluster = _clusters.pop(_key(connect, bootstrap_servers), None)
    if open_cluster is not None:
        open_cluster.close()


def _key(connect: Connect, bootstrap_servers: Sequence[str]) -> _Key:
    return os.getpid(), connect, tuple(bootstrap_servers)
