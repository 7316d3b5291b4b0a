from __future__ import annotations

from typing import Any

import pytest

from kraft.model.describe_quorum import QuorumDescription, QuorumDescriptionRequest, QuorumMember
from kraft.model.errors import ErrorCode
from kraft.server.cluster.controller_client import NoController
from kraft.server.handlers.quorum import QuorumHandler
from tests.support.server.fake_controllers import FakeControllers
from tests.support.virtual_time import run_virtually as run

ASK = QuorumDescriptionRequest()
NOBODY = NoController("no controller is active: connection refused")
NOW_MS = 1_800_000_000_000
FOLLOWER = QuorumDescription(leader_epoch=7, voters=[QuorumMember(node_id=1, log_end_offset=9)])


class Voters(FakeControllers):
    """Three voters, of which some answer what they know; the active controller answers after `takes_s`, if at all."""

    def __init__(self, answers: dict[int, QuorumDescription | None], active: object = NOBODY) -> None:
        super().__init__(describe_quorum=active)
        self._answers = answers

    async def ask_each(self, _call: Any, request: QuorumDescriptionRequest, _timeout_s: float) -> Any:
        assert request.from_any_voter
        return self._answers

    def heard_ms_ago(self, node_id: int) -> int:
        return 500 if node_id == 3 else -1


def describe(voters: FakeControllers) -> QuorumDescription:
    return run(QuorumHandler(voters.as_client(), 1, lambda: NOW_MS).describe(ASK))


def test_the_active_controllers_description_is_passed_on() -> None:
    description = QuorumDescription(leader_id=2, leader_epoch=7, high_watermark=90)
    assert describe(FakeControllers(describe_quorum=description)) == description


@pytest.mark.parametrize("takes_s", [0.0, 5.0], ids=["refused", "silent"])
def test_without_an_active_controller_the_answer_has_what_the_voters_know(takes_s: float) -> None:
    voters = Voters({1: FOLLOWER, 2: None, 3: None})
    voters.takes_s = takes_s
    answer = describe(voters)
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (ErrorCode.NOT_CONTROLLER, -1, 7)
    assert [voter.unreachable for voter in answer.voters] == [False, True, True]
    assert answer.voters[2].last_fetch_timestamp_ms == NOW_MS - 500
    assert "node 1 reaches 1 of 3 voters" in answer.error_message


def test_an_election_among_a_majority_is_waited_for() -> None:
    elected = QuorumDescription(leader_id=2, leader_epoch=8, high_watermark=90)
    voters = Voters({1: FOLLOWER, 2: FOLLOWER, 3: None}, elected)
    voters.takes_s = 0.6
    assert describe(voters) == elected


def test_a_leader_that_was_elected_meanwhile_answers() -> None:
    elected = QuorumDescription(leader_id=2, leader_epoch=8, high_watermark=90)
    assert describe(Voters({1: FOLLOWER, 2: elected, 3: None})) == elected
