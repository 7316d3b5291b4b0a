"""Brokers with their log directories."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kraft.client import BrokerDescription, ErrorCode, KraftError
from kraft.console.asking import CLIENT_MS, Asked, Panel
from kraft.health.facts import PROBE_MS
from kraft.health.silence import why_silent
from kraft.model.printable import printable
from kraft.moves.skew import is_skewed, skews

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

    skew: int = 0
    """By how many percent its logs are above the mean of all directories, or below it."""


class Broker(Struct, frozen=True, kw_only=True):
    broker_id: int
    addresses: list[str]
    rack: str
    state: str
    leaders: int
    replicas: int
    in_sync: int
    leaders_skew: int = 0
    """By how many percent it is above the mean of all brokers, or below it."""

    replicas_skew: int = 0
    is_leader_skewed: bool = False
    """Whether it has more than its share, rounded up."""

    is_skewed: bool = False


class DirectoriesOfBroker(Struct, frozen=True, kw_only=True):
    broker_id: int
    problem: str
    directories: list[Directory]
    size_bytes: int = 0
    skew: int = 0
    """By how many percent its logs are above the mean of the brokers that answered, or below it."""


class Brokers(Struct, frozen=True, kw_only=True):
    brokers: Panel[list[Broker]]
    directories: Panel[list[DirectoriesOfBroker]]

    @property
    def status(self) -> int:
        return self.brokers.status


async def brokers(asked: Asked) -> Brokers:
    described, directories = await asyncio.gather(
        asked.panel(lambda: brokers_of(asked.admin.describe_brokers(timeout_ms=CLIENT_MS))),
        asked.panel(lambda: directories_of(asked.let_in(asked.admin.describe_log_directories(timeout_ms=PROBE_MS)))),
    )
    return Brokers(brokers=described, directories=directories)


def brokers_of(described: Sequence[BrokerDescription]) -> list[Broker]:
    leaders = {each.broker_id: each.leaders for each in described}
    replicas = {each.broker_id: each.replicas for each in described}
    leaders_skews, replicas_skews = skews(leaders), skews(replicas)
    return [
        replace(
            broker_of(each),
            leaders_skew=leaders_skews[each.broker_id],
            replicas_skew=replicas_skews[each.broker_id],
            is_leader_skewed=is_skewed(each.leaders, sum(leaders.values()), len(leaders)),
            is_skewed=is_skewed(each.replicas, sum(replicas.values()), len(replicas)),
        )
        for each in described
    ]


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
    found = [
        DirectoriesOfBroker(
            broker_id=broker_id,
            problem=f"broker {broker_id} did not answer: {printable(why_silent(outcome))}"
            if isinstance(outcome, KraftError)
            else "",
            directories=[] if isinstance(outcome, KraftError) else list(map(directory_of, outcome)),
        )
        for broker_id, outcome in sorted(outcomes.items())
    ]
    of_brokers = {each.broker_id: sum(one.size_bytes for one in each.directories) for each in found if not each.problem}
    of_directories = {
        (each.broker_id, one.path): one.size_bytes for each in found for one in each.directories if not one.problem
    }
    broker_skews, directory_skews = skews(of_brokers), skews(of_directories)
    return [
        replace(
            each,
            size_bytes=of_brokers.get(each.broker_id, 0),
            skew=broker_skews.get(each.broker_id, 0),
            directories=[
                replace(one, skew=directory_skews.get((each.broker_id, one.path), 0)) for one in each.directories
            ],
        )
        for each in found
    ]


def directory_of(result: DescribeLogDirsResult) -> Directory:
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
