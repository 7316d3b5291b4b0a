"""One connection to a cluster in each process, made at its first use.

Spark forks its Python workers, pickles readers between processes and runs one worker for many tasks. A connection is
therefore never made before the fork nor kept in a reader, and it outlives the task: one made anew for each task
nearly doubles the time of a small micro-batch.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from spark_connector.cluster import Cluster, Connect

_Key = tuple[int, Connect, tuple[str, ...]]

# A forked child inherits the entries of its parent, whose threads it has not; the process id keeps them apart.
_clusters: dict[_Key, Cluster] = {}
_guard = threading.Lock()


def cluster(connect: Connect, bootstrap_servers: Sequence[str]) -> Cluster:
    """This process's connection to the cluster at these addresses."""
    key = _key(connect, bootstrap_servers)
    with _guard:
        if key not in _clusters:
            _clusters[key] = connect(bootstrap_servers)
        return _clusters[key]


def close(connect: Connect, bootstrap_servers: Sequence[str]) -> None:
    """Closes this process's connection for these addresses, if there is one; the next use connects again."""
    with _guard:
        open_cluster = _clusters.pop(_key(connect, bootstrap_servers), None)
    if open_cluster is not None:
        open_cluster.close()


def _key(connect: Connect, bootstrap_servers: Sequence[str]) -> _Key:
    return os.getpid(), connect, tuple(bootstrap_servers)
