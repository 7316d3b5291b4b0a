"""TLS of a node's Kafka listeners: what they show to clients, and how this node connects to those of other nodes."""

from __future__ import annotations

import asyncio
import ssl

import msgspec

from kraft.server.config.loading import ConfigError
from kraft.server.config.node_config import NodeConfig
from kraft.tls.contexts import ServerContext, introducing_context, server_context
from kraft.tls.dialling import TlsDialling
from kraft.tls.principal_rules import InvalidPrincipalRules, PrincipalRules
from kraft.tls.renewal import RenewedContext
from kraft.tls.session import TlsBuffers
from kraft.tls.store_files import StoreError
from kraft.tls.stores import ClientAuth


class KafkaTls:
    """The contexts follow the files of their stores, once `watch` runs."""

    def __init__(self, config: NodeConfig) -> None:
        """Read the stores. Raises ConfigError."""
        self.buffers = TlsBuffers()
        self._shown: dict[str, RenewedContext[ServerContext]] = {}
        self._dialled: dict[str, RenewedContext[ssl.SSLContext]] = {}
        self._asked: dict[str, ssl.SSLContext] = {}
        self._rules: dict[str, PrincipalRules] = {}
        for listener in config.kafka_listeners:
            name, settings = listener.name, config.security_of(listener.name).tls
            if settings is None:
                continue
            try:
                self._shown[name] = RenewedContext(name, settings, server_context)
                self._dialled[name] = RenewedContext(name, settings, introducing_context)
                self._asked[name] = introducing_context(
                    settings
                    if settings.client_auth is ClientAuth.REQUIRED
                    else msgspec.structs.replace(settings, key_store=None)
                )
                self._rules[name] = PrincipalRules(settings.principal_mapping_rules)
            except StoreError as error:
                raise ConfigError(f"{config.file}: listener {name}: {error}") from None
            except InvalidPrincipalRules as error:
                raise ConfigError(f"{config.file}: listener {name}: ssl.principal.mapping.rules: {error}") from None

    def shown_at(self, listener: str) -> RenewedContext[ServerContext]:
        """Return the context of a listener, which has TLS."""
        return self._shown[listener]

    def rules_of(self, listener: str) -> PrincipalRules:
        return self._rules[listener]

    def dialling(self, listener: str) -> TlsDialling | None:
        """Return how to connect to the listener of that name at another node; None if it has no TLS."""
        found = self._dialled.get(listener)
        return None if found is None else TlsDialling(found.current(), self.buffers)

    def asking(self, listener: str) -> ssl.SSLContext | None:
        """Return how to ask what answers at this node's own listener; None if it has no TLS.

        A certificate that was not asked for could be refused, so only a listener that requires one gets it.
        """
        return self._asked.get(listener)

    async def watch(self) -> None:
        """Follow the files until cancelled."""
        shown, dialled = self._shown.values(), self._dialled.values()
        await asyncio.gather(*(each.watch() for each in shown), *(each.watch() for each in dialled))
