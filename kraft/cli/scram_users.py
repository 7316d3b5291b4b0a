"""`--add-scram`: users that a new cluster begins with, in the syntax of Kafka's tools."""

from __future__ import annotations

import binascii
import re
import secrets
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import typer

if TYPE_CHECKING:
    from kraft.sasl.scram import ScramMechanism
    from kraft.wire.schema.alter_user_scram_credentials import ScramCredentialUpsertion

OPTION: Final = "--add-scram"

_KEYS: Final = ("name", "password", "password-file", "salt", "saltedpassword", "iterations")
_USER: Final = re.compile(r"\s*([^=\s]+)\s*=\s*\[(.*)\]\s*", re.DOTALL)
_FIELD: Final = re.compile(r'\s*([^=,"\s]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,"]*))\s*(?:,|$)', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def first_users(arguments: Sequence[str]) -> list[ScramCredentialUpsertion]:
    """Return the credentials that the arguments describe. Raises BadParameter, without anything of the argument.

    `SCRAM-SHA-512=[name=admin,password-file=FILE]`; a value in quotes may have commas, and `\\"` for a quote.
    """
    return [_user(argument) for argument in arguments]


def _user(argument: str) -> ScramCredentialUpsertion:
    from kraft.metadata.user_decisions import NUMBERS, password_upsertion
    from kraft.sasl.scram import ITERATIONS_MIN, SALT_BYTES, ScramMechanism
    from kraft.wire.schema.alter_user_scram_credentials import ScramCredentialUpsertion

    outer = _USER.fullmatch(argument)
    if outer is None or outer[1] not in [each.value for each in ScramMechanism]:
        _refuse("expected SCRAM-SHA-256=[...] or SCRAM-SHA-512=[...], with name=USER,password-file=FILE inside")
    mechanism, fields = ScramMechanism(outer[1]), _fields(outer[2])
    name = fields.get("name") or _refuse("there is no name=USER")
    iterations = _iterations(fields.get("iterations", str(ITERATIONS_MIN)))
    salt = _base64(fields, "salt") if "salt" in fields else secrets.token_bytes(SALT_BYTES)
    ways = [key for key in ("password", "password-file", "saltedpassword") if key in fields]
    if len(ways) != 1:
        _refuse("give one of password-file, password and saltedpassword")
    if ways == ["saltedpassword"]:
        if "salt" not in fields:
            _refuse("saltedpassword needs the salt that it was made with: add salt=BASE64")
        (number,) = (number for number, each in NUMBERS.items() if each is mechanism)
        salted = _base64(fields, "saltedpassword")
        return ScramCredentialUpsertion(
            name=name, mechanism=number, iterations=iterations, salt=salt, salted_password=salted
        )
    return password_upsertion(name, mechanism, _password(fields, mechanism), salt, iterations)


def _password(fields: Mapping[str, str], mechanism: ScramMechanism) -> str:
    from kraft.cli.users import password_in

    if "password-file" in fields:
        return password_in(Path(fields["password-file"]), OPTION)
    return fields["password"] or _refuse(f"the password for {mechanism.value} is empty")


def _fields(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        field = _FIELD.match(text, position)
        if field is None:
            _refuse("expected KEY=VALUE,... in the brackets; a value with a comma or a quote stands in quotes")
        key, quoted, bare = field.groups()
        if key not in _KEYS:
            _refuse(f"a key is not one of {', '.join(_KEYS)}")
        if key in found:
            _refuse(f"{key} is given twice")
        found[key] = bare.strip() if quoted is None else _ESCAPED.sub(r"\1", quoted)
        position = field.end()
    return found


def _iterations(text: str) -> int:
    from kraft.sasl.scram import ITERATIONS_MAX, ITERATIONS_MIN

    number = int(text) if text.isascii() and text.isdigit() and len(text) < len(str(ITERATIONS_MAX)) + 1 else 0
    if not ITERATIONS_MIN <= number <= ITERATIONS_MAX:
        _refuse(f"iterations is not a number from {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return number


def _base64(fields: Mapping[str, str], key: str) -> bytes:
    try:
        return b64decode(fields[key], validate=True)
    except (binascii.Error, ValueError):
        _refuse(f"{key} is not Base64")


def _refuse(reason: str) -> NoReturn:
    # Nothing of the argument is shown: any part of it may be a password.
    raise typer.BadParameter(reason, param_hint=OPTION)
