"""Every key that a node's file may hold and that has an effect.

Most are declared on the fields that they fill. The keys that only give topics their defaults come from the topic
configs. A key without an effect stands in `unsupported`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from kraft.metadata.configs import SERVER_KEYS, ConfigKey, ServerKey
from kraft.model.configs import ConfigType
from kraft.server.config.declaration import Key, keys_of
from kraft.server.config.node_config import COMPONENTS, NodeConfig
from kraft.server.config.readers import Reader, only
from kraft.server.config.values import CONTROLLER, GRPC

_PEM_ONLY: Final = only("PEM", "convert the store, for instance with openssl pkcs12 -nodes")

_OF_ONE_VALUE: Final = (
    Key(
        "controller.listener.names",
        only(CONTROLLER, "controllers talk on the listener of that name"),
        "Accepted for Kafka's files.",
        CONTROLLER,
    ),
    Key(
        "inter.broker.listener.name",
        only(GRPC, "brokers talk to each other on the listener of that name"),
        "Accepted for Kafka's files.",
        GRPC,
    ),
    Key("ssl.keystore.type", _PEM_ONLY, "Kafka's default is JKS.", "PEM"),
    Key("ssl.truststore.type", _PEM_ONLY, "Kafka's default is JKS.", "PEM"),
    Key(
        "ssl.client.auth",
        only("required", "nodes always show their certificates"),
        "Accepted for Kafka's files.",
        "required",
    ),
    Key(
        "ssl.endpoint.identification.algorithm",
        only("https", "a node's certificate always has to name its host"),
        "Accepted for Kafka's files.",
        "https",
    ),
)
"""They fill no field: the reader's check is all."""


def _topic_defaults() -> Iterator[Key]:
    """A broker's keys for topics that do not set their own; `topics.configs` is made of all of them together."""
    for declared, server_key in SERVER_KEYS.values():
        name, default = declared.default_server_key()
        yield Key(
            server_key.name,
            Reader(
                declared.type if server_key.unit == 1 else ConfigType.INT,
                partial(_topic_default, declared, server_key),
            ),
            declared.documentation,
            default if server_key.name == name else None,
        )


def _topic_default(declared: ConfigKey, server_key: ServerKey, text: str) -> object:
    try:
        return declared.read_server(server_key, text)
    except ValueError as error:
        raise ValueError(f"expected {error}") from None


_DECLARING: Final[tuple[type[Any], ...]] = (NodeConfig, *COMPONENTS.values())

_DECLARED: Final = {key.name: key for component in _DECLARING for key in keys_of(component).values()}

KEYS: Final = (
    *_DECLARED.values(),
    *_OF_ONE_VALUE,
    *(key for key in _topic_defaults() if key.name not in _DECLARED),
)

BY_NAME: Final = {key.name: key for key in KEYS} | {key.older_name: key for key in KEYS if key.older_name}
