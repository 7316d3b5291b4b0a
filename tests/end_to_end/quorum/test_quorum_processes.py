"""Three voters as processes, killed without warning under load: no acknowledged entry is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO

from kraft.local.forked_processes import ForkedProcess
from kraft.local.free_ports import ReservedPorts
from tests.end_to_end.quorum import quorum_voter
from tests.support.command_line import PROGRAMS

DEADLINE_S = 30.0
LEADER_KILLS = 2
ENTIRE_KILLS = 2
WINDOW = 16


class VoterProcess:
    """One process, and what it answered so far."""

    def __init__(self, node_id: int, directory: Path, ports: list[int]) -> None:
        self.node_id = node_id
        self._command = [
            *(sys.executable, "-m", quorum_voter.__name__),
            str(node_id),
            str(directory / str(node_id)),
            ",".join(f"{voter}={port}" for voter, port in enumerate(ports, start=1)),
        ]
        self._process: ForkedProcess | None = None
        self._questions: IO[bytes]
        self._lines: asyncio.StreamReader
        self._reader: asyncio.Task[None] | None = None
        self._has_fallen_silent = False
        self._answers: dict[str, asyncio.Future[list[str]]] = {}

    async def start(self) -> None:
        self._lines = asyncio.StreamReader()
        answers = self._launch()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self._lines), answers)
        self._has_fallen_silent = False
        assert await self._line() == "started"
        self._reader = asyncio.create_task(self._read())

    def _launch(self) -> IO[bytes]:
        """Start the process; return the pipe of its answers."""
        (given, writing_end), (reading_end, output) = os.pipe(), os.pipe()
        with os.fdopen(given, "rb") as stdin, os.fdopen(output, "wb") as stdout, os.fdopen(os.dup(2), "wb") as stderr:
            self._process = PROGRAMS.start(self._command, stdin, stdout, stderr)
        self._questions = os.fdopen(writing_end, "wb", 0)
        return os.fdopen(reading_end, "rb")

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self._ended()

    async def stop(self) -> None:
        if self._process is None:
            return
        self._questions.close()
        try:
            await asyncio.to_thread(self._process.wait, DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        await self._ended()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def ask(self, question: str, key: str) -> list[str]:
        """Return the words of the answer; none if the process died before it."""
        if self._process is None or self._has_fallen_silent:
            return []
        answer = self._answers.setdefault(key, asyncio.get_running_loop().create_future())
        with suppress(BrokenPipeError):
            self._questions.write(question.encode() + b"\n")
        async with asyncio.timeout(DEADLINE_S):
            return await asyncio.shield(answer)

    async def acknowledges(self, text: str) -> bool:
        return (await self.ask(f"propose {text}", text))[:1] == ["ok"]

    async def leads(self) -> bool:
        return (await self.ask("status", "status"))[1:2] == ["1"]

    async def committed(self) -> list[str]:
        return await self.ask("dump", "dump")

    async def _ended(self) -> None:
        if self._process is not None:
            await asyncio.to_thread(self._process.wait, DEADLINE_S)
            self._questions.close()
            self._process = None
        if self._reader is not None:
            await self._reader
            self._reader = None

    async def _line(self) -> str:
        async with asyncio.timeout(DEADLINE_S):
            return (await self._lines.readline()).decode().strip()

    async def _read(self) -> None:
        while line := (await self._lines.readline()).decode().strip():
            word, *rest = line.split(" ")
            if word == "dump":
                self._answer("dump", [await self._line() for _ in range(int(rest[0]))])
            else:
                self._answer("status" if word == "status" else rest[0], [word, *rest])
        self._has_fallen_silent = True
        for key in list(self._answers):
            self._answer(key, [])

    def _answer(self, key: str, words: list[str]) -> None:
        answer = self._answers.pop(key, None)
        if answer is not None and not answer.done():
            answer.set_result(words)


class Load:
    """Proposes numbered texts to the leader, a window of them at a time, and records which were acknowledged."""

    def __init__(self, voters: list[VoterProcess], name: str) -> None:
        self._voters = voters
        self._name = name
        self._count = 0
        self.acknowledged: list[str] = []
        self.last_at_s = 0.0
        self.acknowledged_again = asyncio.Event()
        self._tasks = [asyncio.create_task(self._propose()) for _ in range(WINDOW)]

    async def _propose(self) -> None:
        leader: VoterProcess | None = None
        while True:
            leader = leader or await find_leader(self._voters)
            if leader is None:
                await asyncio.sleep(0.01)
                continue
            self._count += 1
            text = f"{self._name}-{self._count}"
            if await leader.acknowledges(text):
                self.acknowledged.append(text)
                self.last_at_s = time.monotonic()
                self.acknowledged_again.set()
            else:
                leader = None
                await asyncio.sleep(0.01)

    async def goes_on(self, count: int) -> None:
        """Wait for that many more acknowledgements."""
        goal = len(self.acknowledged) + count
        async with asyncio.timeout(DEADLINE_S):
            while len(self.acknowledged) < goal:
                self.acknowledged_again.clear()
                await self.acknowledged_again.wait()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def find_leader(voters: list[VoterProcess]) -> VoterProcess | None:
    for voter in voters:
        if await voter.leads():
            return voter
    return None


async def wait_for_leader(voters: list[VoterProcess]) -> VoterProcess:
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        leader = await find_leader(voters)
        if leader is not None:
            return leader
        await asyncio.sleep(0.01)
    raise TimeoutError("no leader")


async def acknowledged(voters: list[VoterProcess], name: str) -> tuple[VoterProcess, str]:
    """Propose texts of that name until a leader acknowledges one; return both.

    A leader that is replaced meanwhile, or gets no processor, does not know what becomes of a text.
    """
    async with asyncio.timeout(DEADLINE_S):
        for attempt in count():
            leader, text = await wait_for_leader(voters), f"{name}-{attempt}"
            if await leader.acknowledges(text):
                return leader, text
            await asyncio.sleep(0.01)
    raise AssertionError("never reached")


async def assert_all_hold(voters: list[VoterProcess], texts: list[str]) -> list[str]:
    """Check that every voter has each acknowledged entry once, and all have the same entries in the same order."""
    leader, final = await acknowledged(voters, f"final-{len(texts)}")
    expected = await leader.committed()
    committed = [line.split(" ")[1] for line in expected]
    assert {*texts, final} <= set(committed), "acknowledged and gone"
    assert len(set(committed)) == len(committed), "applied twice"
    for voter in voters:
        await wait_until_committed(voter, expected)
    return expected


async def wait_until_committed(voter: VoterProcess, expected: list[str]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while await voter.committed() != expected:
        assert time.monotonic() < deadline_s, f"node {voter.node_id} does not catch up"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def three_voters(directory: Path) -> AsyncIterator[list[VoterProcess]]:
    with ReservedPorts(3) as ports:
        voters = [VoterProcess(node_id, directory, ports) for node_id in (1, 2, 3)]
        try:
            await asyncio.gather(*(voter.start() for voter in voters))
            yield voters
        finally:
            await asyncio.gather(*(voter.stop() for voter in voters))


def play(directory: Path, scene: Callable[[list[VoterProcess]], Awaitable[None]]) -> None:
    async def run() -> None:
        async with three_voters(directory) as voters:
            await scene(voters)

    asyncio.run(run())


def test_nothing_acknowledged_is_lost_when_leaders_are_killed_under_load(tmp_path: Path) -> None:
    new_commit_s: list[float] = []

    async def scene(voters: list[VoterProcess]) -> None:
        load = Load(voters, "entry")
        await load.goes_on(100)
        for _ in range(LEADER_KILLS):
            leader = await wait_for_leader(voters)
            await leader.kill()
            killed_at_s = time.monotonic()
            await load.goes_on(1)
            new_commit_s.append(load.last_at_s - killed_at_s)
            await leader.start()
            await load.goes_on(100)
        await load.stop()
        await assert_all_hold(voters, load.acknowledged)

    play(tmp_path, scene)
    low, middle, high = min(new_commit_s), statistics.median(new_commit_s), max(new_commit_s)
    print(f"kill -9 of the leader to the next commit, {LEADER_KILLS} times: {low:.2f} / {middle:.2f} / {high:.2f} s")


def test_nothing_acknowledged_is_lost_when_all_voters_are_killed_at_once(tmp_path: Path) -> None:
    async def scene(voters: list[VoterProcess]) -> None:
        texts: list[str] = []
        for kill in range(ENTIRE_KILLS):
            load = Load(voters, f"round-{kill}")
            await load.goes_on(200)
            await asyncio.gather(*(voter.kill() for voter in voters))
            await load.stop()
            texts += load.acknowledged
            await asyncio.gather(*(voter.start() for voter in voters))
            await assert_all_hold(voters, texts)

    play(tmp_path, scene)


def test_a_leader_that_was_frozen_does_not_act_on_what_it_believed(tmp_path: Path) -> None:
    async def scene(voters: list[VoterProcess]) -> None:
        frozen, before = await acknowledged(voters, "before")
        frozen.signal(signal.SIGSTOP)
        others = [voter for voter in voters if voter is not frozen]
        _, meanwhile = await acknowledged(others, "meanwhile")
        answer = asyncio.create_task(frozen.acknowledges("stale"))
        await asyncio.sleep(0)
        frozen.signal(signal.SIGCONT)
        assert not await answer
        expected = await assert_all_hold(voters, [before, meanwhile])
        assert not any(line.endswith("stale") for line in expected)

    play(tmp_path, scene)
