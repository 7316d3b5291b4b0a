"""Clients of the tasks and drivers in one process: they share connections, which outlive a task and a micro-batch."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from kraft.client import Admin, Producer
from kraft.client.cluster.network import Network, shared_network
from kraft.client.model.security import OPEN, ClientSecurity, client_security, is_security_key
from spark_connector.sink_ids import TransactionalIds
from spark_connector.sink_options import SinkOptions


@dataclass(slots=True)
class Clients:
    """Connections to one cluster, with the admin client that uses them."""

    bootstrap_servers: Sequence[str]
    security: ClientSecurity = OPEN
    ids: TransactionalIds = field(default_factory=TransactionalIds)

    def __post_init__(self) -> None:
        self.network = shared_network(self.security)
        self.admin = Admin(self.bootstrap_servers, network=self.network)

    network: Network = field(init=False)
    admin: Admin = field(init=False)

    def producer(self, options: SinkOptions) -> Producer:
        """Return a new producer without transactions."""
        settings = dict(options.settings)
        del settings["transaction.timeout.ms"]
        return Producer(self.bootstrap_servers, network=self.network, **settings)

    def transactional_producer(self, options: SinkOptions, transactional_id: str, *, is_temporary: bool) -> Producer:
        settings = dict(options.settings)
        settings |= {"transactional.id": transactional_id, "transactional.id.temporary": str(is_temporary).lower()}
        return Producer(self.bootstrap_servers, network=self.network, **settings)


# A forked child inherits its parent's entries but not their threads; the process id keeps them apart.
_clients: dict[tuple[int, tuple[str, ...], ClientSecurity], Clients] = {}
_guard = threading.Lock()


def clients(options: SinkOptions) -> Clients:
    """Return this process's clients of the cluster that the options name."""
    keys = {name: value for name, value in options.settings if is_security_key(name)}
    servers, security = options.bootstrap_servers, client_security(keys)
    key = os.getpid(), servers, security
    with _guard:
        if key not in _clients:
            _clients[key] = Clients(servers, security)
        return _clients[key]
