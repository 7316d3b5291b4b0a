"""The nodes of one cluster as processes on this machine."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kraft.local.cluster_files import HOST, NodePlan
from kraft.local.launching import KRAFT, Launch, launch
from kraft.local.node_process import STOP_DEADLINE_S, NodeFailed, NodeProcess, stop_all
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.brokers import DescribeBrokersRequest
from kraft.model.callbacks import Condition
from kraft.model.errors import Refusal
from kraft.server.config.loading import ConfigError, load

if TYPE_CHECKING:
    from kraft.rpc.peers import Dial

READY_DEADLINE_S = 60.0
_POLL_S = 0.025
_ANSWER_DEADLINE_S = 1.0


class LocalCluster:
    """Nodes whose files `cluster_files.write` has written. Every call blocks, with a deadline."""

    def __init__(
        self, directory: Path, plans: Iterable[NodePlan], command: Sequence[str] = KRAFT, launch: Launch = launch
    ) -> None:
        self._plans = {plan.node_id: plan for plan in plans}
        self.nodes = {node_id: NodeProcess(directory, plan, command, launch) for node_id, plan in self._plans.items()}

    @property
    def bootstrap_servers(self) -> str:
        """Return the gRPC addresses of all brokers, running or not."""
        return ",".join(plan.grpc_address for plan in self._plans.values() if plan.grpc_address is not None)

    @property
    def kafka_bootstrap_servers(self) -> str:
        """Return the addresses of all brokers that serve Kafka's protocol, running or not."""
        return ",".join(plan.kafka_address for plan in self._plans.values() if plan.kafka_address is not None)

    def start(self) -> None:
        """Start every node that is not running, and return at once."""
        for node in self.nodes.values():
            if not node.is_running:
                node.start()

    def wait_ready(self, deadline_s: float = READY_DEADLINE_S, cancelled: Condition = lambda: False) -> bool:
        """Wait until every running broker knows an active controller and every other running broker.

        A broker with an operator fence only has to run, because clients do not see it. Return False if `cancelled`
        returned True. Raises NodeFailed if a node has ended since its start, or ends meanwhile, and at the deadline.
        From a coroutine, call it through `asyncio.to_thread`.
        """
        awaited = [node for node in self.nodes.values() if node.is_starting or node.is_running]
        for node in awaited:
            node.check_running()
        readiness = _Readiness(self._plans, awaited, time.monotonic() + deadline_s)
        is_ready = asyncio.run(readiness.wait(cancelled))
        if is_ready:
            for node in awaited:
                node.is_starting = False
        return is_ready

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Stop all nodes in order, at the same time. See `node_process.stop_all`."""
        stop_all(self.nodes.values(), deadline_s)


class _Readiness:
    """One wait for one set of running nodes."""

    def __init__(self, plans: Mapping[int, NodePlan], running: Sequence[NodeProcess], deadline: float) -> None:
        self._plans = [plans[node.node_id] for node in running]
        self._brokers = {plan.node_id for plan in self._plans if plan.grpc_port is not None}
        self._running = running
        self._deadline = deadline
        # Imported while the nodes are starting, because importing gRPC takes long.
        from kraft.rpc.peers import PeerConnections

        self._connections = PeerConnections(_dial(running))

    async def wait(self, cancelled: Condition) -> bool:
        try:
            for plan, node in zip(self._plans, self._running, strict=True):
                while (missing_part := await self._missing(plan)) is not None:
                    if cancelled():
                        return False
                    self._check(node, missing_part)
                    await asyncio.sleep(_POLL_S)
            return True
        finally:
            await self._connections.close()

    def _check(self, node: NodeProcess, missing_part: str) -> None:
        for each in self._running:
            each.check_running()
        if time.monotonic() > self._deadline:
            raise NodeFailed(node.described(f"is not ready in time ({missing_part})"))

    async def _missing(self, plan: NodePlan) -> str | None:
        """Return why the node is not ready; None if it is."""
        for port in (plan.controller_port, plan.grpc_port, plan.kafka_port):
            # gRPC increases the pause between attempts to connect; a plain socket shows when to try.
            if port is not None and not _accepts(port):
                return f"no process listens on port {port}"
        return None if plan.grpc_address is None else await self._missing_of_broker(plan.grpc_address)

    async def _missing_of_broker(self, address: str) -> str | None:
        from kraft.rpc.calls import METADATA
        from kraft.rpc.peers import Unreachable

        try:
            answer = await self._connections.peer(address).call(METADATA, metadata_of(()), _ANSWER_DEADLINE_S)
        except Unreachable as unreachable:
            return str(unreachable)
        if answer.controller_id < 0:
            return "it does not know the active controller"
        missing = self._brokers - {broker.node_id for broker in answer.brokers}
        if missing:
            missing -= await self._fenced_by_operator(address)
        return f"it does not know brokers {sorted(missing)}" if missing else None

    async def _fenced_by_operator(self, address: str) -> set[int]:
        """Return the brokers with an operator fence: they are ready, but clients do not see them."""
        from kraft.rpc.calls import DESCRIBE_BROKERS
        from kraft.rpc.peers import Unreachable

        request = DescribeBrokersRequest(broker_ids=[])
        try:
            answer = await self._connections.peer(address).call(DESCRIBE_BROKERS, request, _ANSWER_DEADLINE_S)
        except (Unreachable, Refusal):
            return set()
        return {broker.broker_id for broker in answer.brokers if broker.fenced_by_operator}


def _dial(running: Sequence[NodeProcess]) -> Dial:
    """Return what opens channels to the brokers: all have the same security, and know the same secret."""
    from kraft.local.node_dialling import dial_as_node
    from kraft.rpc.peers import dial_openly

    # A controller alone has no GRPC listener, and does not know the security of theirs.
    brokers = [node.config_path for node in running if node.address is not None]
    try:
        return dial_as_node(load(brokers[0])) if brokers else dial_openly
    except ConfigError:
        # The node ends with the same error, and reports it.
        return dial_openly


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=_ANSWER_DEADLINE_S):
            return True
    except OSError:
        return False
