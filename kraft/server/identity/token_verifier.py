"""Verifies the tokens of clients with the keys of an authorization server, which it fetches, keeps and fetches again.

A signature takes 0.03 to 0.6 ms of CPU to verify, which is less than a turn of a thread costs, so it is verified at
once. The keys of one server serve all listeners with the same settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeAlias

import structlog

from kraft.runtime.clock import Clock
from kraft.server.config.security_settings import OAuthBearerSettings
from kraft.server.identity.key_refresh import KeyRefresh
from kraft.tokens.fetching import FETCH_S_MAX, fetch_keys
from kraft.tokens.signed_tokens import (
    NoKeysYet,
    SignedToken,
    VerifiedToken,
    read_token,
    unknown_key,
    verified,
)
from kraft.tokens.token_keys import NO_KEYS, KeysUnavailable, TokenKey, TokenKeys, read_keys

log = structlog.get_logger()

WAIT_S_MAX: Final = 5.0
"""A login waits this long for keys that are being fetched: less than it may take as a whole."""

Fetch: TypeAlias = Callable[[str], bytes]
"""Returns what is at a URL; may block for FETCH_S_MAX. Raises KeysUnavailable."""


class JwksVerifier:
    """Fetches only while `run` runs."""

    def __init__(self, settings: OAuthBearerSettings, clock: Clock, fetch: Fetch = fetch_keys) -> None:
        self._settings = settings
        self._clock = clock
        self._fetch = fetch
        self._keys = NO_KEYS
        self._refresh = KeyRefresh(
            refresh_ms=settings.jwks_refresh_ms,
            backoff_ms=settings.retry_backoff_ms,
            backoff_ms_max=settings.retry_backoff_ms_max,
            now_ms=clock.monotonic_ms(),
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="token-keys")
        self._is_due = asyncio.Event()
        self._is_due.set()
        self._fetched = asyncio.Event()
        """Set when the fetch that is due or in progress has ended."""

    async def verify(self, token: str) -> VerifiedToken:
        """Raises InvalidToken and NoKeysYet."""
        signed = read_token(token)
        key = self._key(signed)
        if key is None:
            await self._wait_for_keys()
            key = self._key(signed)
        if not self._keys.keys:
            raise NoKeysYet
        if key is None:
            raise unknown_key(signed)
        return verified(signed, key, self._settings, self._clock.wall_ms() // 1_000)

    async def run(self) -> None:
        """Keep the keys current until cancelled."""
        while True:
            wait_ms = self._refresh.due_ms - self._clock.monotonic_ms()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_due.wait(), max(0, wait_ms) / 1_000)
            self._is_due.set()
            await self._fetch_once()
            self._is_due.clear()
            ended, self._fetched = self._fetched, asyncio.Event()
            ended.set()

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _key(self, token: SignedToken) -> TokenKey | None:
        return self._keys.find(token.key_id, token.key_kind, token.algorithm)

    async def _wait_for_keys(self) -> None:
        """Wait for the fetch that is due or in progress, if there is one."""
        if self._refresh.unknown_key(self._clock.monotonic_ms()):
            self._is_due.set()
        if self._is_due.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._fetched.wait(), WAIT_S_MAX)

    async def _fetch_once(self) -> None:
        url = self._settings.jwks_url
        try:
            keys = await self._fetched_keys(url)
        except KeysUnavailable as error:
            if self._refresh.failed(self._clock.monotonic_ms()):
                has_earlier = bool(self._keys.keys)
                log.warning("token keys not fetched", url=url, reason=str(error), has_earlier_keys=has_earlier)
            return
        self._refresh.succeeded(self._clock.monotonic_ms())
        if [each.id for each in keys.keys] != [each.id for each in self._keys.keys]:
            log.info("token keys fetched", url=url, keys=len(keys.keys))
        self._keys = keys

    async def _fetched_keys(self, url: str) -> TokenKeys:
        fetching = asyncio.get_running_loop().run_in_executor(self._thread, lambda: read_keys(self._fetch(url)))
        try:
            # A little more than the thread allows itself: to look up a name has no deadline.
            return await asyncio.wait_for(fetching, FETCH_S_MAX + 1)
        except TimeoutError:
            raise KeysUnavailable(f"it had not arrived after {FETCH_S_MAX:g} s") from None
