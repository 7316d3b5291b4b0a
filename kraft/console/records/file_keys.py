"""Keys of the console's file that are about records: who may view them, what is masked, and the schema registry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from kraft.client import InvalidSetting, client_security
from kraft.console.records.decoding.registry import RegistryConfig
from kraft.console.records.permissions import Mask, Role, Viewing, ViewingRules, ViewRule
from kraft.model.addresses import is_loopback
from kraft.model.password import Password
from kraft.tls.contexts import client_context
from kraft.tls.store_files import StoreError

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_RULE_KEYS: Final = ("topics", "roles", "view")
_MASK_KEYS: Final = ("topics", "fields", "key", "headers", "roles")
_REGISTRY: Final = "schema.registry."
_VIEW: Final = "records.view"
_PREFIXES: Final = (f"{_VIEW}.", "mask.", _REGISTRY)
_LOGIN: Final = f"{_REGISTRY}basic.auth.user.info"
_STORE_KEYS: Final = ("ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password")
_VIEWS: Final = ", ".join(Viewing)


def is_records_key(key: str) -> bool:
    """Return whether it is one of these, in a cluster's part of the file and without its prefix."""
    return key == _VIEW or key.startswith(_PREFIXES)


def roles_of(given: Mapping[str, str], problems: list[str]) -> dict[str, Role]:
    """Return the named sets of users."""
    roles = {}
    for name, own in _named(given, "role.", "", problems):
        claims = {key.removeprefix("claim."): frozenset(_list(own[key])) for key in own if key.startswith("claim.")}
        problems += [
            f"role.{name}.{key} is not known: keys are users and claim.CLAIM"
            for key in own
            if key != "users" and not key.startswith("claim.")
        ]
        users = frozenset(_list(own.get("users", "")))
        if not users and not any(claims.values()):
            problems.append(f"role.{name} has nobody: set role.{name}.users=USER,USER")
        roles[name] = Role(users=users, claims=claims)
    return roles


def viewing_rules(
    prefix: str, own: Mapping[str, str], is_open: bool, roles: Mapping[str, Role], problems: list[str]
) -> ViewingRules:
    """Return the rules of a cluster. Those who reach a cluster without a login may view its records if nothing is set:
    it is refused for others than this machine.
    """
    default = _viewing(f"{prefix}{_VIEW}", own.get(_VIEW, Viewing.ON if is_open else Viewing.OFF), problems)
    return ViewingRules(
        viewing=default,
        rules=tuple(
            _rule(f"{prefix}{_VIEW}.{name}", name, keys, roles, problems)
            for name, keys in _named(own, f"{_VIEW}.", prefix, problems)
        ),
        masks=tuple(
            _mask(f"{prefix}mask.{name}", name, keys, roles, problems)
            for name, keys in _named(own, "mask.", prefix, problems)
        ),
        roles=roles,
    )


def registry_config(prefix: str, own: Mapping[str, str], problems: list[str]) -> RegistryConfig | None:
    """Return where the cluster's schema registry is; None if it has none."""
    keys = {key.removeprefix(_REGISTRY): value for key, value in own.items() if key.startswith(_REGISTRY)}
    if not keys:
        return None
    before, url, at = len(problems), keys.pop("url", "").strip(), f"{prefix}{_REGISTRY}"
    user, _, password = keys.pop("basic.auth.user.info", "").partition(":")
    stores: dict[str, str] = {key: keys.pop(key) for key in _STORE_KEYS if key in keys}
    known = ", ".join(("url", "basic.auth.user.info", *_STORE_KEYS))
    problems += [f"{at}{key} is not known: keys are {known}" for key in keys]
    parts = _parts(url)
    if parts is None:
        problems.append(f"{at}url={_without_login(url)} is no address: set it to http://HOST:PORT or https://HOST:PORT")
        return None
    scheme, host = parts
    if user and scheme == "http" and not is_loopback(host):
        problems.append(f"{prefix}{_LOGIN} would be sent in the clear: set {at}url to https://...")
    if stores and scheme == "http":
        problems.append(f"{at}{next(iter(stores))} has no effect with http: set {at}url to https://...")
    if len(problems) > before:
        return None
    try:
        tls = client_security({"security.protocol": "SSL", **stores}).tls if scheme == "https" else None
        if tls is not None:
            client_context(tls)
    except (InvalidSetting, StoreError) as error:
        problems.append(f"{at}{error}")
        return None
    return RegistryConfig(url=url, user=user, password=Password(password), tls=tls)


def _parts(url: str) -> tuple[str, str] | None:
    """Return scheme and host of an address that the registry can have."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not host or port == 0 or not is_plain:
        return None
    return None if parts.query or parts.fragment or "@" in parts.netloc else (parts.scheme, host)


def _without_login(url: str) -> str:
    """Return an address for a message: what stands before an @ may be a password."""
    before, at, after = url.rpartition("@")
    return f"...@{after}" if at and before else url


def _rule(at: str, name: str, keys: Mapping[str, str], roles: Mapping[str, Role], problems: list[str]) -> ViewRule:
    _check_keys(at, keys, _RULE_KEYS, problems)
    if "view" not in keys:
        problems.append(f"{at}.view is missing: set it to one of {_VIEWS}")
    return ViewRule(
        name=name,
        topics=_topics(at, keys, problems),
        roles=_roles(at, keys, roles, problems),
        viewing=_viewing(f"{at}.view", keys.get("view", Viewing.OFF), problems),
    )


def _mask(at: str, name: str, keys: Mapping[str, str], roles: Mapping[str, Role], problems: list[str]) -> Mask:
    _check_keys(at, keys, _MASK_KEYS, problems)
    paths = [tuple(each.casefold().split(".")) for each in _list(keys.get("fields", ""))]
    problems += [f"{at}.fields={'.'.join(each)} is no path: give names with dots" for each in paths if "" in each]
    if keys.get("key", "false") not in ("true", "false"):
        problems.append(f"{at}.key={keys['key']} is not one of true, false")
    hides_key, headers = keys.get("key") == "true", tuple(each.lower() for each in _list(keys.get("headers", "")))
    if not paths and not hides_key and not headers:
        problems.append(f"{at} hides nothing: set {at}.fields, {at}.key=true or {at}.headers")
    return Mask(
        name=name,
        topics=_topics(at, keys, problems),
        fields=tuple(paths),
        key=hides_key,
        headers=headers,
        roles=_roles(at, keys, roles, problems),
    )


def _viewing(key: str, text: str, problems: list[str]) -> Viewing:
    try:
        return Viewing(text.strip().lower())
    except ValueError:
        problems.append(f"{key}={text} is not one of {_VIEWS}")
        return Viewing.OFF


def _topics(at: str, keys: Mapping[str, str], problems: list[str]) -> tuple[str, ...]:
    topics = tuple(_list(keys.get("topics", "")))
    if not topics:
        problems.append(f"{at}.topics is missing: set it to names of topics, or patterns such as pay*")
    return topics


def _roles(at: str, keys: Mapping[str, str], roles: Mapping[str, Role], problems: list[str]) -> tuple[str, ...]:
    wanted = tuple(_list(keys.get("roles", "")))
    problems += [
        f"{at}.roles={each} is no role of this file: set role.{each}.users" for each in wanted if each not in roles
    ]
    if "roles" in keys and not wanted:
        problems.append(f"{at}.roles is empty: name roles, or remove the key")
    return wanted


def _check_keys(at: str, keys: Mapping[str, str], known: tuple[str, ...], problems: list[str]) -> None:
    problems += [f"{at}.{key} is not known: keys are {', '.join(known)}" for key in keys if key not in known]


def _named(
    given: Mapping[str, str], begin: str, prefix: str, problems: list[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each name that follows `begin`, in the order of the file, with its keys."""
    found: dict[str, dict[str, str]] = {}
    for key, value in given.items():
        if key.startswith(begin):
            name, _, end = key.removeprefix(begin).partition(".")
            found.setdefault(name, {})[end] = value
    for name, keys in found.items():
        if _NAME.fullmatch(name):
            yield name, keys
        else:
            problems.append(f"{prefix}{begin}{name} has no name: use lower-case letters, digits and hyphens")


def _list(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
