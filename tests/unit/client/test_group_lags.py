"""Lags of groups, put together from the answers of all brokers."""

from __future__ import annotations

from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.client.aio.group_admin import describe_group_lags
from kraft.client.cluster.any_broker import PartMissing
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.group_lags import DescribeGroupLagsResponse, GroupLag
from kraft.rpc.peers import Unreachable
from kraft.server.handlers.group_lags import group_lag, refused_group

ELSEWHERE = refused_group("billing", Refusal(ErrorCode.NOT_COORDINATOR, "this broker does not lead it"))


DOWN = Unreachable("broker-2:9094", "broker 2 does not answer")


def admin(*answers: list[GroupLag] | KraftError) -> Any:
    async def outcome_of_each_broker(*_: object, **__: object) -> dict[int, DescribeGroupLagsResponse | KraftError]:
        return {
            number: each if isinstance(each, KraftError) else DescribeGroupLagsResponse(groups=each)
            for number, each in enumerate(answers)
        }

    async def watched(call: Awaitable[Any], _: int | None) -> Any:
        return await call

    return SimpleNamespace(calls=SimpleNamespace(outcome_of_each_broker=outcome_of_each_broker, watched=watched))


HERE = refused_group("billing", Refusal(ErrorCode.NOT_COORDINATOR, "this broker does not lead it"))


HERE = group_lag("billing", [])


@pytest.mark.parametrize("answers", [([ELSEWHERE], [HERE]), ([HERE], [ELSEWHERE])])
async def test_only_the_coordinator_counts(answers: tuple[list[GroupLag], ...]) -> None:
    assert await describe_group_lags(admin(*answers), ["billing"]) == [group_lag("billing", [])]


async def test_a_named_group_that_no_broker_coordinates_is_told() -> None:
    """Its coordinator may be down, and then nobody says anything of it."""
    (found,) = await describe_group_lags(admin([ELSEWHERE], [ELSEWHERE]), ["billing"])
    assert (found.group_id, found.error_code) == ("billing", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert await describe_group_lags(admin([], [])) == []


async def test_a_broker_that_is_down_is_an_error_of_the_groups_that_it_may_coordinate() -> None:
    assert await describe_group_lags(admin([HERE], DOWN), ["billing"]) == [HERE]
    (found,) = await describe_group_lags(admin([ELSEWHERE], DOWN), ["billing"])
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert found.error_message.endswith(": broker 2 does not answer; it may coordinate the group")


async def test_all_groups_are_told_of_by_all_brokers_or_by_none() -> None:
    with pytest.raises(Unreachable, match="broker 2") as caught:
        await describe_group_lags(admin([HERE], DOWN))
    assert isinstance(caught.value, PartMissing)
    assert caught.value.found == [HERE]
    assert str(caught.value) == f"{DOWN}: the groups that it coordinates are missing"
    with pytest.raises(Unreachable, match="broker 2"):
        await describe_group_lags(admin(DOWN, DOWN), ["billing"])
    refusal = Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed")
    with pytest.raises(Refusal, match="not allowed"):
        await describe_group_lags(admin([HERE], refusal))
