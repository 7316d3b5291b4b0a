"""What is wrong with a cluster, from facts about it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from kraft.health.partitions import Shown, is_at_min_isr, is_unavailable, is_under_min_isr, is_under_replicated
from kraft.health.quorum_words import warned_of
from kraft.health.silence import why_silent
from kraft.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kraft.model.errors import ErrorCode, KraftError
from kraft.model.groups import MANY_REBALANCES, REBALANCES_WITHIN_MS
from kraft.model.printable import counted
from kraft.model.throttled_replicas import REPLICA_LISTS

if TYPE_CHECKING:
    from kraft.health.hanging import OpenInPartition
    from kraft.model.brokers import BrokerDescription
    from kraft.model.describe_quorum import QuorumDescription, QuorumMember
    from kraft.wire.schema.describe_log_dirs import DescribeLogDirsResult

SLOW_SYNC_MS: Final = 1_000
"""A disk whose syncs take longer is slow: producers with acks=all wait for them."""

LAG_MS_MAX: Final = 10_000
"""A voter that has not held all entries for longer lags."""

NAMES_MAX: Final = 5
"""Names in one sentence; further ones are counted."""


_SAYS_NOTHING: Final = "it accepts connections, but says nothing"
"""How `kraft.rpc.connection_failures` says that a kernel answers for a process that does not run."""

_UNASKED: Final = KraftError("it was not asked")


class Severity(StrEnum):
    CRITICAL = "critical"
    """Something does not work: changes, reads or writes."""

    WARNING = "warning"
    """Everything works, but with less safety than configured."""

    UNKNOWN = "unknown"
    """It could not be found out."""


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that is wrong, or unknown, and what can be done."""

    severity: Severity
    subject: str
    what: str
    remedy: str = ""
    names: list[str] = field(default_factory=list)
    """All partitions or directories that it is about."""


class ExpiringCertificate(Struct, frozen=True, kw_only=True):
    """A certificate that has expired, or will soon. `days_left` is below 0 once it has."""

    whose: str
    expires: str
    days_left: int


class ClusterFacts(Struct, frozen=True, kw_only=True):
    """What could be found out about a cluster. `directories` are those of each broker that should be in service, and
    `fenced` says of the others why they did not answer, None if they did."""

    quorum: QuorumDescription
    brokers: Sequence[BrokerDescription]
    partitions: Sequence[Shown]
    directories: Mapping[int, Sequence[DescribeLogDirsResult] | KraftError]
    fenced: Mapping[int, KraftError | None]
    hanging: Sequence[OpenInPartition]
    rebalances: Mapping[str, int] = {}
    """Rebalances of groups within the last minutes, by group id."""

    certificates: Sequence[ExpiringCertificate] = ()
    hidden: int = 0
    """Replicas of partitions that are not among `partitions`: nobody is told of topics that he may not describe."""

    unknown: Mapping[str, str]
    """Reasons why something could not be found out, by subject."""

    @property
    def active_controller(self) -> int | None:
        """Id of the active controller; None without one: the states of brokers are then the last known ones."""
        return self.quorum.leader_id if self.quorum.leader_id >= 0 else None

    @property
    def in_service(self) -> int | None:
        """Number of brokers in service; None if it is not known."""
        return None if self.active_controller is None else sum(not broker.fenced for broker in self.brokers)


def findings(facts: ClusterFacts) -> list[Finding]:
    """Return what is wrong: critical findings first, otherwise in the order in which causes come before effects."""
    found = [
        *_of_controllers(facts),
        *_of_brokers(facts),
        *_of_directories(facts.directories),
        *_of_partitions(facts),
        *_of_throttles(facts.partitions),
        *_of_hidden(facts.hidden),
        *_of_transactions(facts.hanging),
        *_of_groups(facts.rebalances),
        *_of_certificates(facts.certificates),
        *(Finding(severity=Severity.UNKNOWN, subject=each, what=reason) for each, reason in facts.unknown.items()),
    ]
    order = list(Severity)
    return sorted(found, key=lambda each: order.index(each.severity))


def state_of(found: Iterable[Finding]) -> str:
    """Return `healthy`, `degraded` or `critical`."""
    severities = {each.severity for each in found}
    if Severity.CRITICAL in severities:
        return "critical"
    return "degraded" if severities else "healthy"


def _of_controllers(facts: ClusterFacts) -> Iterator[Finding]:
    quorum = facts.quorum
    if quorum.error_code is ErrorCode.NOT_CONTROLLER:
        what = f"{quorum.error_message}. What follows may be out of date"
        yield Finding(severity=Severity.CRITICAL, subject="controller", what=what)
    for voter, warning in warned_of(quorum):
        remedy = ""
        if voter.unreachable and facts.fenced.get(voter.node_id, _UNASKED) is None:
            remedy = "it runs, for its broker answers here: mend the network between the controllers"
        elif voter.unreachable:
            remedy = f"start it, or mend the network between the controllers; {_gone(voter.node_id, facts)}"
        yield Finding(severity=Severity.WARNING, subject="controller", what=warning, remedy=remedy)
    leader = next((each for each in quorum.voters if each.node_id == quorum.leader_id), None)
    for voter in quorum.voters if leader is not None else ():
        if leader is not None and is_lagging(voter, leader):
            what = f"voter {voter.node_id} lacks {counted(voter.lag, 'entry', 'entries')} of the metadata log"
            remedy = "see its log: its disk or its network may be slow"
            yield Finding(severity=Severity.WARNING, subject="controller", what=what, remedy=remedy)


def is_lagging(voter: QuorumMember, leader: QuorumMember) -> bool:
    behind_ms = leader.last_caught_up_timestamp_ms - voter.last_caught_up_timestamp_ms
    return voter.lag > 0 and behind_ms > LAG_MS_MAX and not (voter.unreachable or voter.is_learner)


def _of_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    for broker in facts.brokers:
        if broker.fenced_by_operator and not broker.replicas:
            done = f"stop it if it runs, then kraft brokers unregister {broker.broker_id}"
            yield _broker(broker, "is fenced by an operator, and has no replica", f"{done}; or kraft brokers unfence")
        elif broker.fenced_by_operator:
            yield _broker(
                broker, "is fenced by an operator", f"once it is mended: kraft brokers unfence {broker.broker_id}"
            )
        elif broker.fenced:
            yield _fenced(broker, facts)
        elif broker.in_controlled_shutdown:
            yield _broker(broker, "is shutting down", "")
        elif isinstance(outcome := facts.directories.get(broker.broker_id), KraftError):
            if _is_misfit(outcome):
                yield _broker(broker, f"runs, and refuses this command: {outcome}", "")
                continue
            yield _silent(broker, outcome, facts)


def _silent(broker: BrokerDescription, error: KraftError, facts: ClusterFacts) -> Finding:
    """Return the finding of a broker that the controller hears, and this command does not."""
    why = f"did not answer here: {why_silent(error)}"
    remedy = "start it if it does not run; otherwise see its log: it may hang, or be out of reach from here"
    if facts.in_service is None:
        return _broker(broker, f"was in service, and {why}", remedy)
    led = sum(each.partition.leader_id == broker.broker_id for each in facts.partitions)
    if not led:
        return _broker(broker, f"is in service, but {why}", remedy)
    # The controller hears it, so nobody else is elected: who cannot reach it cannot use these partitions.
    finding = _broker(broker, f"is in service and leads {counted(led, 'partition')}, but {why}", remedy)
    elsewhere = (
        f"if it works, and others do not reach it either, let others lead: kraft brokers fence {broker.broker_id}"
    )
    return replace(finding, severity=Severity.CRITICAL, remedy=f"{remedy}; {elsewhere}")


def _fenced(broker: BrokerDescription, facts: ClusterFacts) -> Finding:
    """Return the finding of a broker without heartbeats: whether it runs tells what can be done."""
    gone = _gone(broker.broker_id, facts)
    if broker.broker_id not in facts.fenced:
        return _broker(broker, "is not in service: the controller receives no heartbeats of it", f"start it; {gone}")
    outcome = facts.fenced[broker.broker_id]
    if outcome is None:
        what = "is not in service, although it answers here: the controller receives no heartbeats of it"
        return _broker(broker, what, "see its log: controllers may refuse it, or be out of its reach")
    if _is_misfit(outcome):
        what = f"is not in service, although it runs; it refuses this command: {outcome}"
        return _broker(broker, what, "see its log: it may not know the users and passwords of now")
    what = f"is not in service, and did not answer here: {why_silent(outcome)}"
    if _SAYS_NOTHING in what:
        return _broker(broker, what, "its process is there and does not work: resume it if it is paused, or restart it")
    return _broker(broker, what, f"start it, or see its log if it runs; {gone}")


def _gone(node_id: int, facts: ClusterFacts) -> str:
    """Return what to do about a node that will not come back. Another id cannot take the place of a controller."""
    if any(each.node_id == node_id for each in facts.quorum.voters):
        return f"if it is gone for good, 'kraft storage format' another node with node.id={node_id}, and start it"
    return "if it is gone for good, see 'kraft brokers unregister --help'"


def _is_misfit(error: KraftError) -> bool:
    """Return whether the broker, or this command, refuses the other."""
    from kraft.client.model.errors import AuthenticationFailed

    return isinstance(error, AuthenticationFailed)


def _broker(broker: BrokerDescription, what: str, remedy: str) -> Finding:
    return Finding(severity=Severity.WARNING, subject="broker", what=f"broker {broker.broker_id} {what}", remedy=remedy)


def _of_directories(directories: Mapping[int, Sequence[DescribeLogDirsResult] | KraftError]) -> Iterator[Finding]:
    for broker_id, outcome in sorted(directories.items()):
        for each in () if isinstance(outcome, KraftError) else outcome:
            if each.error_code:
                yield Finding(
                    severity=Severity.WARNING,
                    subject="disk",
                    what=f"log directory {each.log_dir} of broker {broker_id} has failed: {each.reason}",
                    remedy="mend or replace the disk, 'kraft storage format' a new directory, restart the broker",
                    names=[each.log_dir],
                )
            elif each.reason:
                yield Finding(
                    severity=Severity.CRITICAL,
                    subject="disk",
                    what=f"broker {broker_id} refuses appends in {each.log_dir}: {each.reason}",
                    remedy=f"sizes are in 'kraft brokers log-dirs {broker_id}'; appends go on once there is space",
                    names=[each.log_dir],
                )
            if each.sync_ms >= SLOW_SYNC_MS:
                yield Finding(
                    severity=Severity.WARNING,
                    subject="disk",
                    what=f"the disk of log directory {each.log_dir} of broker {broker_id} is slow: a sync takes"
                    f" {each.sync_ms / 1_000:.1f} s, and appends wait for it",
                    remedy="see on its machine what else uses the disk, and the kernel's log; a restart does not help",
                    names=[each.log_dir],
                )


def _of_partitions(facts: ClusterFacts) -> Iterator[Finding]:
    leaderless = [each for each in facts.partitions if is_unavailable(each)]
    if leaderless:
        yield Finding(
            severity=Severity.CRITICAL,
            subject="partitions",
            what=f"{_counted(leaderless)} without a leader: {_named(leaderless)}",
            remedy=_how_to_lead(leaderless, facts.brokers),
            names=_names(leaderless),
        )
        yield from _of_coordinators(leaderless)
    writable = [each for each in facts.partitions if not is_unavailable(each)]
    refusing = [each for each in writable if is_under_min_isr(each)]
    if refusing:
        yield Finding(
            severity=Severity.CRITICAL,
            subject="partitions",
            what=f"{_counted(refusing)} below min.insync.replicas, where acks=all is refused: {_named(refusing)}",
            remedy=_how_to_catch_up(refusing, facts),
            names=_names(refusing),
        )
    behind = [each for each in writable if is_under_replicated(each) and not is_under_min_isr(each)]
    if behind:
        at_limit = sum(map(is_at_min_isr, behind))
        consequence = f"; {at_limit:,} of them would refuse acks=all if one more was lost" if at_limit else ""
        yield Finding(
            severity=Severity.WARNING,
            subject="partitions",
            what=f"{_counted(behind)} under-replicated: {_named(behind)}{consequence}",
            remedy=_how_to_catch_up(behind, facts),
            names=_names(behind),
        )


def _of_throttles(partitions: Sequence[Shown]) -> Iterator[Finding]:
    """Yield the topics whose replicas are throttled although nothing moves: a reassignment was not verified."""
    throttled = [each for each in partitions if each.is_throttled]
    # Replicas that lag are found already, with the throttle as what may slow them.
    if any(each.reassignment is not None for each in partitions) or any(map(is_under_replicated, throttled)):
        return
    if topics := sorted({each.topic for each in throttled}):
        yield Finding(
            severity=Severity.WARNING,
            subject="throttle",
            what=f"replicas of {_first(topics)} are throttled although nothing moves: those that fall behind will catch"
            " up slowly",
            remedy="kraft topics reassign --verify with the file of the move; or kraft configs alter"
            f" {topics[0]} --delete-config {','.join(REPLICA_LISTS)}",
            names=topics,
        )


def _of_hidden(hidden: int) -> Iterator[Finding]:
    if hidden:
        what = f"{counted(hidden, 'replica')} could not be seen: nothing is known of their partitions"
        remedy = "ask as a user that may describe all topics and their configs"
        yield Finding(severity=Severity.UNKNOWN, subject="partitions", what=what, remedy=remedy)


def _of_coordinators(leaderless: Sequence[Shown]) -> Iterator[Finding]:
    for topic, subject, consequence in (
        (OFFSETS_TOPIC, "groups", "their groups have no coordinator: nobody joins or commits"),
        (TRANSACTIONS_TOPIC, "transactions", "their transactions have no coordinator: none begins or ends"),
    ):
        without = [each for each in leaderless if each.topic == topic]
        if without:
            what = f"{_counted(without)} of {topic} without a leader: {consequence}"
            yield Finding(severity=Severity.CRITICAL, subject=subject, what=what, names=_names(without))


def _how_to_lead(leaderless: Iterable[Shown], brokers: Iterable[BrokerDescription]) -> str:
    """Return how the partitions get leaders: a replica that has all committed records must be in service."""
    in_service = {each.broker_id for each in brokers if not each.fenced}
    able: set[int] = set()
    for each in leaderless:
        able.update(each.partition.isr_nodes, each.partition.eligible_leader_replicas or ())
    if away := sorted(able - in_service):
        return f"start broker {listed(away)}, which {'holds' if len(away) == 1 else 'hold'} all committed records"
    return "see 'kraft topics describe --unavailable-partitions' and 'kraft topics elect-leaders --help'"


def _how_to_catch_up(partitions: Sequence[Shown], facts: ClusterFacts) -> str:
    """Return how the replicas come into sync, in words: their leaders have to answer, and they have to run and copy."""
    leaders = {each.partition.leader_id for each in partitions}
    silent = sorted(each for each in leaders if isinstance(facts.directories.get(each), KraftError))
    if silent:
        leads = "leads some of them and does" if len(silent) == 1 else "lead some of them and do"
        return f"bring back broker {listed(silent)}, which {leads} not answer"
    missing: set[int] = set()
    for each in partitions:
        missing.update(set(each.partition.replica_nodes) - set(each.partition.isr_nodes))
    throttled = sorted({each.topic for each in partitions if each.is_throttled})
    throttle = f"a throttle may slow them: see 'kraft configs describe' of {_first(throttled)}" if throttled else ""
    if any(isinstance(facts.directories.get(each, _UNASKED), KraftError) for each in missing):
        words = f"bring back the replicas on broker {listed(sorted(missing))}, or see there why they lag"
        return f"{words}; {throttle}" if throttle else words
    words = f"the replicas on broker {listed(sorted(missing))}, which answers, copy what they lack"
    return f"{throttle}; otherwise {words}" if throttle else f"{words}: wait, or see there why they lag"


def _of_transactions(hanging: Sequence[OpenInPartition]) -> Iterator[Finding]:
    if hanging:
        names = sorted({str(each.partition) for each in hanging})
        yield Finding(
            severity=Severity.CRITICAL,
            subject="transactions",
            what=f"{counted(len(hanging), 'transaction')} hanging, past which committed records are not read:"
            f" {_first(names)}",
            remedy="kraft transactions find-hanging",
            names=names,
        )


def _of_groups(rebalances: Mapping[str, int]) -> Iterator[Finding]:
    unsettled = {group: count for group, count in sorted(rebalances.items()) if count >= MANY_REBALANCES}
    if unsettled:
        minutes = REBALANCES_WITHIN_MS // 60_000
        named = _first([f"{group} ({count} times)" for group, count in unsettled.items()])
        yield Finding(
            severity=Severity.WARNING,
            subject="groups",
            what=f"{counted(len(unsettled), 'group')} rebalancing again and again, and hardly reading: {named} within"
            f" {minutes} minutes",
            remedy=f"'kraft groups members {next(iter(unsettled))}' a few times: find the member that comes and goes",
            names=list(unsettled),
        )


def _of_certificates(certificates: Sequence[ExpiringCertificate]) -> Iterator[Finding]:
    for each in certificates:
        soon = f"in {counted(each.days_left, 'day')}" if each.days_left else "within a day"
        in_time = "has expired" if each.days_left < 0 else f"expires {soon}"
        yield Finding(
            severity=Severity.WARNING,
            subject="certificate",
            what=f"the certificate {each.whose} {in_time}: {each.expires}",
            remedy="replace it in its file: a node uses the new one within seconds, without a restart",
        )


def _counted(partitions: Sequence[Shown]) -> str:
    return counted(len(partitions), "partition")


def _names(partitions: Iterable[Shown]) -> list[str]:
    return [f"{each.topic}-{each.partition.partition_index}" for each in partitions]


def _named(partitions: Sequence[Shown]) -> str:
    return _first(_names(partitions))


def _first(names: Sequence[str]) -> str:
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more:,} more" if more > 0 else "")


def listed(broker_ids: Sequence[int]) -> str:
    *first, last = map(str, broker_ids)
    return f"{', '.join(first)} and {last}" if first else last
