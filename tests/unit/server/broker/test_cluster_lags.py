"""Groups of the whole cluster, by what its brokers answer."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kraft.metadata.image import MetadataImage
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.group_lags import DescribeGroupLagsRequest, DescribeGroupLagsResponse, GroupLag, PartitionLag
from kraft.model.ids import BrokerId
from kraft.rpc.peers import Unreachable
from kraft.server.broker.cluster_lags import ClusterLags
from kraft.server.broker.cluster_log_ends import ClusterLogEnds
from kraft.server.broker.other_brokers import OtherBrokers
from kraft.server.handlers.group_lags import GroupLagsHandler, group_lag
from tests.support.cluster_images import cluster, with_isr, with_topic
from tests.support.server.group_broker import OFFSETS

IMAGE = with_topic(with_topic(cluster(1, 2), [1], [1], [1]), [2], topic=OFFSETS_TOPIC, topic_id=OFFSETS)
DOWN = Unreachable("b2:9094", "no answer")


def reads(topic: str) -> PartitionLag:
    return PartitionLag(
        topic=topic,
        partition=0,
        state="OK",
        committed_offset=0,
        lag=0,
        behind_ms=0,
        is_at_least=False,
        completeness=1,
        commits=[],
    )


class Asked:
    """A broker with groups, or one that does not answer."""

    def __init__(self, answer: list[GroupLag] | Exception) -> None:
        self._answer = answer

    async def handle(self, request: DescribeGroupLagsRequest) -> DescribeGroupLagsResponse:
        if isinstance(self._answer, Exception):
            raise self._answer
        return DescribeGroupLagsResponse(groups=self._answer)

    async def call(self, _: object, request: DescribeGroupLagsRequest, __: float) -> DescribeGroupLagsResponse:
        return await self.handle(request)


def lags(here: Asked, there: Asked, image: MetadataImage = IMAGE) -> ClusterLags:
    class Others:
        def peer(self, broker_id: BrokerId) -> Any:
            assert broker_id == 2
            return there

    others, handler = cast(OtherBrokers, Others()), cast(GroupLagsHandler, here)
    return ClusterLags(BrokerId(1), lambda: image, others, handler, cast(ClusterLogEnds, None))


AUDIT, BILLING = group_lag("audit", []), group_lag("billing", [reads("orders"), reads("deleted")])


async def test_the_groups_of_all_brokers_are_one_list() -> None:
    assert await lags(Asked([BILLING]), Asked([AUDIT])).of_all() == [AUDIT, BILLING]


async def test_without_the_groups_of_one_broker_there_is_no_list() -> None:
    with pytest.raises(Unreachable, match="b2"):
        await lags(Asked([BILLING]), Asked(DOWN)).of_all()


async def test_a_group_is_asked_of_its_coordinator() -> None:
    assert await lags(Asked([]), Asked([BILLING])).of_group("billing") == BILLING


@pytest.mark.parametrize(
    "image",
    [cluster(1, 2), with_isr(with_topic(cluster(1, 2), [2], topic=OFFSETS_TOPIC), 2, leader=1)],
    ids=["no groups yet", "led by a broker that is no replica any more"],
)
async def test_of_a_group_without_a_coordinator_nothing_is_known(image: MetadataImage) -> None:
    found = await lags(Asked([BILLING]), Asked([BILLING]), image).of_group("billing")
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert found.error_message == f"{OFFSETS_TOPIC} has no leader for the group"


@pytest.mark.parametrize("error", [DOWN, Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is loading")])
async def test_of_a_group_whose_coordinator_does_not_answer_nothing_is_known(error: Exception) -> None:
    found = await lags(Asked([]), Asked(error)).of_group("billing")
    assert (found.error_code, found.state) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert found.error_message == f"broker 2: {error}"


def test_topics_that_exist_have_a_count_of_partitions() -> None:
    assert lags(Asked([]), Asked([])).partition_counts(BILLING) == {"orders": 3}
