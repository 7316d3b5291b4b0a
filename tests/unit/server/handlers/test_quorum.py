from __future__ import annotations

import asyncio

from kraft.model.describe_quorum import DescribeQuorumRequest, QuorumDescription
from kraft.model.errors import ErrorCode
from kraft.server.cluster.controller_client import NoController
from kraft.server.handlers.quorum import QuorumHandler
from tests.support.server.fake_controllers import FakeControllers

ASK = DescribeQuorumRequest()


def test_the_active_controllers_description_is_passed_on() -> None:
    description = QuorumDescription(leader_id=2, leader_epoch=7, high_watermark=90)
    answer = asyncio.run(QuorumHandler(FakeControllers(describe_quorum=description).as_client()).describe(ASK))
    assert answer == description


def test_without_an_active_controller_the_answer_says_why() -> None:
    nobody = NoController("no controller is active: connection refused")
    answer = asyncio.run(QuorumHandler(FakeControllers(describe_quorum=nobody).as_client()).describe(ASK))
    assert (answer.error_code, answer.leader_id) == (ErrorCode.NOT_CONTROLLER, -1)
    assert "connection refused" in answer.error_message
