"""What listeners cannot do yet. A node refuses to start with it: somebody would rely on it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.config.listener_security import ListenerSecurity
from kraft.server.config.values import GRPC


class ListenerKind(StrEnum):
    """The value is for messages."""

    KAFKA = "listeners of Kafka's protocol"
    GRPC = "the GRPC listener"


class Layer(StrEnum):
    TLS = "TLS"
    SASL = "SASL"


LAYERS_NOT_SERVED_YET: Final = frozenset(
    {(ListenerKind.KAFKA, Layer.TLS), (ListenerKind.GRPC, Layer.TLS), (ListenerKind.GRPC, Layer.SASL)}
)

MECHANISMS_NOT_SERVED_YET: Final = frozenset({SaslMechanism.OAUTHBEARER})

ARE_USERS_OF_FILES_IMPORTED: Final = False
"""Whether users that `plain.sasl.jaas.config` names can log in."""


def not_served(name: str, security: ListenerSecurity) -> str | None:
    """Return what of it the listener of that name, which is for clients, cannot do; None if it can do all."""
    kind = ListenerKind.GRPC if name == GRPC else ListenerKind.KAFKA
    for layer, is_needed in ((Layer.TLS, security.protocol.has_tls), (Layer.SASL, security.protocol.has_sasl)):
        if is_needed and (kind, layer) in LAYERS_NOT_SERVED_YET:
            return f"{layer} on {kind} is not supported yet: map {name} to PLAINTEXT"
    if security.sasl is None:
        return None
    for mechanism in security.sasl.mechanisms:
        if mechanism in MECHANISMS_NOT_SERVED_YET:
            return f"{mechanism} is not supported yet: remove it from sasl.enabled.mechanisms"
    if security.sasl.plain_users and not ARE_USERS_OF_FILES_IMPORTED:
        return f"users of plain.sasl.jaas.config are not supported yet: create them with kraft users, for {name}"
    return None
