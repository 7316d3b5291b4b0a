"""The directories of all processes of one configuration file, formatted together."""

from __future__ import annotations

from kraft.server.config.node_config import NodeConfig
from kraft.server.config.processes import processes
from kraft.server.identity import storage
from kraft.server.identity.storage import Formatted, StorageError


def format_all(config: NodeConfig, cluster_id: str | None) -> list[Formatted]:
    """Format the directories of each process, as `storage.format` does for one; those of process 0 are first.

    Without a cluster id, further processes join the cluster of process 0.
    """
    each_process = processes(config)
    if cluster_id is None and config.cluster_id is None and len(each_process) > 1:
        meta = storage.read_meta(config.log_dir)
        cluster_id = None if meta is None else meta.cluster_id
    return [formatted for each in each_process for formatted in storage.format(each, cluster_id)]


def format_at_first_start(config: NodeConfig) -> None:
    """Format the directories of each process of a node that is the whole cluster, as a node alone formats its own.

    Nothing is done if one of them is formatted, or cannot be read: the node itself says what is missing.
    """
    if not config.is_whole_cluster:
        return
    try:
        metas = [storage.read_meta(directory) for each in processes(config) for directory in each.log_dirs]
    except StorageError:
        return
    if not any(metas):
        format_all(config, config.cluster_id or storage.random_cluster_id())
