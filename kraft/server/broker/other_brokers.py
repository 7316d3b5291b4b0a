"""The other brokers of the cluster, as a broker reaches them."""

from __future__ import annotations

from kraft.metadata.image import CurrentImage
from kraft.model.errors import Refusal
from kraft.model.ids import BrokerId
from kraft.rpc.calls import DESCRIBE_LOG_DIRS, LIST_OFFSETS
from kraft.rpc.cluster_calls import REPLICA_FETCH
from kraft.rpc.frame_exchange import ExchangeLink
from kraft.rpc.peers import NotAdmitted, NotServed, Peer, PeerConnections, Unreachable
from kraft.server.cluster.leader_checks import SILENCE_S_MAX, LeaderLost
from kraft.server.config.values import CONTROLLER, GRPC, host_and_port
from kraft.server.identity.world import NodeWorld
from kraft.server.replica.fetcher import LeaderLink
from kraft.server.replica.lagging_followers import ANSWER_MAX_S
from kraft.wire.schema.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kraft.wire.schema.list_offsets import ListOffsetsRequest


class OtherBrokers:
    def __init__(self, world: NodeWorld, image: CurrentImage) -> None:
        """`image` has the addresses at which the brokers are registered now."""
        self.connections = PeerConnections(world.credentials.dial_broker)
        self._image = image
        self._tls = world.credentials.kafka_tls

    def link_to(self, broker_id: BrokerId) -> LeaderLink | None:
        """Return the ways to the broker as a leader; None if it has none."""
        peer, registration = self._find(broker_id), self._image().broker(broker_id)
        if peer is None or registration is None:
            return None
        kafka = next((each for each in registration.endpoints if each.listener not in (GRPC, CONTROLLER)), None)
        return ExchangeLink(peer, kafka, REPLICA_FETCH, None if kafka is None else self._tls.dialling(kafka.listener))

    async def ask(self, broker_id: BrokerId) -> None:
        """Return when the broker has answered a question about nothing. Raises LeaderLost."""
        peer = self._find(broker_id)
        if peer is None:
            return
        try:
            # The caller waits for a shorter time, after which nothing is known: only a broken connection is a loss.
            await peer.call(LIST_OFFSETS, ListOffsetsRequest(replica_id=-1, topics=()), 2 * SILENCE_S_MAX)
        except (NotAdmitted, NotServed, Refusal):
            # It is alive.
            return
        except Unreachable as error:
            raise LeaderLost(str(error)) from error

    async def log_directories(self, broker_id: BrokerId, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        """Return the broker's log directories. Raises Unreachable, or the Refusal that ended the call."""
        return await self.peer(broker_id).call(DESCRIBE_LOG_DIRS, request, ANSWER_MAX_S)

    def peer(self, broker_id: BrokerId) -> Peer:
        """Return the broker at its registered address. Raises Unreachable if it has none."""
        peer = self._find(broker_id)
        if peer is None:
            raise Unreachable(f"broker {broker_id}", "it has no registered address")
        return peer

    def _find(self, broker_id: BrokerId) -> Peer | None:
        registration = self._image().broker(broker_id)
        endpoint = None if registration is None else registration.endpoint(GRPC)
        return None if endpoint is None else self.connections.peer(host_and_port(endpoint.host, endpoint.port))
