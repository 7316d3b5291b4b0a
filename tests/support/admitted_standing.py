"""The standing of a voter that votes from the beginning: it was admitted long ago."""

from __future__ import annotations

from kraft.quorum.config import QuorumConfig
from kraft.quorum.membership import Membership, before_incarnations
from kraft.quorum.standing import Standing


class _Unchanging:
    def set_membership(self, membership: Membership) -> None:
        raise AssertionError(f"the membership of node {membership.node_id} does not change")


def admitted_standing(config: QuorumConfig) -> Standing:
    return Standing(config, before_incarnations(config.cluster_id, config.node_id, config.voters), _Unchanging())
