"""The processes of one configuration file: process 0 is the node of the file, the others are brokers beside it.

One event loop is one core, so `node.processes` brokers share a machine, a file and its log directories. Each further
process has an id, ports and directories of its own, which follow from those of the file. See docs/adr/0039.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from kraft.metadata.machines import MACHINE_RACK_PREFIX
from kraft.model.ids import BrokerId
from kraft.server.config.access_settings import NODE_ID
from kraft.server.config.conflict import Conflict
from kraft.server.config.node_config import PROCESS_ID_STEP, NodeConfig
from kraft.server.config.values import CONTROLLER, Listener, Role, host_and_port

PORT_STEP: Final = 10

_PORT_MAX: Final = 65_535


def processes(config: NodeConfig) -> tuple[NodeConfig, ...]:
    """Return the configuration of each process of a file; of a file with one process, the file's."""
    return tuple(process(config, number) for number in range(config.processes))


def process(config: NodeConfig, number: int) -> NodeConfig:
    """Return the configuration of one process, from 0 on."""
    if config.processes == 1:
        return config
    rack = config.rack or f"{MACHINE_RACK_PREFIX}{config.node_id}"
    if number == 0:
        return replace(config, rack=rack, settings={**config.settings, "broker.rack": rack})
    node_id = BrokerId(config.node_id + PROCESS_ID_STEP * number)
    metadata_dir, log_file, audit, metrics = config.metadata_dir, config.logging.file, config.audit, config.metrics
    further = replace(
        config,
        roles=frozenset({Role.BROKER}),
        node_id=node_id,
        rack=rack,
        listeners=_moved([each for each in config.listeners if each.name != CONTROLLER], number),
        advertised_listeners=_moved(config.advertised_listeners, number),
        log_dirs=tuple(_inside(directory, node_id) for directory in config.log_dirs),
        metadata_dir=None if metadata_dir is None else _inside(metadata_dir, node_id),
        logging=replace(config.logging, file=None if log_file is None else with_part(log_file, str(node_id))),
        audit=replace(audit, path=_own_audit_file(audit.path, node_id)),
        metrics=metrics if metrics.address is None else replace(metrics, address=_at(metrics.address, number)),
        warnings=(),
    )
    return replace(further, settings={**config.settings, **_derived_settings(further)})


def _own_audit_file(path: Path | None, node_id: BrokerId) -> Path | None:
    # One that names its node is another process's already.
    return path if path is None or NODE_ID in str(path) else with_part(path, str(node_id))


def with_part(log_file: Path, part: str) -> Path:
    """Return the name of another log file beside this one: `server.log` and 1001 give `server-1001.log`."""
    return log_file.with_name(f"{log_file.stem}-{part}{log_file.suffix}")


def check_processes(config: NodeConfig) -> None:
    """Raise Conflict if the processes of the file could not run beside each other, or be told apart."""
    if config.processes == 1:
        return
    if not config.is_broker:
        raise Conflict("node.processes", "further processes are brokers: add broker to process.roles, or remove it")
    if config.node_id >= PROCESS_ID_STEP:
        raise Conflict(
            "node.id",
            f"not below {PROCESS_ID_STEP}, which node.processes={config.processes} adds for each further process:"
            " choose a lower id",
        )
    voters = {voter.node_id for voter in config.quorum.voters}
    for each in processes(config)[1:]:
        if each.node_id in voters:
            raise Conflict(
                "controller.quorum.voters",
                f"names {each.node_id}, the id of a further process of node.processes={config.processes}, which is no"
                " controller: change the id of that voter",
            )
    _check_ports(config)


def _check_ports(config: NodeConfig) -> None:
    bound: dict[int | str, str] = {}
    advertised: dict[int | str, str] = {}
    for number, each in enumerate(processes(config)):
        for listener in (*each.bound, *each.advertised_listeners):
            if listener.port > _PORT_MAX:
                key = _key_of(listener, each)
                raise Conflict(
                    key,
                    f"process {number} of node.processes={config.processes} would have {listener}, above port"
                    f" {_PORT_MAX}, because each process adds {PORT_STEP}: choose a lower port",
                )
        for listener in each.bound:
            _claim(bound, listener.port, _key_of(listener, each), f"{listener} of process {number}")
        for listener in each.advertised_listeners:
            _claim(advertised, listener.address, "advertised.listeners", f"{listener} of process {number}")


def _key_of(listener: Listener, config: NodeConfig) -> str:
    if listener is config.metrics.address:
        return "metrics.address"
    return "listeners" if listener in config.listeners else "advertised.listeners"


def _claim(claimed: dict[int | str, str], place: int | str, key: str, owner: str) -> None:
    other = claimed.setdefault(place, owner)
    if other != owner:
        raise Conflict(
            key,
            f"{other} and {owner} have the same port, because each process adds {PORT_STEP}: choose ports that differ"
            f" by less than {PORT_STEP}",
        )


def _moved(listeners: tuple[Listener, ...] | list[Listener], number: int) -> tuple[Listener, ...]:
    return tuple(_at(listener, number) for listener in listeners)


def _at(listener: Listener, number: int) -> Listener:
    return replace(listener, port=listener.port + PORT_STEP * number)


def _inside(directory: Path, node_id: BrokerId) -> Path:
    """Return the directory of a further process, on the same disk.

    Process 0 leaves it alone: a partition's directory has a dash before its number.
    """
    return directory / f"node.{node_id}"


def _derived_settings(config: NodeConfig) -> Mapping[str, str]:
    """Return the settings that a file of this process alone would have instead."""
    derived = {
        "process.roles": ",".join(config.roles),
        "node.id": str(config.node_id),
        "broker.rack": config.rack,
        "listeners": ",".join(map(str, config.listeners)),
        "log.dirs": ",".join(map(str, config.log_dirs)),
    }
    if "advertised.listeners" in config.settings:
        derived["advertised.listeners"] = ",".join(map(str, config.advertised_listeners))
    if config.metadata_dir is not None:
        derived["metadata.log.dir"] = str(config.metadata_dir)
    if config.logging.file is not None:
        derived["log.file"] = str(config.logging.file)
    if config.metrics.address is not None:
        derived["metrics.address"] = host_and_port(config.metrics.address.host, config.metrics.address.port)
    if config.audit.path is not None:
        derived["audit.log.path"] = str(config.audit.path)
    return derived
