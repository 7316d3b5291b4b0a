"""One broker: what it holds and leads, whether it may be restarted, and moves between its log directories."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import ErrorCode, KraftError, Refusal, TopicPartition, TopicPartitionReplica
from kraft.console.asking import CHANGE_CLIENT_MS, Asked, Paged, Panel, Wanted, wanted
from kraft.console.forms import Changed, Done, WrongInput
from kraft.console.pages.brokers import Broker, Directory, broker_of, directory_of
from kraft.console.pages.overview import NodeRestart, known_facts, restart_of
from kraft.console.pages.plan import bytes_per_second
from kraft.health.facts import PROBE_MS
from kraft.model.printable import counted, printable
from kraft.moves.directory_moves import DirectoryMoveFailed, check_directories
from kraft.moves.planned import MOVES_MAX, named_partitions
from kraft.moves.progress import Held, replicas_in
from kraft.moves.throttles import DIRECTORIES_RATE, limit_brokers

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.health.findings import ClusterFacts
    from kraft.health.partitions import Shown
    from kraft.wire.schema.describe_log_dirs import DescribeLogDirsResult

SORTS: Final = ("name", "state")


class ReplicaRow(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    leads: bool
    preferred: bool
    """Whether it is the preferred leader."""

    in_sync: bool
    others_in_sync: int
    moving: bool

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class BrokerFacts(Struct, frozen=True, kw_only=True):
    broker: Broker
    restart: NodeRestart
    is_controller: bool
    is_active_controller: bool
    only_in_sync: int
    """Partitions of which no other replica is in sync: they have no leader without this broker."""

    below_minimum: int
    """Partitions that have fewer replicas in sync than min.insync.replicas without it."""

    replicas: Paged[ReplicaRow]


class Place(Struct, frozen=True, kw_only=True):
    """Where a replica is, and where it is being copied to; `percent` is by size."""

    log_dir: str
    size_bytes: int
    behind: int
    future: str = ""
    percent: int = 0


class Places(Struct, frozen=True, kw_only=True):
    directories: list[Directory]
    by_partition: dict[str, Place]
    """Of the replicas that are shown, and of those that move between directories."""


class OneBroker(Struct, frozen=True, kw_only=True):
    facts: Panel[BrokerFacts]
    places: Panel[Places]

    @property
    def status(self) -> int:
        return self.facts.status


async def broker(asked: Asked) -> OneBroker:
    broker_id, shown = _id(asked), wanted(asked.query, SORTS)

    def facts() -> BrokerFacts:
        if broker_id is None:
            raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {_name(asked)}")
        return facts_of(known_facts(asked).facts, broker_id, shown)

    described, places = await asyncio.gather(
        asked.panel(facts), asked.panel(lambda: _places(asked.admin, -1 if broker_id is None else broker_id))
    )
    return OneBroker(facts=described, places=_of_shown(described.value, places))


def _of_shown(described: BrokerFacts | None, places: Panel[Places]) -> Panel[Places]:
    """Return the places without those of the replicas that are not shown and do not move."""
    if places.value is None:
        return places
    shown = set() if described is None else {each.name for each in described.replicas.rows}
    kept = {name: each for name, each in places.value.by_partition.items() if each.future or name in shown}
    return Panel(value=Places(directories=places.value.directories, by_partition=kept))


def _id(asked: Asked) -> int | None:
    text = asked.path["broker"]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _name(asked: Asked) -> str:
    return printable(asked.path["broker"][:40])


def facts_of(facts: ClusterFacts, broker_id: int, shown: Wanted) -> BrokerFacts:
    """Return what the facts say of one broker. Raises the Refusal for a broker that is not registered."""
    described = next((each for each in facts.brokers if each.broker_id == broker_id), None)
    if described is None:
        raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {broker_id}")
    held = [each for each in facts.partitions if broker_id in each.partition.replica_nodes]
    rows = [_row(each, broker_id) for each in held]
    found = [each for each in rows if shown.matches(each.name)]
    by_state = shown.sort == "state"
    return BrokerFacts(
        broker=broker_of(described),
        restart=restart_of(facts, broker_id),
        is_controller=any(each.node_id == broker_id for each in facts.quorum.voters),
        is_active_controller=facts.active_controller == broker_id,
        only_in_sync=sum(each.in_sync and not each.others_in_sync for each in rows),
        below_minimum=sum(
            each.in_sync and each.others_in_sync < one.min_insync_replicas for each, one in zip(rows, held, strict=True)
        ),
        replicas=shown.shown(
            found, len(rows), lambda each: (each.in_sync if by_state else True, each.topic, each.partition)
        ),
    )


def _row(shown: Shown, broker_id: int) -> ReplicaRow:
    state = shown.partition
    return ReplicaRow(
        topic=shown.topic,
        partition=state.partition_index,
        leads=state.leader_id == broker_id and broker_id not in state.offline_replicas,
        preferred=state.replica_nodes[0] == broker_id,
        in_sync=broker_id in state.isr_nodes,
        others_in_sync=len(set(state.isr_nodes) - {broker_id}),
        moving=shown.reassignment is not None,
    )


def _places(admin: Admin, broker_id: int) -> Places:
    outcomes = admin.describe_log_directories(broker_ids=[broker_id], timeout_ms=PROBE_MS)
    outcome = outcomes.get(broker_id)
    if outcome is None:
        raise Refusal(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in service")
    if isinstance(outcome, KraftError):
        raise outcome
    return places_of(broker_id, outcome)


def places_of(broker_id: int, outcome: Sequence[DescribeLogDirsResult]) -> Places:
    current: dict[TopicPartition, Held] = {}
    future: dict[TopicPartition, Held] = {}
    for _, partition, held in replicas_in({broker_id: outcome}):
        (future if held.is_future else current)[partition] = held
    return Places(
        directories=list(map(directory_of, outcome)),
        by_partition={str(each): _place(held, future.get(each)) for each, held in current.items()},
    )


def _place(held: Held, future: Held | None) -> Place:
    if future is None:
        return Place(log_dir=held.log_dir, size_bytes=held.size_bytes, behind=held.behind)
    percent = min(99, future.size_bytes * 100 // held.size_bytes) if held.size_bytes else 99
    return Place(
        log_dir=held.log_dir, size_bytes=held.size_bytes, behind=held.behind, future=future.log_dir, percent=percent
    )


# --- moves between directories -----------------------------------------------------------------------------------


async def move_directories(asked: Asked) -> Done:
    """Move replicas of the broker to another of its log directories."""
    broker_id = _id(asked)
    if broker_id is None:
        raise WrongInput(f"there is no broker {_name(asked)}")
    text, directory = " ".join(asked.form.all("partitions")), asked.form.text("directory")
    if not text.strip() or not directory:
        raise WrongInput("choose replicas, and the directory that they shall be in")
    rate = bytes_per_second(asked.form.text("throttle"))

    def make() -> Done:
        with asked.client.elsewhere(asked.cluster.bootstrap_servers, CHANGE_CLIENT_MS) as admin:
            outcome = _moved(admin, broker_id, text, directory, rate)
        return Done(where=f"/clusters/{asked.cluster.name}/brokers/{broker_id}", said=said_of(outcome, directory))

    return await asked.change(make)


def _moved(
    admin: Admin, broker_id: int, text: str, directory: str, rate: int | None
) -> Mapping[TopicPartitionReplica, KraftError | None]:
    held = [TopicPartition(each, number) for each, number in _held(admin, broker_id)]
    names = named_partitions(text, held)[:MOVES_MAX]
    if not names:
        raise Changed(f"broker {broker_id} holds none of these replicas any more")
    wanted = {TopicPartitionReplica(each.topic, each.partition, broker_id): directory for each in names}
    try:
        check_directories(admin, wanted)
    except DirectoryMoveFailed as error:
        raise WrongInput(str(error)) from None
    if rate is not None:
        # Before the moves: none may run faster, even if this process dies here.
        limit_brokers(admin, [broker_id], [DIRECTORIES_RATE], rate)
    return admin.alter_replica_log_directories(wanted)


def _held(admin: Admin, broker_id: int) -> list[tuple[str, int]]:
    outcome = admin.describe_log_directories(broker_ids=[broker_id]).get(broker_id)
    if outcome is None:
        raise Refusal(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in service")
    if isinstance(outcome, KraftError):
        raise outcome
    return [(each.name, one.partition_index) for of in outcome for each in of.topics for one in each.partitions]


def said_of(outcome: Mapping[TopicPartitionReplica, KraftError | None], directory: str) -> str:
    """Return what became of the moves; raise the error if every one of them failed."""
    failed = {each: error for each, error in outcome.items() if error is not None}
    if failed and len(failed) == len(outcome):
        raise next(iter(failed.values()))
    said = f"{counted(len(outcome) - len(failed), 'replica')} moved to {directory}, or on the way"
    return said + (f"; refused: {'; '.join(map(str, list(failed.values())[:3]))}" if failed else "") + "."
