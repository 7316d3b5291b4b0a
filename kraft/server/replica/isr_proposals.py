"""Sends the ISRs that this broker's leaders propose to the controller, and returns its responses to them.

Each partition has one attempt at a time: a new proposal cancels the earlier one.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from kraft.model.alter_partition import AlterPartitionRequest, AlterPartitionResult
from kraft.model.callbacks import Fatal
from kraft.model.errors import ErrorCode, Refusal
from kraft.replication.effects import ProposeIsr
from kraft.rpc.cluster_calls import ALTER_PARTITION
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.own_registration import OwnRegistration
from kraft.server.loop import background
from kraft.server.replica.partition import Partition

log = structlog.get_logger()

ATTEMPT_MAX_S: Final = 3.0


class IsrProposals:
    def __init__(self, registration: OwnRegistration, controllers: ControllerClient, fatal: Fatal) -> None:
        self._registration = registration
        self._controllers = controllers
        self._fatal = fatal
        self._under_way: dict[Partition, asyncio.Task[None]] = {}

    def propose(self, partition: Partition, proposal: ProposeIsr) -> None:
        earlier = self._under_way.pop(partition, None)
        if earlier is not None:
            earlier.cancel()
        task = background.start(
            self._send(partition, proposal), f"ISR proposal of {partition.topic_partition}", self._fatal
        )
        self._under_way[partition] = task
        task.add_done_callback(lambda done: self._forget(partition, done))

    async def close(self) -> None:
        await background.cancelled(self._under_way.values())

    def _forget(self, partition: Partition, task: asyncio.Task[None]) -> None:
        if self._under_way.get(partition) is task:
            del self._under_way[partition]

    async def _send(self, partition: Partition, proposal: ProposeIsr) -> None:
        request = AlterPartitionRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=self._registration.broker_epoch,
            topic_id=partition.topic_id,
            partition=partition.topic_partition.partition,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            new_isr=list(proposal.isr),
        )
        name, proposed = str(partition.topic_partition), [member.broker_id for member in proposal.isr]
        try:
            result = await self._controllers.call(ALTER_PARTITION, request, ATTEMPT_MAX_S)
        except (NoController, Refusal) as error:
            log.info("isr change unanswered", partition=name, proposed=proposed, reason=str(error))
            result = AlterPartitionResult(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=str(error))
        else:
            if result.error_code is ErrorCode.NONE:
                log.info("isr changed", partition=name, isr=list(result.isr))
            else:
                reason = f"{result.error_code.name}: {result.error_message}"
                log.info("isr change refused", partition=name, proposed=proposed, reason=reason)
        partition.alter_partition_answered(proposal, result)
