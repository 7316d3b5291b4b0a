from __future__ import annotations

import pytest

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.timers import SessionTimer
from kraft.coordinator.consumer.requests import SessionTimeout
from kraft.coordinator.groups.queries import describe_classic
from kraft.coordinator.groups.timers import OffsetExpiryTimer
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.heartbeat import HeartbeatResponse
from tests.unit.coordinator.groups.coordinator import GROUP, SESSION_MS, Coordinator


def test_after_a_load_members_go_on_where_they_were() -> None:
    shard = Coordinator()
    classic = shard.stable("classic")
    shard.join_consumer(group_id="consumer")
    shard.load()
    assert shard.timers.keys() == {
        SessionTimer("classic", classic),
        SessionTimeout("consumer", "m"),
        OffsetExpiryTimer(),
    }
    assert isinstance(shard.classic_heartbeat(classic, "classic"), HeartbeatResponse)
    assert shard.commit(group_id="classic", member_id=classic, generation=1) is ErrorCode.NONE
    assert shard.commit(group_id="consumer", member_id="m", generation=2) is ErrorCode.NONE


def test_after_a_load_members_have_a_whole_session() -> None:
    shard = Coordinator()
    shard.stable()
    shard.advance(SESSION_MS - 1)
    shard.load()
    shard.advance(SESSION_MS - 1)
    assert describe_classic(shard.groups, shard.volatile, GROUP).group_state == ClassicGroupState.STABLE.value
    shard.advance(1)
    assert describe_classic(shard.groups, shard.volatile, GROUP).group_state != ClassicGroupState.STABLE.value


def test_what_was_not_recorded_is_forgotten() -> None:
    shard = Coordinator()
    shard.join()
    shard.load()
    with pytest.raises(Refusal, match="there is no group"):
        describe_classic(shard.groups, shard.volatile, GROUP)
