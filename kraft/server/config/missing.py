"""Settings that a file has to have and lacks: its id, which a container may have in its environment, and others.

Each of these has a value that fits the rest of the file.
A file that is given these values starts, if nothing else is wrong with it: so is one of Kafka with ZooKeeper, whose
nodes have no roles and name no controllers.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Final

from kraft.model.config_keys import Required
from kraft.server.config import kafka_files, readers
from kraft.server.config.keys import KEYS
from kraft.server.config.old_addresses import LISTENERS, OLD_NAMES
from kraft.server.config.properties import Property
from kraft.server.config.values import CONTROLLER, ConfigWarning

_ROLES: Final = "process.roles"
_NODE_ID: Final = "node.id"
_VARIABLES: Final = ("KAFKA_NODE_ID", "KAFKA_BROKER_ID")
"""Variables of containers' environments, the first of which counts."""

_OLD_PORTS: Final = ("port", "advertised.port")
_CONTROLLER_PORT: Final = 9093
_CLIENTS: Final = "PLAINTEXT://localhost:9092,GRPC://localhost:9094"


def with_id_of_container(
    settings: Mapping[str, Property], environment: Mapping[str, str]
) -> tuple[Mapping[str, Property], list[ConfigWarning]]:
    """Add the node's id from the environment, if the file has none. Raises ValueError, with the variable, for no id."""
    variable = next((each for each in _VARIABLES if environment.get(each)), None)
    if variable is None:
        return settings, []
    value = environment[variable].strip()
    if own := settings.get(_NODE_ID) or settings.get("broker.id"):
        message = f"the file sets it, so that {variable}={value} in the environment has no effect"
        return settings, [ConfigWarning(own.key, message)] if own.value.strip() != value else []
    try:
        readers.node_id(value)
    except ValueError as error:
        raise ValueError(f"{variable}={value} in the environment: {error}") from None
    return {**settings, _NODE_ID: Property(_NODE_ID, value, 0)}, []


def examples_of_missing(settings: Mapping[str, Property]) -> dict[str, str]:
    """Return the missing keys, each with the value that its error proposes."""
    found = {
        key.name: key.default.example
        for key in KEYS
        if isinstance(key.default, Required) and not settings.keys() & {key.name, key.older_name}
    }
    roles = _text(settings, _ROLES) or found.get(_ROLES, "")
    node_id = _text(settings, _NODE_ID) or _text(settings, "broker.id") or found.get(_NODE_ID, "")
    if kafka_files.VOTERS in found:
        derived, _ = kafka_files.with_voters({**settings, _ROLES: Property(_ROLES, roles, 0)})
        if kafka_files.VOTERS in derived:
            del found[kafka_files.VOTERS]
        else:
            found[kafka_files.VOTERS] = _voters(settings, roles, node_id)
    if LISTENERS in found:
        if settings.keys() & OLD_NAMES.keys():
            del found[LISTENERS]
        else:
            voters = _text(settings, kafka_files.VOTERS) or found.get(kafka_files.VOTERS, "")
            found[LISTENERS] = _listeners(roles, node_id, voters)
    return found


def _voters(settings: Mapping[str, Property], roles: str, node_id: str) -> str:
    """Return the controllers at the addresses that the file names, or this node alone, or another that it follows."""
    is_controller = "controller" in roles and node_id.isdecimal()
    # A broker is none of them.
    ids = (number for number in count(1) if is_controller or str(number) != node_id)
    if addresses := kafka_files.named_without_ids(settings):
        return ",".join(f"{number}@{address}" for number, address in zip(ids, addresses, strict=False))
    return f"{node_id if is_controller else next(ids)}@localhost:{_port(settings)}"


def _port(settings: Mapping[str, Property]) -> int:
    """Return the port of the file's CONTROLLER listener, or one that no listener of the file has."""
    listeners = [each.strip().rpartition(":") for each in _text(settings, LISTENERS).split(",")]
    own = [port for name, _, port in listeners if name.startswith(f"{CONTROLLER}://") and port.isdigit()]
    taken = {port for _, _, port in listeners} | {_text(settings, key) for key in _OLD_PORTS}
    return int(own[0]) if own else next(port for port in count(_CONTROLLER_PORT) if str(port) not in taken)


def _listeners(roles: str, node_id: str, voters: str) -> str:
    named = (each.strip().partition("@") for each in voters.split(","))
    address = next((address for voter_id, _, address in named if voter_id == node_id), f"localhost:{_CONTROLLER_PORT}")
    parts = [
        *([_CLIENTS] if "broker" in roles else []),
        *([f"{CONTROLLER}://{address}"] if "controller" in roles else []),
    ]
    return ",".join(parts)


def _text(settings: Mapping[str, Property], key: str) -> str:
    return settings[key].value.strip() if key in settings else ""
