"""Opens a client's channels as its security says: inside TLS, and with a login before the first call."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio

from kraft.client.model.errors import InvalidSetting
from kraft.client.model.security import ClientSecurity, Credentials
from kraft.rpc.login_channel import GetLogin, LoginChannel
from kraft.rpc.peers import Dial, dial_openly
from kraft.rpc.secure_channel import TlsDial
from kraft.sasl.client import PasswordLogin, TokenLogin
from kraft.tls.store_files import StoreError
from kraft.tls.stores import TlsSettings


def dialling(security: ClientSecurity) -> Dial:
    """Return what opens a channel to an address. Raises InvalidSetting."""
    if security.tls is None and security.sasl is None:
        return dial_openly
    return _SecureDial(security.tls, security.sasl)


class _SecureDial:
    def __init__(self, tls: TlsSettings | None, credentials: Credentials | None) -> None:
        try:
            self._tls = None if tls is None else TlsDial(tls)
        except StoreError as error:
            raise InvalidSetting(str(error)) from None
        self._credentials = credentials

    def generation(self) -> int:
        return 0 if self._tls is None else self._tls.generation()

    def __call__(self, address: str, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
        channel = (self._tls or dial_openly)(address, options)
        return channel if self._credentials is None else LoginChannel(channel, _getting(self._credentials))


def _getting(credentials: Credentials) -> GetLogin:
    """Return what gets the credentials of the next login."""

    async def get() -> PasswordLogin | TokenLogin:
        if isinstance(credentials, PasswordLogin):
            return credentials
        # A file may be on a slow disk, and a function may ask an authorization server.
        return await asyncio.to_thread(credentials.login)

    return get
