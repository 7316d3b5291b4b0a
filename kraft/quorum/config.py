"""Settings of one voter, checked when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FRAME_BYTES_MAX = 4 * 1024 * 1024
"""No frame between voters is larger; gRPC refuses to send or receive one."""

APPEND_BATCH_BYTES = 1024 * 1024
"""The engine closes a batch of entries at the entry that reaches this. A single entry as large would be cut into
pieces, which our transport does not carry: payloads must stay well below."""

PAYLOAD_BYTES_MAX = 512 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterAddress:
    """The CONTROLLER listener of a voter."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """`node.id`, `cluster.id`, `controller.quorum.voters` and `metadata.log.dir` of a voter, and its clocks.

    A follower that hears nothing for a random time between the two election timeouts asks whether it may stand as a
    candidate; nobody who heard a leader within the shorter one lets it. A leader that hears no majority for the longer
    one steps down (`controller.quorum.election.timeout.ms`). The defaults leave room for a busy event loop. `beat_ms`
    is how often an idle voter looks at its clock: messages and proposals are handled at once, so it only blurs the
    timeouts.
    """

    node_id: int
    cluster_id: str
    voters: Mapping[int, VoterAddress]
    directory: Path
    election_timeout_ms_min: int = 500
    election_timeout_ms_max: int = 1000
    append_period_ms: int = 50
    beat_ms: int = 25
    payload_bytes_max: int = PAYLOAD_BYTES_MAX

    def __post_init__(self) -> None:
        if self.node_id not in self.voters:
            named = ", ".join(str(voter) for voter in sorted(self.voters))
            raise ValueError(f"node.id {self.node_id} is not among controller.quorum.voters ({named})")
        if min(self.voters) < 0 or max(self.voters) >= 1 << 31:
            raise ValueError("controller.quorum.voters: node ids lie between 0 and 2147483647")
        if not self.cluster_id:
            raise ValueError("cluster.id is empty")
        if not 0 < self.append_period_ms * 3 < self.election_timeout_ms_min < self.election_timeout_ms_max:
            raise ValueError(
                "election timeouts: three append periods must be below the minimum, that below the maximum"
            )
        if not 0 < self.beat_ms <= self.append_period_ms:
            raise ValueError("beat_ms must be above 0 and not above append_period_ms")
        if not 0 < self.payload_bytes_max <= PAYLOAD_BYTES_MAX:
            raise ValueError(f"payload_bytes_max must be above 0 and not above {PAYLOAD_BYTES_MAX}")

    @property
    def peer_ids(self) -> tuple[int, ...]:
        """The other voters, ascending."""
        return tuple(sorted(voter for voter in self.voters if voter != self.node_id))

    @property
    def first_candidacy_ms(self) -> tuple[int, int]:
        """When a voter that never took part stands for the first time, at the earliest and the latest.

        A new cluster has no leader that could be disturbed, so nobody need wait for one. The voters stand one after
        the other, by their ids, lest they split the vote.
        """
        rank = sorted(self.voters).index(self.node_id)
        # The engine takes no timeout that is not above three append periods.
        earliest_ms = min(3 * self.append_period_ms + 10 + 150 * rank, self.election_timeout_ms_min)
        return earliest_ms, earliest_ms + 50
