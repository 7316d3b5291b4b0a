"""Lags of groups, put together from the answers of all brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraft.client.aio.group_admin import describe_group_lags
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.group_lags import DescribeGroupLagsResponse, GroupLag
from kraft.server.handlers.group_lags import group_lag, refused_group

ELSEWHERE = refused_group("billing", Refusal(ErrorCode.NOT_COORDINATOR, "this broker does not lead it"))


def admin(*answers: list[GroupLag]) -> Any:
    async def of_each_broker(*_: object) -> dict[int, DescribeGroupLagsResponse]:
        return {number: DescribeGroupLagsResponse(groups=each) for number, each in enumerate(answers)}

    return SimpleNamespace(calls=SimpleNamespace(of_each_broker=of_each_broker))


HERE = group_lag("billing", [])


@pytest.mark.parametrize("answers", [([ELSEWHERE], [HERE]), ([HERE], [ELSEWHERE])])
async def test_only_the_coordinator_counts(answers: tuple[list[GroupLag], ...]) -> None:
    assert await describe_group_lags(admin(*answers), ["billing"]) == [group_lag("billing", [])]


async def test_a_named_group_that_no_broker_coordinates_is_told() -> None:
    """Its coordinator may be down, and then nobody says anything of it."""
    (found,) = await describe_group_lags(admin([ELSEWHERE], [ELSEWHERE]), ["billing"])
    assert (found.group_id, found.error_code) == ("billing", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert await describe_group_lags(admin([], [])) == []
