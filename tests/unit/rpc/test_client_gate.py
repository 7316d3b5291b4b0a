"""What clients have open when users change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from itertools import pairwise

import pytest

from kraft.model.principal import Principal
from kraft.rpc import client_gate
from kraft.rpc.client_gate import ClientGate
from kraft.rpc.session_tokens import TOKEN_KEY_BYTES, SessionOver, SessionTokens
from kraft.sasl.login import Session
from kraft.sasl.mechanisms import SaslMechanism

ALICE, BOB = (Session(principal=Principal(user), mechanism=SaslMechanism.PLAIN) for user in ("alice", "bob"))


async def silence() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


async def test_of_many_calls_that_end_only_some_end_in_one_turn_and_those_of_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_gate, "CHECKED_AT_ONCE_MAX", 6)
    monkeypatch.setattr(client_gate, "ENDED_COUNT", 3)
    deleted: set[Session] = set()
    looked_at: list[Session] = []

    def objection(session: Session) -> str | None:
        looked_at.append(session)
        return "deleted" if session in deleted else None

    gate = ClientGate(SessionTokens(bytes(TOKEN_KEY_BYTES), lambda: 0, objection), "log in")
    with ExitStack() as opened:
        sessions = [ALICE, BOB] * 5
        messages = [opened.enter_context(gate.messages(silence(), each)) for each in sessions]
        waiting = [asyncio.ensure_future(anext(each)) for each in messages]
        await asyncio.sleep(0)
        gate.users_changed()
        await asyncio.sleep(0)
        assert len(looked_at) == 10, "six, and then the others"
        deleted.add(ALICE)
        ended = [0]
        gate.users_changed()
        # Users change again meanwhile: all are looked at again.
        gate.users_changed()
        for _ in range(9):
            await asyncio.sleep(0)
            ended.append(sum(each.done() for each in waiting))
        assert ended[-1] == 5
        assert max(after - before for before, after in pairwise(ended)) <= 2
        for session, each in zip(sessions, waiting, strict=True):
            if session is BOB:
                assert not each.done()
                each.cancel()
            else:
                assert isinstance(each.exception(), SessionOver)
        await asyncio.wait(waiting)
