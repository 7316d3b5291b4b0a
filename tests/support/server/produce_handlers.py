"""The handler of produce requests as on a broker, whose coordinator of transactions is away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.server.handlers.awaited_replicas import AwaitedReplicasHandler
from kraft.server.handlers.produce import ProduceHandler
from kraft.server.handlers.produce_verification import ProduceVerification
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.waiting_appends import WaitingAppends


def produce_handler(
    partitions: Partitions, waiting: WaitingAppends | None = None, awaited: AwaitedReplicasHandler | None = None
) -> ProduceHandler:
    return ProduceHandler(
        partitions,
        waiting or WaitingAppends(),
        ProduceVerification(partitions, _verified_by_nobody, is_enabled=True),
        awaited or AwaitedReplicasHandler(partitions),
    )


async def _verified_by_nobody(
    transactional_id: str, producer_id: int, epoch: int, partitions: Sequence[TopicPartition], *, adds: bool
) -> Mapping[TopicPartition, Refusal]:
    problem = f"the coordinator of {transactional_id} is away"
    return {partition: Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, problem) for partition in partitions}
