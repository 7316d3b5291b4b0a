"""Settings of a quorum voter, derived from its node's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kraft.quorum.config import QuorumConfig, VoterAddress
from kraft.server.config.node_config import NodeConfig

APPEND_PERIOD_MS_MAX: Final = 100
APPENDS_PER_SILENCE: Final = 4
"""A leader sends at least this many appends within the shortest timeout after which followers consider it dead."""


def journal_directory(config: NodeConfig) -> Path:
    """Return the directory in which the node's voter has its journal."""
    return config.metadata_log_dir / "__cluster_metadata"


def voter_config(config: NodeConfig, cluster_id: str) -> QuorumConfig:
    """Return the voter's settings. The node's configuration must have been checked."""
    quorum = config.quorum
    shortest_ms = min(quorum.election_timeout_ms, quorum.fetch_timeout_ms or quorum.election_timeout_ms) // 2
    append_period_ms = min(APPEND_PERIOD_MS_MAX, shortest_ms // APPENDS_PER_SILENCE)
    return QuorumConfig(
        node_id=config.node_id,
        cluster_id=cluster_id,
        voters={voter.node_id: VoterAddress(host=voter.host, port=voter.port) for voter in quorum.voters},
        directory=journal_directory(config),
        election_timeout_ms_min=quorum.election_timeout_ms // 2,
        election_timeout_ms_max=quorum.election_timeout_ms,
        fetch_timeout_ms=quorum.fetch_timeout_ms or 0,
        election_backoff_ms_max=quorum.election_backoff_ms_max or 0,
        request_timeout_ms=quorum.request_timeout_ms,
        append_linger_ms=quorum.append_linger_ms,
        append_period_ms=append_period_ms,
        beat_ms=max(1, append_period_ms // 4),
    )
