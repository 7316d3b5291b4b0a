"""`kraft users`: list users, set their passwords, and delete users."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kraft.access.administrators import is_administered, is_last_administrator, visible_settings
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    open_admin,
)
from kraft.cli.printing import fail, print_columns, print_json
from kraft.cli.private_files import say_if_others_can_read
from kraft.metadata.acl_filters import AclFilter
from kraft.metadata.user_decisions import NUMBERS
from kraft.model.access import ResourceType
from kraft.model.principal import Principal
from kraft.sasl.scram import ScramMechanism

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.metadata.acls import AclEntry
    from kraft.wire.schema.describe_user_scram_credentials import CredentialInfo, DescribeUserScramCredentialsResult

app = typer.Typer(help="List users, set their passwords, and delete users.", no_args_is_help=True)

STANDARD_INPUT: Final = "-"

UserArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]
MechanismOption = Annotated[
    ScramMechanism | None, typer.Option("--mechanism", help="One mechanism only; by default, both.")
]


@app.command("list")
def list_users(
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """List the users.

    With the mechanisms of their passwords; PLAIN takes the password of either.
    """
    with open_admin(bootstrap_server, timeout_ms) as admin:
        users = admin.describe_users()
    if output is Output.JSON:
        print_json(
            [
                {
                    "user": each.user,
                    "mechanisms": [
                        {"mechanism": _name(info), "iterations": info.iterations} for info in each.credential_infos
                    ],
                }
                for each in users
            ]
        )
        return
    rows = [
        (each.user, ", ".join(f"{_name(info)} ({info.iterations} iterations)" for info in each.credential_infos))
        for each in users
    ]
    print_columns(("User", "Mechanisms"), rows)


@app.command("set-password")
def set_password(
    user: UserArgument,
    password_file: Annotated[
        str | None,
        typer.Option(
            "--password-file", metavar="FILE", help="The password is the first line of this file; - is standard input."
        ),
    ] = None,
    mechanism: MechanismOption = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Set a user's password; a new user begins to exist. Without a file, the command asks for it.

    The password is never an argument: others could read it in the list of processes.
    """
    password = _password(user, password_file)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        for each in _mechanisms(mechanism):
            admin.set_password(user, password, each.value)
    print(f"The password of user {user!r} is set for {_in_words(mechanism)}")


@app.command("delete")
def delete(
    user: UserArgument,
    mechanism: MechanismOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Delete it even if nobody else may change ACLs and users.")
    ] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Delete a user, or its password for one mechanism.

    ACLs and quotas of the user stay, and hold for a new user of that name. Refused, without --force, for the last
    password of the only administrator: a super user, or a principal with ALTER on the cluster.
    """
    with open_admin(bootstrap_server, timeout_ms) as admin:
        described = _existing(admin, user)
        has = [NUMBERS[info.mechanism] for info in described.credential_infos]
        if mechanism is not None and mechanism not in has:
            fail(f"user {user!r} has no password for {mechanism.value}: see kraft users list")
        deleted = has if mechanism is None else [mechanism]
        if deleted == has and not force:
            _check_administrators(admin, user)
        for each in deleted:
            admin.delete_password(user, each.value)
    what = f"User {user!r}" if mechanism is None else f"The {mechanism.value} password of user {user!r}"
    print(f"{what} is deleted")


def _check_administrators(admin: Admin, user: str) -> None:
    settings = visible_settings(admin)
    if settings is None:
        # Whoever may delete users may see the ACLs of the cluster.
        others = [each for each in _of_cluster(admin) if each.principal != str(Principal(user))]
        if not is_administered(others):
            fail(
                f"nothing is deleted: you may not see whether {user!r} is the only administrator, which takes"
                " DESCRIBE_CONFIGS on the cluster: give --force to delete it anyway"
            )
    elif settings.is_authorized and is_last_administrator(str(Principal(user)), _of_cluster(admin), settings):
        fail(
            f"nothing is deleted: {user!r} is the only administrator, so nobody could change ACLs and users any more:"
            " make another one first, with kraft acls create --cluster --operation alter, or give --force"
        )


def _of_cluster(admin: Admin) -> list[AclEntry]:
    return admin.describe_acls(AclFilter(resource_type=ResourceType.CLUSTER))


def _existing(admin: Admin, user: str) -> DescribeUserScramCredentialsResult:
    from kraft.client import ErrorCode, Refusal

    try:
        (described,) = admin.describe_users([user])
    except Refusal as refusal:
        if refusal.error_code is not ErrorCode.RESOURCE_NOT_FOUND:
            raise
        fail(f"there is no user {user!r}: see kraft users list")
    return described


def _password(user: str, file: str | None) -> str:
    """Raises BadParameter if it is empty, or the file cannot be read."""
    try:
        if file == STANDARD_INPUT:
            text = sys.stdin.readline()
        elif file is not None:
            return password_in(Path(file), "--password-file")
        elif sys.stdin.isatty():
            return str(typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True))
        else:
            raise typer.BadParameter("there is no terminal to ask at: give one", param_hint="--password-file")
    except UnicodeDecodeError:
        raise _not_text("standard input", "--password-file") from None
    return _without_end_of_line(text, "--password-file")


def password_in(file: Path, option: str) -> str:
    """Return the first line of a file. Raises BadParameter if it is empty, or the file cannot be read.

    Says so if others can read it.
    """
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.readline()
            say_if_others_can_read(opened, file)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint=option) from None
    except UnicodeDecodeError:
        raise _not_text(str(file), option) from None
    return _without_end_of_line(text, option)


def _without_end_of_line(text: str, option: str) -> str:
    password = text.rstrip("\r\n")
    if not password:
        raise typer.BadParameter("the password is empty", param_hint=option)
    return password


def _not_text(source: str, option: str) -> typer.BadParameter:
    # The text of a UnicodeDecodeError has the bytes, which may be a password.
    return typer.BadParameter(f"{source} is not UTF-8 text", param_hint=option)


def _mechanisms(chosen: ScramMechanism | None) -> list[ScramMechanism]:
    return list(ScramMechanism) if chosen is None else [chosen]


def _in_words(chosen: ScramMechanism | None) -> str:
    return " and ".join(each.value for each in _mechanisms(chosen))


def _name(info: CredentialInfo) -> str:
    return NUMBERS[info.mechanism].value
