"""All keys of the configuration file that have an effect.

Most are declared on the fields that they fill. Keys for defaults of topics come from the topic configs, and those for
bounds of groups' configs from the group configs. Keys without an effect are in `unsupported`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from kraft.log.topic_config import SERVER_KEYS, ConfigKey, ServerKey
from kraft.metadata.group_configs import GROUP_CONFIGS
from kraft.model.config_keys import Key, Reader, components_of, keys_of, one_of
from kraft.model.configs import ConfigType
from kraft.server.config import readers
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.readers import only_value
from kraft.server.config.values import CONTROLLER, GRPC, SecurityProtocol
from kraft.tls.stores import TlsVersion

_FIXED_KEYS: Final = (
    Key(
        "controller.listener.names",
        only_value(CONTROLLER, "controllers use the listener of that name"),
        "Listener of the controllers; always CONTROLLER.",
        CONTROLLER,
    ),
    Key(
        "inter.broker.listener.name",
        readers.plain_text,
        "Listener at which brokers call each other; always GRPC, and another name is a warning. Replicas are fetched at"
        " the first listener for Kafka's protocol where it is reached.",
        GRPC,
    ),
    Key(
        "security.inter.broker.protocol",
        one_of(*SecurityProtocol),
        "What brokers need of each other's listeners: with SSL or SASL_SSL these have TLS. Brokers authenticate each"
        " other in any case.",
        SecurityProtocol.PLAINTEXT,
    ),
    Key(
        "ssl.protocol",
        one_of("TLS", *TlsVersion),
        "Accepted for Kafka's files: ssl.enabled.protocols says which versions are offered.",
        TlsVersion.TLS_1_3,
    ),
    Key(
        "ssl.endpoint.identification.algorithm",
        only_value("https", "a certificate always has to name the host of its node"),
        "Check that a certificate names the host of its node; always https.",
        "https",
    ),
)
"""Keys of Kafka's files with a single accepted value; they fill no field."""


def _topic_defaults() -> Iterator[Key]:
    """Yield the brokers' keys for defaults of topics; all together they fill `topics.configs`."""
    for declared, server_key in SERVER_KEYS.values():
        with_default = declared.default_server_key()
        assert with_default is not None, "it has a server key, this one"
        name, default = with_default
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


def declaring(component: type[Any] = NodeConfig) -> Iterator[type[Any]]:
    """Yield the component and all components inside it."""
    yield component
    for part in components_of(component).values():
        yield from declaring(part)


_DECLARED: Final = {key.name: key for component in declaring() for key in keys_of(component).values()}

KEYS: Final = (
    *_DECLARED.values(),
    *_FIXED_KEYS,
    *(key for declared in GROUP_CONFIGS.values() for key in (declared.least_key, declared.most_key)),
    *(key for key in _topic_defaults() if key.name not in _DECLARED),
)

BY_NAME: Final = {key.name: key for key in KEYS} | {key.older_name: key for key in KEYS if key.older_name}
