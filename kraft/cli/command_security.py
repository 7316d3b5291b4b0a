"""`--command-config FILE`: how a command's clients reach a cluster that is closed, or of Apache Kafka, by their keys.

Every command that connects has it: `with_command_config` adds it to those with `--bootstrap-server`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kraft.cli.private_files import say_if_others_can_read

if TYPE_CHECKING:
    from kraft.client.model.security import ClientSecurity
    from kraft.server.config.properties import Property

CONFIG_VARIABLE: Final = "KRAFT_COMMAND_CONFIG"
"""Environment variable with the default of --command-config."""

OPTION: Final = "--command-config"

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        OPTION,
        metavar="FILE",
        envvar=CONFIG_VARIABLE,
        show_envvar=False,
        show_default=False,
        help="File with security.protocol, sasl.* and ssl.* as Kafka's clients have them, for a cluster that requires "
        f"a login or TLS, or with wire.protocol=kafka for one of Apache Kafka. {CONFIG_VARIABLE} may set it.",
    ),
]

_PARAMETER: Final = "command_config"


class _Chosen:
    """Of the clients of the command that runs: a process runs one command, whose threads have clients."""

    security: ClientSecurity | None = None
    wire_protocol: str | None = None
    default_wire_protocol: str | None = None
    """The protocol of the next command where no file says one; None is that of the clients."""


def command_security() -> ClientSecurity:
    """Return the security of the command's clients."""
    from kraft.client.model.security import OPEN

    return OPEN if _Chosen.security is None else _Chosen.security


def connection_settings() -> dict[str, Any]:
    """Return how the command's clients connect, as their settings; none if nothing was chosen."""
    chosen = {"security": _Chosen.security, "wire_protocol": _Chosen.wire_protocol}
    return {name: value for name, value in chosen.items() if value is not None}


def use_security(security: ClientSecurity, option: str) -> None:
    """Set the security of the command's clients, which `option` gives. Raises BadParameter if two options give one."""
    if _Chosen.security is not None:
        raise typer.BadParameter(f"has security settings, and so has {OPTION}: give one of them", param_hint=option)
    _Chosen.security = security


def set_default_wire_protocol(name: str | None) -> None:
    """Set the protocol of the next command of this process, unless its settings name one."""
    _Chosen.default_wire_protocol = name


def with_command_config(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with the option, if it connects."""
    signature = inspect.signature(command, eval_str=True)
    if "bootstrap_server" not in signature.parameters or _PARAMETER in signature.parameters:
        return command

    @wraps(command)
    def run(*args: Any, command_config: Path | None = None, **kwargs: Any) -> Any:
        found = {} if command_config is None else properties_of(command_config, OPTION)
        # Settings of other things may stand beside: the same file may serve a program.
        _Chosen.security = security_in(found, command_config, OPTION)
        _Chosen.wire_protocol = wire_protocol_in(found, command_config, OPTION) or _Chosen.default_wire_protocol
        _Chosen.default_wire_protocol = None
        return command(*args, **kwargs)

    option = inspect.Parameter(_PARAMETER, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=CommandConfig)
    with_option = signature.replace(parameters=[*signature.parameters.values(), option])
    run.__signature__ = with_option  # type: ignore[attr-defined]  # Python reads it, and mypy does not know it.
    run.__annotations__ = {each.name: each.annotation for each in with_option.parameters.values()}
    return run


def properties_of(file: Path, option: str, *, with_dots: bool = True) -> dict[str, str]:
    """Return the settings of a file, by their names with dots, or as they are written. Raises BadParameter."""
    from kraft.server.config.properties import PropertiesError, parse

    try:
        with file.open("rb") as opened:
            found = parse(opened.read(), str(file))
            if any(map(_is_secret, found)):
                say_if_others_can_read(opened, file)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint=option) from None
    except PropertiesError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    settings: dict[str, str] = {}
    for each in found:
        name = each.key.replace("_", ".") if with_dots else each.key
        if name in settings:
            raise typer.BadParameter(f"{file}:{each.line}: {each.key} is set twice: set it once", param_hint=option)
        settings[name] = each.value
    return settings


def _is_secret(setting: Property) -> bool:
    """Return whether the setting has a password, or what is as good as one."""
    name = setting.key.replace("_", ".")
    return name.endswith(("password", ".jaas.config", ".keystore.key", ".client.secret"))


def security_in(settings: Mapping[str, str], source: object, option: str) -> ClientSecurity | None:
    """Return what the settings of a file say of security; None if they say nothing. Raises BadParameter."""
    from kraft.client import InvalidSetting
    from kraft.client.model.security import client_security, is_security_key

    keys = {name: value for name, value in settings.items() if is_security_key(name)}
    try:
        return client_security(keys) if keys else None
    except InvalidSetting as error:
        raise typer.BadParameter(f"{source}: {error}", param_hint=option) from None


def wire_protocol_in(settings: Mapping[str, str], source: object, option: str) -> str | None:
    """Return what the settings of a file say of the protocol, or None. Raises BadParameter."""
    from kraft.client import InvalidSetting
    from kraft.client.model.settings import wire_protocol

    given = settings.get("wire.protocol")
    try:
        return None if given is None else wire_protocol(given)
    except InvalidSetting as error:
        raise typer.BadParameter(f"{source}: {error}", param_hint=option) from None
