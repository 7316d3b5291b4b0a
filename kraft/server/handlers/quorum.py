"""DescribeQuorum: forwarded to the active controller, which alone knows the positions of the others.

While no controller is active, every voter is asked what it knows.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kraft.model.callbacks import NowMs
from kraft.model.describe_quorum import QuorumDescription, QuorumDescriptionRequest
from kraft.rpc.calls import DESCRIBE_QUORUM
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.handlers.leaderless_quorum import leaderless

LEADER_WAIT_S: Final = 0.9
"""An election usually ends within this time, and commands report within 2 s that no controller is active."""

VOTERS_ASKED_AFTER_S: Final = 0.2
VOTER_WAIT_S: Final = 0.5


class QuorumHandler:
    def __init__(self, controllers: ControllerClient, own_id: int, wall_ms: NowMs) -> None:
        self._controllers = controllers
        self._own_id = own_id
        self._wall_ms = wall_ms

    async def describe(self, _: QuorumDescriptionRequest) -> QuorumDescription:
        """Return the active controller's description, or that no controller is active, with what the voters know."""
        from_leader = asyncio.ensure_future(
            self._controllers.call(DESCRIBE_QUORUM, QuorumDescriptionRequest(), LEADER_WAIT_S)
        )
        try:
            await asyncio.wait([from_leader], timeout=VOTERS_ASKED_AFTER_S)
            if not from_leader.done():
                without_leader = await self._without_leader()
                if from_leader.done() or _can_elect(without_leader):
                    await asyncio.wait([from_leader])
                else:
                    # No election can be under way, so the wait for its end would be in vain.
                    return without_leader
            return from_leader.result()
        except NoController:
            return await self._without_leader()
        finally:
            from_leader.cancel()
            await asyncio.wait([from_leader])

    async def _without_leader(self) -> QuorumDescription:
        request = QuorumDescriptionRequest(from_any_voter=True)
        answers = await self._controllers.ask_each(DESCRIBE_QUORUM, request, VOTER_WAIT_S)
        for answer in answers.values():
            if answer is not None and answer.leader_id >= 0:
                # The election has ended meanwhile.
                return answer
        now_ms = self._wall_ms()
        heard_ms_ago = {voter: self._controllers.heard_ms_ago(voter) for voter in answers}
        heard_ms = {voter: now_ms - ms_ago for voter, ms_ago in heard_ms_ago.items() if ms_ago >= 0}
        return leaderless(answers, heard_ms, asked_by=self._own_id, now_ms=now_ms)


def _can_elect(description: QuorumDescription) -> bool:
    counting = sum(not voter.unreachable and not voter.is_learner for voter in description.voters)
    return counting > len(description.voters) // 2
