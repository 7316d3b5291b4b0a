"""Machines, as racks name them: a partition never has two replicas on brokers of one machine.

A rack whose name begins with `machine:` is one machine. The processes of one configuration file get such a rack by
default; people may set it, too, for brokers with files of their own. Any other rack has Kafka's meaning: replicas are
spread over racks as far as possible, and each of its brokers counts as a machine of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

MACHINE_RACK_PREFIX: Final = "machine:"

_NAMED_MAX: Final = 10


class RackedBroker(Protocol):
    """A broker with its rack; empty without one."""

    @property
    def broker_id(self) -> int: ...

    @property
    def rack(self) -> str: ...


def is_machine(rack: str) -> bool:
    """Return whether all brokers of the rack are on one machine."""
    return rack.startswith(MACHINE_RACK_PREFIX)


def machine_of(broker: RackedBroker) -> str:
    """Return the name of the broker's machine, different for brokers that may both have a replica of a partition."""
    return broker.rack if is_machine(broker.rack) else f"broker {broker.broker_id}"


def machines_of(brokers: Iterable[RackedBroker]) -> list[str]:
    """Return the machines of these brokers, each once, in their order."""
    return list(dict.fromkeys(map(machine_of, brokers)))


def named(machines: list[str]) -> str:
    """Return the machines for a message, the first ones of very many."""
    more = f" and {len(machines) - _NAMED_MAX} more" if len(machines) > _NAMED_MAX else ""
    return ", ".join(machines[:_NAMED_MAX]) + more


def shared_machine(brokers: Iterable[RackedBroker]) -> str:
    """Return why these brokers cannot have a replica each, and the remedy; empty if they can."""
    found: dict[str, RackedBroker] = {}
    for broker in brokers:
        machine = machine_of(broker)
        other = found.setdefault(machine, broker)
        if other is not broker:
            return (
                f"brokers {other.broker_id} and {broker.broker_id} are on one machine, {machine}, which would have two "
                "replicas: name brokers of different machines"
            )
    return ""
