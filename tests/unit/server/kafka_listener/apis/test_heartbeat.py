from __future__ import annotations

from kraft.model.classic_groups import Heartbeat, HeartbeatAccepted
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.heartbeat import HeartbeatApi
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.unit.server.kafka_listener.apis.listener import answered


async def test_a_heartbeat_is_accepted_or_refused() -> None:
    async def handle(beat: Heartbeat) -> HeartbeatAccepted:
        assert (beat.group_id, beat.member_id, beat.group_instance_id) == ("g", "m", "static")
        if beat.generation != 3:
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "no")
        return HeartbeatAccepted()

    for generation, code in ((3, 0), (2, 27)):
        request = HeartbeatRequest(group_id="g", generation_id=generation, member_id="m", group_instance_id="static")
        response = await answered(HeartbeatApi(handle), request, 3, HeartbeatResponse)
        assert response.error_code == code
