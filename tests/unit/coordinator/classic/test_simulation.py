"""Members that follow the protocol while responses are lost, members leave, die and come back, and leadership moves.

`Coordinator` checks after every step what must always hold.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.messages import MemberIdRequired
from kraft.coordinator.shard import Ticket
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.heartbeat import HeartbeatResponse
from kraft.wire.schema.join_group import JoinGroupResponse
from kraft.wire.schema.leave_group import MemberIdentity
from kraft.wire.schema.sync_group import SyncGroupResponse
from tests.unit.coordinator.classic.coordinator import SESSION_MS, Coordinator, protocols

MEMBERS = 6
STEPS = 300
HEARTBEAT_MS = SESSION_MS // 4
SETTINGS = {"size_max": MEMBERS - 1, "new_member_join_timeout_ms": 40_000}
EXPECTED = (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS)
ALIVE = {
    "step": 60,
    "time": 20,
    "die": 1,
    "restart": 2,
    "leave": 2,
    "subscribe": 3,
    "loaded": 1,
    "removed": 1,
}
"""How often each thing happens, if it is a living client's turn."""

DEAD = {"time": 2, "restart": 1}
FENCING = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)


class Client:
    """A member as a consumer's library behaves. One request is in flight at most; after a lost one it joins again."""

    def __init__(self, coordinator: Coordinator, random: Random, number: int) -> None:
        self.coordinator = coordinator
        self.random = random
        self.instance = f"instance {number}" if number % 2 else None
        self.topics = "orders"
        self.is_alive = True
        self.start()

    def start(self) -> None:
        """Begin as after a restart: with nothing but the configuration."""
        self.member_id = ""
        self.generation = -1
        self.assignment: bytes | None = None
        self.ticket: Ticket | None = None

    @property
    def is_assigned(self) -> bool:
        return self.assignment is not None and self.ticket is None

    def step(self, *, loses: float) -> None:
        if self.ticket is None and self.assignment is not None:
            self._receive(self.coordinator.heartbeat(self.member_id, self.generation, self.instance))
        elif self.ticket is None or self.random.random() < loses:
            self.join()
        elif not self.coordinator.waits(self.ticket):
            ticket, self.ticket = self.ticket, None
            self._receive(self.coordinator.replies[ticket])

    def join(self) -> None:
        """Send a JoinGroup; also when the response to an earlier request is lost."""
        self.assignment = None
        offered = protocols("sticky", "range", topics=self.topics)
        self.ticket = self.coordinator.join(self.member_id, group_instance_id=self.instance, protocols=offered)

    def leave(self) -> None:
        self.coordinator.leave(MemberIdentity(member_id=self.member_id, group_instance_id=self.instance))
        self.start()

    def _receive(self, response: object) -> None:
        match response:
            case MemberIdRequired():
                self.member_id = response.member_id
            case Refusal():
                if response.error_code in FENCING:
                    self.start()
                self.assignment = None
            case JoinGroupResponse():
                self.member_id, self.generation = response.member_id, response.generation_id
                self._sync(response)
            case SyncGroupResponse():
                self.assignment = response.assignment
            case _:
                assert response == HeartbeatResponse(error_code=0)

    def _sync(self, joined: JoinGroupResponse) -> None:
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        members = [each.member_id for each in joined.members] if leads else []
        # A leader that sends another assignment for the same generation must not get it taken up.
        nonce = self.random.random()
        assignments = {each: f"{each} in {joined.generation_id}: {nonce}".encode() for each in members}
        self.ticket = self.coordinator.sync(
            self.member_id, self.generation, group_instance_id=self.instance, assignments=assignments
        )


def disturb(coordinator: Coordinator, clients: list[Client], random: Random) -> None:
    """Let one thing happen that a member or a coordinator has to live with."""
    client = random.choice(clients)
    frequencies = ALIVE if client.is_alive else DEAD
    match random.choices(list(frequencies), list(frequencies.values()))[0]:
        case "step":
            client.step(loses=0.1)
        case "time":
            coordinator.advance(random.choice([10, 10, 1_000, 1_000, HEARTBEAT_MS, HEARTBEAT_MS, SESSION_MS]))
        case "die":
            client.is_alive = False
        case "restart":
            client.is_alive = True
            client.start()
        case "leave":
            client.leave()
        case "subscribe":
            client.topics = random.choice(["orders", "payments"])
            client.assignment = None
        case "loaded":
            coordinator.load()
            for each in clients:
                if each.ticket is not None and coordinator.waits(each.ticket):
                    each.join()
        case _:
            coordinator.leave(MemberIdentity(member_id="", group_instance_id="instance 1"))


def settle(coordinator: Coordinator, clients: list[Client]) -> None:
    """Let time pass without faults until all clients have an assignment, and nobody else is in the group."""
    for _ in range(200):
        coordinator.advance(HEARTBEAT_MS)
        for client in clients:
            for _ in range(3):
                client.step(loses=0)
        if coordinator.state is ClassicGroupState.STABLE and all(client.is_assigned for client in clients):
            assert {client.member_id for client in clients} <= set(coordinator.live.members)
            if len(clients) == len(coordinator.live.members):
                return
    raise AssertionError(f"not settled: {coordinator.group}")


@pytest.mark.parametrize("seed", range(15))
def test_a_group_keeps_its_promises_under_faults_and_settles_after_them(seed: int) -> None:
    random = Random(seed)
    coordinator = Coordinator(**SETTINGS)
    clients = [Client(coordinator, random, number) for number in range(MEMBERS)]
    for _ in range(STEPS):
        disturb(coordinator, clients, random)
    for client in clients:
        if not client.is_alive:
            client.start()
    settle(coordinator, clients[: SETTINGS["size_max"]])
    # The run was not vacuous: members joined, synced, were refused and joined again.
    replies = coordinator.replies.values()
    seen = Counter(each.error_code if isinstance(each, Refusal) else type(each) for each in replies)
    assert coordinator.live.generation >= 3
    assert min(seen[each] for each in (JoinGroupResponse, SyncGroupResponse, HeartbeatResponse, *EXPECTED)) >= 3
