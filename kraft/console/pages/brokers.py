"""Brokers with their log directories."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kraft.client import BrokerDescription, ErrorCode, KraftError
from kraft.console.asking import CLIENT_MS, Asked, Panel
from kraft.health.facts import PROBE_MS
from kraft.health.silence import why_silent
from kraft.model.printable import printable

if TYPE_CHECKING:
    from kraft.wire.schema.describe_log_dirs import DescribeLogDirsResult


class Directory(Struct, frozen=True, kw_only=True):
    path: str
    problem: str
    replicas: int
    size_bytes: int
    """Of the replicas' logs."""

    total_bytes: int
    usable_bytes: int
    """-1: not known."""


class Broker(Struct, frozen=True, kw_only=True):
    broker_id: int
    addresses: list[str]
    rack: str
    state: str
    leaders: int
    replicas: int
    in_sync: int


class DirectoriesOfBroker(Struct, frozen=True, kw_only=True):
    broker_id: int
    problem: str
    directories: list[Directory]


class Brokers(Struct, frozen=True, kw_only=True):
    brokers: Panel[list[Broker]]
    directories: Panel[list[DirectoriesOfBroker]]

    @property
    def status(self) -> int:
        return self.brokers.status


async def brokers(asked: Asked) -> Brokers:
    described, directories = await asyncio.gather(
        asked.panel(lambda: list(map(broker_of, asked.admin.describe_brokers(timeout_ms=CLIENT_MS)))),
        asked.panel(lambda: directories_of(asked.admin.describe_log_directories(timeout_ms=PROBE_MS))),
    )
    return Brokers(brokers=described, directories=directories)


def broker_of(broker: BrokerDescription) -> Broker:
    return Broker(
        broker_id=broker.broker_id,
        addresses=[str(each) for each in broker.addresses],
        rack=broker.rack,
        state=_state(broker),
        leaders=broker.leaders,
        replicas=broker.replicas,
        in_sync=broker.in_sync,
    )


def _state(broker: BrokerDescription) -> str:
    if broker.fenced_by_operator:
        return "fenced by an operator"
    if broker.fenced:
        return "not in service"
    return "shutting down" if broker.in_controlled_shutdown else "in service"


def directories_of(
    outcomes: Mapping[int, Sequence[DescribeLogDirsResult] | KraftError],
) -> list[DirectoriesOfBroker]:
    return [
        DirectoriesOfBroker(
            broker_id=broker_id,
            problem=f"broker {broker_id} did not answer: {printable(why_silent(outcome))}"
            if isinstance(outcome, KraftError)
            else "",
            directories=[] if isinstance(outcome, KraftError) else list(map(_directory, outcome)),
        )
        for broker_id, outcome in sorted(outcomes.items())
    ]


def _directory(result: DescribeLogDirsResult) -> Directory:
    replicas = [each for topic in result.topics for each in topic.partitions]
    problem = result.reason or ("" if result.error_code == ErrorCode.NONE else ErrorCode(result.error_code).name)
    return Directory(
        path=result.log_dir,
        problem=problem,
        replicas=len(replicas),
        size_bytes=sum(each.partition_size for each in replicas),
        total_bytes=result.total_bytes,
        usable_bytes=result.usable_bytes,
    )
