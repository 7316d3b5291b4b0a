"""Settings of one voter, checked at construction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

FRAME_BYTES_MAX = 4 * 1024 * 1024
"""Maximum size of a frame between voters; gRPC refuses to send or receive a larger one."""

APPEND_BATCH_BYTES = 1024 * 1024
"""The engine closes a batch of entries at the entry that reaches this size. It would cut a single entry of this size
into pieces, which our transport does not carry, so payloads must stay well below."""

PAYLOAD_BYTES_MAX = 512 * 1024

FIRST_ELECTION_MS = 160
"""Longest time for which the first voter of a new cluster waits for the links to and from all others."""

ROUNDS_PER_TIMEOUT = 4
"""Pre-vote rounds in the time of one election timeout."""


class VoterAddress(Struct, frozen=True, kw_only=True):
    """The CONTROLLER listener of a voter."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class QuorumConfig(Struct, frozen=True, kw_only=True):
    """Settings of a voter: `node.id`, `cluster.id`, `controller.quorum.voters`, `metadata.log.dir`, and timeouts.

    A candidate that is not elected within a random time between the two election timeouts starts another election
    (`controller.quorum.election.timeout.ms`). A follower that hears from no leader for a random time between the two
    fetch timeouts asks for pre-votes; a voter that heard from a leader within the shorter one grants none. A leader
    that hears from no majority for the longer one steps down (`controller.quorum.fetch.timeout.ms`; 0: as the election
    timeout). A voter that finds no majority asks again after a random time of at most `election_backoff_ms_max`
    (`controller.quorum.election.backoff.max.ms`; 0: a quarter of the election timeout). The connection to a voter that
    sends nothing for `request_timeout_ms` is opened again (`controller.quorum.request.timeout.ms`). A leader delays a
    proposal by up to `append_linger_ms`, so that it shares its sync with others
    (`controller.quorum.append.linger.ms`).

    A leader sends every other voter an append at least every `append_period_ms`. A voter checks its timeouts no more
    often than every `beat_ms`; messages and proposals are handled at once, so `beat_ms` only makes the timeouts less
    exact. The defaults leave room for a busy event loop.
    """

    node_id: int
    cluster_id: str
    voters: Mapping[int, VoterAddress]
    directory: Path
    election_timeout_ms_min: int = 500
    election_timeout_ms_max: int = 1000
    fetch_timeout_ms: int = 0
    election_backoff_ms_max: int = 0
    request_timeout_ms: int = 1000
    append_linger_ms: int = 0
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
        for name, (least, most) in (
            ("election", (self.election_timeout_ms_min, self.election_timeout_ms_max)),
            ("fetch", self.fetch_timeout_range_ms),
        ):
            if not 0 < self.append_period_ms * 3 < least < most:
                raise ValueError(
                    f"{name} timeouts: three append periods must be below the minimum, and that below the maximum"
                )
        if self.append_linger_ms < 0 or self.append_linger_ms * 2 > self.fetch_timeout_range_ms[0]:
            raise ValueError("append_linger_ms must be 0 or more, and at most half of the shorter fetch timeout")
        if self.request_timeout_ms <= 0 or self.election_backoff_ms_max < 0:
            raise ValueError("request_timeout_ms must be above 0, and election_backoff_ms_max not below 0")
        if not 0 < self.beat_ms <= self.append_period_ms:
            raise ValueError("beat_ms must be above 0 and not above append_period_ms")
        if not 0 < self.payload_bytes_max <= PAYLOAD_BYTES_MAX:
            raise ValueError(f"payload_bytes_max must be above 0 and not above {PAYLOAD_BYTES_MAX}")

    @property
    def peer_ids(self) -> tuple[int, ...]:
        """The other voters, ascending."""
        return tuple(sorted(voter for voter in self.voters if voter != self.node_id))

    @property
    def fetch_timeout_range_ms(self) -> tuple[int, int]:
        """Shortest and longest time without a message of a leader after which a follower asks for pre-votes."""
        if not self.fetch_timeout_ms:
            return self.election_timeout_ms_min, self.election_timeout_ms_max
        return self.fetch_timeout_ms // 2, self.fetch_timeout_ms

    @property
    def round_ms_max(self) -> int:
        """Longest pause between two pre-vote rounds."""
        by_rounds = self.election_timeout_ms_max // ROUNDS_PER_TIMEOUT
        return min(self.election_backoff_ms_max or by_rounds, by_rounds)

    @property
    def first_election_ms(self) -> tuple[int, int]:
        """Earliest and latest time at which a voter that never took part starts its first election.

        A new cluster has no leader that could be disturbed, so no voter waits for one. The voters start one after the
        other, in the order of their ids, so that they do not split the vote. The first one does not wait for its time
        once it is linked with all others.
        """
        rank = sorted(self.voters).index(self.node_id)
        earliest_ms = min(FIRST_ELECTION_MS + 150 * rank, self.election_timeout_ms_min)
        return earliest_ms, earliest_ms + 50
