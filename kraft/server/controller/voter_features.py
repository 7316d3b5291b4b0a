"""Feature levels that the other controllers support, asked of each one before a level is raised.

Brokers report theirs when they register. A controller that is not a broker does not register, so it is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.features import FeatureRange
from kraft.rpc.identity import who_answers
from kraft.rpc.peers import Dial, Unreachable
from kraft.server.config.values import Voter

ANSWER_TIMEOUT_S: Final = 2.0

_CHANNEL_OPTIONS: Final[list[tuple[str, Any]]] = [("grpc.use_local_subchannel_pool", 1)]


class VoterFeatures:
    def __init__(self, voters: Sequence[Voter], own_id: int, dial: Dial) -> None:
        self._others = [voter for voter in voters if voter.node_id != own_id]
        self._dial = dial

    async def of_controllers_only(self, image: MetadataImage) -> Mapping[int, Sequence[FeatureRange]]:
        """Return the features of the other controllers that are not brokers, by node id.

        Raises Refusal INVALID_UPDATE_VERSION if one does not answer, since it may be of any version.
        """
        asked = [voter for voter in self._others if image.broker(voter.node_id) is None]
        features = await asyncio.gather(*map(self._ask, asked))
        return {voter.node_id: found for voter, found in zip(asked, features, strict=True)}

    async def _ask(self, voter: Voter) -> Sequence[FeatureRange]:
        try:
            # Use a new channel: one that failed before waits before it connects again.
            async with self._dial(voter.address, _CHANNEL_OPTIONS) as channel:
                found = await who_answers(voter.address, channel, ANSWER_TIMEOUT_S)
        except Unreachable as error:
            raise _refusal(voter, error.reason) from error
        if found.node_id != voter.node_id:
            raise _refusal(voter, f"node {found.node_id} answers at its address")
        return found.features


def _refusal(voter: Voter, reason: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"controller {voter} does not report which levels it supports ({reason}): start it with a version that does,"
        " or remove it from controller.quorum.voters on every node",
    )
