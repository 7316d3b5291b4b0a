"""Elections: preferred leaders, and an unclean leader of a partition that has none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import ElectionType, ErrorCode, Refusal, TopicPartition
from kraft.console.asking import CHANGE_CLIENT_MS, CLIENT_MS, Asked, Paged, Panel, Wanted, wanted, with_rows
from kraft.console.forms import Changed, Done, WrongInput
from kraft.console.pages.plan import matching
from kraft.console.pages.topic_figures import Partition, leader_of
from kraft.model.printable import counted, printable
from kraft.model.throttled_replicas import REPLICA_LISTS
from kraft.moves.progress import Held, held_by
from kraft.moves.starting import refusals_in_words

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponsePartition

_PARTITION: Final = re.compile(r"(.{1,249})-(\d{1,9})", re.ASCII)


class ElectionRow(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    leader: int | None
    preferred: int
    in_sync: list[int]
    can_lead: bool
    """Whether the preferred leader is in sync, and so would be elected."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class Leaders(Struct, frozen=True, kw_only=True):
    partitions: int
    not_preferred: Paged[ElectionRow]
    without_leader: list[ElectionRow]
    """The first of them."""

    leaderless: int


class Elections(Struct, frozen=True, kw_only=True):
    leaders: Panel[Leaders]

    @property
    def status(self) -> int:
        return self.leaders.status


async def elections(asked: Asked) -> Elections:
    shown = wanted(asked.query, ("name",))
    return Elections(leaders=await asked.panel(lambda: leaders_of(_all_topics(asked.admin), shown)))


def _all_topics(admin: Admin) -> dict[str, Sequence[Partition]]:
    """Return the partitions of each topic. The metadata of all topics is what brokers have at hand."""
    found = admin.find_topics(timeout_ms=CLIENT_MS)
    states = [state for topic in found.values() for state in topic.partitions]
    if not any(each.error_code == ErrorCode.LISTENER_NOT_FOUND for each in states):
        return {name: found[name].partitions for name in sorted(found)}
    # Metadata names no leader that this client cannot reach; descriptions do.
    described = admin.describe_topics([], config_names=REPLICA_LISTS[:1], timeout_ms=CLIENT_MS)
    return {each.topic: each.metadata.partitions for each in described}


def leaders_of(topics: Mapping[str, Sequence[Partition]], shown: Wanted) -> Leaders:
    """Return the partitions that another than the preferred leader leads, or nobody. Only these become rows."""
    led = [(topic, state, leader_of(state)) for topic, states in topics.items() for state in states]
    other = [
        (topic, state) for topic, state, leader in led if leader is not None and leader not in state.replica_nodes[:1]
    ]
    without = [(topic, state) for topic, state, leader in led if leader is None]
    found = [each for each in other if shown.matches(f"{each[0]}-{each[1].partition_index}")]
    page = shown.shown(found, len(other))
    return Leaders(
        partitions=len(led),
        not_preferred=with_rows(page, [_row(*each) for each in page.rows]),
        without_leader=[_row(*each) for each in without[:_LEADERLESS_MAX]],
        leaderless=len(without),
    )


_LEADERLESS_MAX: Final = 50


def _row(topic: str, state: Partition) -> ElectionRow:
    preferred = state.replica_nodes[0] if state.replica_nodes else -1
    return ElectionRow(
        topic=topic,
        partition=state.partition_index,
        leader=leader_of(state),
        preferred=preferred,
        in_sync=list(state.isr_nodes),
        can_lead=preferred in state.isr_nodes and preferred not in state.offline_replicas,
    )


async def elect_preferred(asked: Asked) -> Done:
    """Elect the preferred leaders of the partitions or topics of the form, or of all."""
    form = asked.form
    names = [_partition(text) for each in form.all("partitions") for text in each.split() if text]
    topics = form.text("topics")
    if not names and not topics and not form.flag("all"):
        raise WrongInput("name partitions or topics, or say that all are meant")

    def make() -> Done:
        with asked.client.elsewhere(asked.cluster.bootstrap_servers, CHANGE_CLIENT_MS) as admin:
            chosen = None if not names and not topics else [*names, *_partitions(admin, topics)]
            outcome = admin.elect_leaders(ElectionType.PREFERRED, chosen)
        return Done(
            where=f"/clusters/{asked.cluster.name}/moves/elections", said=said_of(outcome), value=_as_json(outcome)
        )

    return await asked.change(make)


def _partitions(admin: Admin, topics: str) -> list[TopicPartition]:
    if not topics:
        return []
    names = matching(topics, sorted(admin.list_topics()))
    return [
        TopicPartition(each.topic, state.partition_index)
        for each in admin.describe_topics(names, config_names=REPLICA_LISTS[:1])
        for state in each.metadata.partitions
    ]


def said_of(outcome: Mapping[TopicPartition, Refusal | None]) -> str:
    """Return what became of an election; raise the Refusal if every one of them failed."""
    refused = {each: refusal for each, refusal in outcome.items() if refusal is not None}
    failed = {
        each: refusal for each, refusal in refused.items() if refusal.error_code is not ErrorCode.ELECTION_NOT_NEEDED
    }
    elected, unneeded = len(outcome) - len(refused), len(refused) - len(failed)
    if failed and not elected:
        raise Refusal(next(iter(failed.values())).error_code, f"no leader was elected: {refusals_in_words(failed)}")
    if not elected:
        return "No partition needs an election: the preferred leaders lead."
    said = f"{counted(elected, 'leader was', 'leaders were')} elected"
    said += f"; {counted(unneeded, 'partition')} needed none" if unneeded else ""
    said += f"; {counted(len(failed), 'election')} failed: {refusals_in_words(failed)}" if failed else ""
    return said + "."


def _as_json(outcome: Mapping[TopicPartition, Refusal | None]) -> list[dict[str, object]]:
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "elected": refusal is None,
            "error": None if refusal is None else refusal.error_code.name,
        }
        for each, refusal in sorted(outcome.items())
    ]


def _partition(text: str) -> TopicPartition:
    found = _PARTITION.fullmatch(text)
    if found is None:
        raise WrongInput(f"{printable(text[:60])!r} names no partition: write TOPIC-PARTITION, such as orders-0")
    return TopicPartition(found[1], int(found[2]))


# --- unclean -----------------------------------------------------------------------------------------------------


class Candidate(Struct, frozen=True, kw_only=True):
    """A replica that could lead, or could not; None: not known, as its broker is not there."""

    broker: int
    in_service: bool
    was_in_sync: bool
    size_bytes: int | None
    behind: int | None


class UncleanFacts(Struct, frozen=True, kw_only=True):
    name: str
    topic: str
    partition: int
    leader: int | None
    candidates: list[Candidate]
    holders: list[int]
    """Brokers that hold all committed records, and are away."""

    @property
    def can_be_elected(self) -> bool:
        return self.leader is None and any(each.in_service for each in self.candidates)

    @property
    def lost_at_least(self) -> int:
        """Return how many records are lost for certain, as far as the replicas that are there know."""
        known = [each.behind for each in self.candidates if each.in_service and each.behind is not None]
        return min(known, default=0)


class Unclean(Struct, frozen=True, kw_only=True):
    facts: Panel[UncleanFacts]

    @property
    def status(self) -> int:
        return self.facts.status


async def unclean(asked: Asked) -> Unclean:
    text = asked.form.text("which")
    return Unclean(facts=await asked.panel(lambda: _unclean(asked.admin, text)))


def _unclean(admin: Admin, text: str) -> UncleanFacts:
    partition = _partition(text)
    described = admin.describe_topics([partition.topic], timeout_ms=CLIENT_MS)[0]
    state = next((each for each in described.metadata.partitions if each.partition_index == partition.partition), None)
    if state is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
    in_service = [each.broker_id for each in admin.describe_brokers(timeout_ms=CLIENT_MS) if not each.fenced]
    outcomes = admin.describe_log_directories(partitions=[partition], timeout_ms=CLIENT_MS)
    return unclean_facts(partition, state, in_service, held_by(outcomes).get(partition, {}))


def unclean_facts(
    partition: TopicPartition,
    state: DescribeTopicPartitionsResponsePartition,
    in_service: Sequence[int],
    held: Mapping[int, Held],
) -> UncleanFacts:
    row = _row(partition.topic, state)
    holders = {*state.isr_nodes, *(state.eligible_leader_replicas or ())}
    candidates = [
        Candidate(
            broker=each,
            in_service=each in in_service and each in held,
            was_in_sync=each in holders,
            size_bytes=held[each].size_bytes if each in held else None,
            behind=held[each].behind if each in held else None,
        )
        for each in state.replica_nodes
    ]
    return UncleanFacts(
        name=str(partition),
        topic=partition.topic,
        partition=partition.partition,
        leader=row.leader,
        candidates=candidates,
        holders=sorted(holders.difference(in_service)),
    )


async def elect_unclean(asked: Asked) -> Done:
    """Elect a leader that may lack records, once its name was typed."""
    partition = _partition(asked.form.text("which"))
    if asked.form.text("confirm") != str(partition):
        raise WrongInput(f"confirm: type {partition}, the name of the partition, as records may be lost")

    def make() -> Done:
        with asked.client.elsewhere(asked.cluster.bootstrap_servers, CHANGE_CLIENT_MS) as admin:
            outcome = admin.elect_leaders(ElectionType.UNCLEAN, [partition])
        refusal = outcome.get(partition)
        if refusal is not None and refusal.error_code is ErrorCode.ELECTION_NOT_NEEDED:
            raise Changed(f"{partition} has a leader by now: nothing was done, and nothing is lost")
        if refusal is not None:
            raise refusal
        return Done(
            where=f"/clusters/{asked.cluster.name}/moves/elections",
            said=f"{partition} has a leader again. Records that it did not hold are lost.",
            value=_as_json(outcome),
        )

    return await asked.change(make)
