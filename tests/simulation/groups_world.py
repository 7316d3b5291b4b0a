"""One partition of `__consumer_offsets`, its coordinators one after the other, consumers, and the network between them.

The shard and the machine that hosts it are the real ones. The log is a list in memory. A new leader has everything that
is committed, and a part of what is not; its predecessor may go on for a while without a notion of it. Every method that
changes something ends in `check`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from uuid import UUID

from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.consumer.requests import ConsumerHeartbeat
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.groups.commands import CommitOffsets, DeleteGroup, GroupCommand
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.shard import GroupShard
from kraft.coordinator.shard import DecisionContext
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId
from kraft.wire.schema.leave_group import LeaveGroupRequest, MemberIdentity
from tests.simulation.groups_clients import SESSION_MS, ClassicClient, Client, ConsumerClient, Request, Surroundings
from tests.simulation.groups_history import FetchOffsets, History, Invariant, Violation
from tests.simulation.groups_host import Batch, Host, HostWorld, Waiting, compacted, replayed
from tests.support import offset_commands
from tests.support.cluster_images import with_topic

RETENTION_MS = 30_000
ASSIGNMENT_INTERVAL_MS = 500
LATE_REQUESTS_MAX = 25
COMPARED_EVERY = 8
"""After so many batches the whole state is compared with the replay of the log."""

TOPIC_IDS = {"orders": TopicId(UUID(int=1)), "parcels": TopicId(UUID(int=2))}
TOPIC_NAMES = {topic_id: name for name, topic_id in TOPIC_IDS.items()}
RESIGNED = Refusal(ErrorCode.NOT_COORDINATOR, "another broker leads")

SETTINGS = GroupShardSettings(
    classic=ClassicSettings(
        session_timeout_min_ms=SESSION_MS, initial_rebalance_delay_ms=100, new_member_join_timeout_ms=10_000
    ),
    consumer=GroupSettings(
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=1_000,
        assignment_interval_ms=ASSIGNMENT_INTERVAL_MS,
        assigned_at_once_max=4,
        partitions_per_slice=5,
    ),
    offsets_retention_ms=RETENTION_MS,
    offsets_retention_check_interval_ms=4_000,
)


class Answer:
    """A response on its way to a client."""

    __slots__ = ("request", "response")

    def __init__(self, request: Request, response: object) -> None:
        self.request = request
        self.response = response


class World:
    def __init__(self, random: Random, turn_ms: Callable[[], int] = lambda: 0) -> None:
        """`turn_ms` as `HostWorld.turn_ms`."""
        self.random = random
        self.now_ms = 1_000_000
        self.counts = {"orders": 3, "parcels": 2}
        self.history = History(TOPIC_NAMES, RETENTION_MS, ASSIGNMENT_INTERVAL_MS)
        self.truth: list[Batch] = []
        """The committed part of the log."""
        self.hosts: list[Host] = []
        """The leader, and those who do not know that they are not."""
        self.leader: Host | None = None
        self.leader_epoch = 0
        self.clients: list[Client] = []
        self.network: list[Request | Answer] = []
        self.late: deque[Request] = deque(maxlen=LATE_REQUESTS_MAX)
        """Requests whose senders do not wait any more, but that may still arrive."""
        self.late_commits: deque[Request] = deque(maxlen=LATE_REQUESTS_MAX)
        self.fenced = 0
        self._ids = 0
        self._commits = 0
        self._tail: list[Batch] = []
        """What the last leader had in its log when it crashed."""
        self._image = self._metadata()
        self._of_hosts = HostWorld(
            shard=GroupShard(SETTINGS),
            context=self._context,
            history=self.history,
            reply=self._reply,
            turn_ms=turn_ms,
        )
        self._of_clients = Surroundings(
            random=random,
            send=self.network.append,
            give_up=self._gave_up,
            find_coordinator=self._find_coordinator,
            partitions_of=self._partitions_of,
            next_commit=self._next_commit,
            joined=self.history.members.__setitem__,
            topic_name=TOPIC_NAMES.__getitem__,
            is_of_member=self.history.is_of_member,
            heard=self.history.heard,
        )
        self.elect()

    # --- coordinators ------------------------------------------------------------------------------------------------

    def elect(self) -> None:
        """Let another broker lead. The earlier leader goes on as before, unless it has crashed."""
        log = self._tail if self.leader is None else self.leader.log
        if self.leader is not None:
            self.leader.is_leader = False
        kept = self.random.randint(len(self.truth), max(len(self.truth), len(log)))
        self.leader_epoch += 1
        self.leader = Host(self._of_hosts, self.leader_epoch, [*self.truth, *log[len(self.truth) : kept]])
        self.hosts.append(self.leader)
        self.check()

    def crash(self, host: Host) -> None:
        if host is self.leader:
            self.leader, self._tail = None, host.log
        self._remove(host)
        host.stop()
        self.check()

    def resign(self, host: Host) -> None:
        """Let a broker learn that another leads."""
        if not host.is_leader:
            self._remove(host)
            host.stop(RESIGNED)
            self.check()

    def _remove(self, host: Host) -> None:
        self.hosts.remove(host)
        # Its connections are closed.
        self.network[:] = [each for each in self.network if not (isinstance(each, Request) and each.host is host)]
        for late in (self.late, self.late_commits):
            for request in [each for each in late if each.host is host]:
                late.remove(request)

    def replicate(self, batches: int | None = None) -> None:
        """Let the in-sync replicas of the leader have the next batches of its log, or all of them."""
        host = self.leader
        if host is None:
            return
        end = len(host.log) if batches is None else min(len(host.log), len(self.truth) + batches)
        for batch in host.log[len(self.truth) : end]:
            self.truth.append(batch)
            for record in batch.records:
                self.history.committed(record)
        host.advance_high_watermark(end)
        if host.shard is None and end >= host.load_end:
            self._load(host)
        elif len(self.truth) % COMPARED_EVERY == 0:
            self._compare(host)
        self.check()

    def _load(self, host: Host) -> None:
        """Replay the log, of which a part may have been compacted."""
        cleaned = self.random.randint(0, len(host.log))
        host.load(replayed([*compacted(host.log[:cleaned]), *host.log[cleaned:]]))
        self._compare(host)

    def _compare(self, host: Host) -> None:
        if host.shard is not None and host.shard.committed != self.history.truth:
            raise Violation(Invariant.STATE_IS_THE_LOG, f"{host.shard.committed} is not {self.history.truth}")

    def finish_load(self, host: Host) -> None:
        host.finish_load()
        self.check()

    def write(self, host: Host, refusal: Refusal | None = None) -> None:
        """Let a host append what it has decided, or fail to."""
        if host.appending is None:
            host.flush()
        if refusal is None:
            host.append()
        else:
            host.fail_append(refusal)
        self.check()

    def go_on_with_work(self, host: Host) -> None:
        """Let a host do a part of the work beside its shard."""
        host.go_on_with_work()
        host.set_more_timers()
        self.check()

    def freeze(self, host: Host, milliseconds: int) -> None:
        host.frozen_until_ms = self.now_ms + milliseconds

    # --- time and metadata -------------------------------------------------------------------------------------------

    def advance(self, milliseconds: int) -> None:
        until_ms = self.now_ms + milliseconds
        while True:
            due = [
                (max(at_ms, host.frozen_until_ms), host.leader_epoch, host)
                for host in self.hosts
                if (at_ms := host.next_timer_ms()) is not None and max(at_ms, host.frozen_until_ms) <= until_ms
            ]
            if not due:
                break
            at_ms, _, host = min(due, key=lambda each: each[:2])
            self._set_time(max(self.now_ms, at_ms))
            host.end_timer()
            self.check()
        self._set_time(until_ms)

    def _set_time(self, now_ms: int) -> None:
        self.now_ms = self.history.now_ms = now_ms

    def add_partition(self, topic: str) -> None:
        self.counts[topic] += 1
        self._image = self._metadata()

    def _metadata(self) -> MetadataImage:
        image = EMPTY_IMAGE
        for topic, count in self.counts.items():
            image = with_topic(image, *[(1,)] * count, topic=topic, topic_id=TOPIC_IDS[topic])
        return image

    # --- the network -------------------------------------------------------------------------------------------------

    def deliver(self, message: Request | Answer) -> None:
        """Deliver a message. A request to a frozen broker stays where it is."""
        if isinstance(message, Answer):
            self.network.remove(message)
            sender = message.request.sender
            if sender is not None and sender.is_alive:
                sender.receive(message.request, message.response)
        elif message.host.frozen_until_ms <= self.now_ms:
            self.network.remove(message)
            if _counts_late(message.command):
                self.repeat(message)
            message.host.receive(message)
        self.check()

    def lose(self, message: Request | Answer) -> None:
        self.network.remove(message)
        self.repeat(message)

    def repeat(self, message: Request | Answer) -> None:
        """Let a request arrive again later."""
        if isinstance(message, Request) and not message.host.is_gone:
            (self.late_commits if isinstance(message.command, CommitOffsets) else self.late).append(message)

    def deliver_late(self, request: Request) -> None:
        """Deliver a request that was given up, if its sender has gone on meanwhile.

        Within one epoch the consumer protocol relies on the connection: it has no way to tell an older heartbeat. Nor
        can it tell that a join says what the member subscribed to once: it would get that subscription again.
        """
        (self.late_commits if request in self.late_commits else self.late).remove(request)
        command, sender = request.command, request.sender
        if request.host.frozen_until_ms > self.now_ms:
            return
        if isinstance(command, ConsumerHeartbeat):
            assert sender is not None, "administrators send no heartbeats"
            is_outdated = command.member_epoch == 0 and command.topics != sender.topics
            if sender.is_alive and (command.member_epoch >= sender.generation or is_outdated):
                return
        request.host.receive(request)
        self.check()

    def _drop_requests_of_ended_groups(self) -> None:
        """Let no commit and no late heartbeat outlive its group: epochs begin again in the next group of this id.

        It is the same in Kafka. A member keeps its id when it joins that one, and nothing in a request says which of
        the groups it is for.
        """
        if self.history.ended:
            self.network[:] = [
                each
                for each in self.network
                if not (isinstance(each, Request) and self._is_of_ended_group(each, CommitOffsets))
            ]
            for late, kind in ((self.late_commits, CommitOffsets), (self.late, ConsumerHeartbeat)):
                for request in [each for each in late if self._is_of_ended_group(each, kind)]:
                    late.remove(request)
            self.history.ended.clear()

    def _is_of_ended_group(self, request: Request, kind: type[CommitOffsets] | type[ConsumerHeartbeat]) -> bool:
        return isinstance(request.command, kind) and request.command.group_id in self.history.ended

    def _gave_up(self, request: Request) -> None:
        if request in self.network:
            self.lose(request)

    def _reply(self, request: Waiting, response: object) -> None:
        self.history.replied(request.command, response)
        assert isinstance(request, Request)
        self.network.append(Answer(request, response))

    # --- clients -----------------------------------------------------------------------------------------------------

    def start(self, protocol: type[Client], group_id: str, instance_id: str | None, topics: frozenset[str]) -> None:
        self.clients.append(protocol(self._of_clients, group_id, instance_id, topics))

    def step(self, client: Client) -> None:
        client.step()
        if client.is_fenced:
            self.fenced += 1
            self.end(client)
        self.check()

    def end(self, client: Client, leave: Callable[[], None] | None = None) -> None:
        (client.end if leave is None else leave)()
        self.clients.remove(client)
        self.check()

    def send(self, command: GroupCommand) -> None:
        """Send the request of an administrator."""
        if self.leader is not None:
            self.network.append(Request(None, self.leader, command))

    def delete_group(self, group_id: str) -> None:
        self.send(DeleteGroup(group_id=group_id))

    def reset_offsets(self, group_id: str) -> None:
        committed = offset_commands.offset(0, 0, metadata=str(self._next_commit()))
        self.send(offset_commands.committing(group_id, offset_commands.offsets("orders", committed)))

    def remove_static_member(self, group_id: str, instance_id: str) -> None:
        self.send(
            LeaveGroupRequest(group_id=group_id, members=(MemberIdentity(member_id="", group_instance_id=instance_id),))
        )

    # --- what clients know -------------------------------------------------------------------------------------------

    def _find_coordinator(self, leader_epoch: int) -> Host | None:
        known = [host for host in self.hosts if host.leader_epoch >= leader_epoch]
        return self.random.choice(known) if known else None

    def _partitions_of(self, topics: frozenset[str]) -> list[tuple[str, int]]:
        return [(topic, number) for topic in sorted(topics) for number in range(self.counts[topic])]

    def _next_commit(self) -> int:
        self._commits += 1
        return self._commits

    def _context(self) -> DecisionContext:
        self._ids += 1
        return DecisionContext(now_ms=self.now_ms, image=self._image, random_id=f"{self._ids:06}")

    # --- what holds after each event ---------------------------------------------------------------------------------

    def check(self) -> None:
        self._drop_requests_of_ended_groups()
        shard = None if self.leader is None else self.leader.shard
        owners: dict[tuple[str, int, str, int], Client] = {}
        for client in self.clients:
            if isinstance(client, ConsumerClient):
                if shard is not None:
                    self.history.check_client(shard.latest, client.group_id, client.member_id)
                continue
            assert isinstance(client, ClassicClient)
            if not client.assigned or not self.history.is_assigned(
                client.group_id, client.generation, client.member_id
            ):
                continue
            for topic, number in client.assigned:
                place = (client.group_id, client.generation, topic, number)
                if owners.setdefault(place, client) is not client:
                    raise Violation(Invariant.ONE_OWNER, f"two members of {place[0]} read {place}")


def _counts_late(command: GroupCommand | FetchOffsets) -> bool:
    """Return whether a late copy may be taken for a new request: no epoch tells a member's join from another."""
    return isinstance(command, CommitOffsets) or (isinstance(command, ConsumerHeartbeat) and command.member_epoch == 0)
