"""Logins with the users of the metadata, on virtual time but for the passwords, which threads check."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import Counter
from collections.abc import Callable
from hashlib import pbkdf2_hmac
from typing import Any

import pytest
from msgspec.structs import replace

from kraft.metadata.records import UserRecord
from kraft.metadata.users import NO_USERS, Users, credential_record
from kraft.model.errors import ErrorCode
from kraft.model.principal import Principal
from kraft.runtime.clock import SystemClock
from kraft.runtime.entropy import SystemEntropy
from kraft.sasl.exchange import Challenge
from kraft.sasl.login import LoggedIn, LoginFailed, LoginRules, SaslLogin
from kraft.sasl.mechanisms import SaslMechanism
from kraft.sasl.plain import plain_message
from kraft.sasl.scram import ITERATIONS_MIN, ScramMechanism
from kraft.sasl.scram_client import ScramClient
from kraft.server.identity.authenticator import Authenticator
from kraft.server.identity.password_checks import PasswordChecks
from kraft.tokens.signed_tokens import InvalidToken, NoKeysYet, VerifiedToken
from tests.support.scram_users import credential, deletion_records, password_records, replayed, users

ADDRESS = "10.0.0.7"
TOKEN = b"n,,\x01auth=Bearer abc.def-_\x01\x01"
DELAY_MS = 200
PENCIL = credential("pencil")


class Verifier:
    has_keys = True

    async def verify(self, token: str) -> VerifiedToken:
        if not self.has_keys:
            raise NoKeysYet
        if token != "abc.def-_":
            raise InvalidToken("a token of nobody")
        return VerifiedToken(user="carol", expires_ms=SystemClock().wall_ms() + 60_000)


class Node:
    def __init__(self, known: Users, delay_ms: int = 0) -> None:
        self.users = known
        self.verifier = Verifier()
        self.authenticator = Authenticator(
            lambda: self.users, SystemEntropy(), SystemClock(), failure_delay_ms=delay_ms, verifier=self.verifier
        )

    def login(self, mechanism: str) -> SaslLogin:
        login = self.authenticator.begin(LoginRules(mechanisms=tuple(SaslMechanism)))
        login.handshake(mechanism, 0)
        return login

    async def log_in(self, mechanism: str, message: bytes) -> LoggedIn:
        answer = await self.authenticator.answer(self.login(mechanism), message, ADDRESS)
        assert isinstance(answer, LoggedIn)
        return answer

    async def refused(self, mechanism: str, message: bytes) -> LoginFailed:
        with pytest.raises(LoginFailed) as failed:
            await self.log_in(mechanism, message)
        return failed.value


@pytest.mark.real_time
@pytest.mark.parametrize("of", [(), (ScramMechanism.SHA_512,), (ScramMechanism.SHA_256,)])
async def test_plain_is_checked_against_whichever_credential_the_user_has(of: tuple[ScramMechanism, ...]) -> None:
    node = Node(users({"alice": "secret"}, *of))
    done = await node.log_in("PLAIN", plain_message("alice", "secret"))
    assert done.session.principal == Principal("alice")
    for user, password in (("alice", "secreT"), ("nobody", "secret"), ("ALICE", "secret")):
        failed = await node.refused("PLAIN", plain_message(user, password))
        assert failed.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert password not in failed.reason + failed.told
    node.authenticator.close()


async def test_how_a_login_ended_is_noted_once_and_without_its_secrets() -> None:
    noted: list[tuple[str, Any]] = []
    authenticator = Authenticator(
        lambda: users({"alice": "secret"}),
        SystemEntropy(),
        SystemClock(),
        failure_delay_ms=0,
        noted=lambda address, outcome: noted.append((address, outcome)),
    )

    def begun() -> SaslLogin:
        login = authenticator.begin(LoginRules(mechanisms=(SaslMechanism.SCRAM_SHA_256,)))
        login.handshake("SCRAM-SHA-256", 0)
        return login

    for password in ("secret", "wrong!"):
        login, client = begun(), ScramClient(ScramMechanism.SHA_256, "alice", password, "nonce")
        challenge = await authenticator.answer(login, client.first(), ADDRESS)
        assert len(noted) == (password == "wrong!"), "an exchange that goes on has not ended"
        try:
            await authenticator.answer(login, client.final(challenge.message), ADDRESS)
        except LoginFailed:
            assert password == "wrong!"
    (_, session), (address, failed) = noted
    assert session.principal == Principal("alice")
    assert address == ADDRESS
    assert failed.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "wrong!" not in failed.reason
    authenticator.close()


async def test_scram_logs_in_with_the_users_that_there_are_now() -> None:
    node = Node(NO_USERS)
    node.users = users({"alice": "secret"})
    login = node.login("SCRAM-SHA-512")
    client = ScramClient(ScramMechanism.SHA_512, "alice", "secret", "nonce")
    challenge = await node.authenticator.answer(login, client.first(), ADDRESS)
    assert isinstance(challenge, Challenge)
    done = await node.authenticator.answer(login, client.final(challenge.message), ADDRESS)
    client.finish(done.message)
    assert login.is_logged_in


async def test_each_exchange_has_a_nonce_of_its_own() -> None:
    node = Node(users({"alice": "secret"}))
    first = ScramClient(ScramMechanism.SHA_256, "alice", "secret", "nonce").first()
    answers = [await node.authenticator.answer(node.login("SCRAM-SHA-256"), first, ADDRESS) for _ in range(2)]
    assert answers[0].message != answers[1].message


async def test_a_token_says_who_the_client_is_and_for_how_long() -> None:
    node = Node(NO_USERS)
    done = await node.log_in("OAUTHBEARER", TOKEN)
    assert done.session.principal == Principal("carol")
    assert 59_000 < done.session.lifetime_ms <= 60_000
    assert node.authenticator.objection(done.session) is None, "it is no user of the metadata"
    answer = await node.authenticator.answer(node.login("OAUTHBEARER"), TOKEN.replace(b"abc", b"xyz"), ADDRESS)
    assert answer == Challenge(b'{"status":"invalid_token"}')


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("PLAIN", plain_message("alice", "wrong")),
        ("PLAIN", plain_message("nobody", "wrong")),
        ("PLAIN", b"nonsense"),
        ("SCRAM-SHA-256", b"nonsense"),
        ("OAUTHBEARER", b"nonsense"),
    ],
)
async def test_every_failure_is_told_after_the_same_time(mechanism: str, message: bytes) -> None:
    node = Node(users({"alice": "secret"}), DELAY_MS)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await node.refused(mechanism, message)
    # Not the time of the check and the delay, which would tell what was checked.
    assert DELAY_MS / 1_000 <= loop.time() - began_s < 5
    node.authenticator.close()


@pytest.mark.real_time
@pytest.mark.parametrize("iterations_most", [ITERATIONS_MIN, 3 * ITERATIONS_MIN])
async def test_a_failed_check_takes_the_same_work_whoever_the_user_is(
    iterations_most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha_256, sha_512 = ScramMechanism
    known = [
        *password_records("both", "secret"),
        credential_record("only SHA-256", sha_256, credential("secret", sha_256)),
        credential_record("only SHA-512", sha_512, credential("secret", sha_512)),
        credential_record("more iterations", sha_256, replace(PENCIL, iterations=iterations_most)),
        credential_record("many more", sha_512, replace(PENCIL, iterations=iterations_most)),
    ]
    node = Node(replayed(NO_USERS, known))
    work: Counter[str] = Counter()

    def counted(hash_name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        work[hash_name] += iterations
        return bytes(32)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted)
    for user in ("both", "only SHA-256", "only SHA-512", "more iterations", "many more", "nobody"):
        work.clear()
        await node.refused("PLAIN", plain_message(user, "wrong"))
        assert work == {"sha256": iterations_most, "sha512": iterations_most}, user
    node.authenticator.close()


@pytest.mark.real_time
async def test_a_password_that_fits_takes_no_more_work_than_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(users({"alice": "secret"}))
    took: list[int] = []

    def counted(*of: Any) -> bytes:
        took.append(of[-1])
        return pbkdf2_hmac(*of)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted)
    await node.log_in("PLAIN", plain_message("alice", "secret"))
    assert took == [ITERATIONS_MIN]
    node.authenticator.close()


@pytest.mark.real_time
async def test_a_session_must_not_go_on_without_its_user_but_may_with_another_password() -> None:
    node = Node(users({"alice": "secret", "bob": "secret"}))
    session = (await node.log_in("PLAIN", plain_message("alice", "secret"))).session
    node.users = users({"alice": "another", "bob": "secret"})
    assert node.authenticator.objection(session) is None
    node.users = users({"bob": "secret"})
    assert node.authenticator.objection(session) == "user 'alice' was deleted"
    node.authenticator.close()


@pytest.mark.real_time
async def test_a_session_must_not_go_on_with_another_user_of_the_same_name() -> None:
    node = Node(replayed(NO_USERS, password_records("alice", "secret")))
    session = (await node.log_in("PLAIN", plain_message("alice", "secret"))).session
    assert node.authenticator.objection(session) is None
    node.users = replayed(node.users, [*deletion_records("alice"), *password_records("alice", "secret")])
    assert node.authenticator.objection(session) == "user 'alice' was deleted"
    assert node.authenticator.objection(replace(session, user_creation=None)) is not None
    node.users = NO_USERS
    assert node.authenticator.objection(replace(session, user_creation=None)) is not None
    node.users = replayed(NO_USERS, password_records("alice", "secret"))
    again = (await node.log_in("PLAIN", plain_message("alice", "secret"))).session
    assert node.authenticator.objection(again) is None
    node.authenticator.close()


@pytest.mark.real_time
@pytest.mark.parametrize("change", [password_records("alice", "another"), deletion_records("alice")])
async def test_a_password_that_is_changed_while_it_is_checked_does_not_fit_any_more(change: list[UserRecord]) -> None:
    node = Node(replayed(NO_USERS, password_records("alice", "secret")))
    login = asyncio.ensure_future(node.refused("PLAIN", plain_message("alice", "secret")))
    await asyncio.sleep(0)
    node.users = replayed(node.users, change)
    assert (await login).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    node.authenticator.close()


class Gate:
    """Checks that note their names, and end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._may_end = threading.Semaphore(0)

    def check(self, name: str) -> Callable[[], bool]:
        def is_right() -> bool:
            self.begun.append(name)
            return self._may_end.acquire(timeout=30)

        return is_right

    def let_end(self, count: int) -> None:
        self._may_end.release(count)


@pytest.mark.real_time
async def test_addresses_take_turns_however_many_passwords_one_of_them_tries() -> None:
    checks, gate = PasswordChecks(), Gate()
    waiting = [asyncio.ensure_future(checks.check("10.6.6.6", gate.check(f"guess {number}"))) for number in range(5)]
    await asyncio.sleep(0)
    waiting += [asyncio.ensure_future(checks.check(host, gate.check(host))) for host in ("10.0.0.1", "10.0.0.2")]
    await asyncio.sleep(0)
    gate.let_end(7)
    assert await asyncio.wait_for(asyncio.gather(*waiting), 30) == [True] * 7
    assert gate.begun == ["guess 0", "10.0.0.1", "10.0.0.2", "guess 1", "guess 2", "guess 3", "guess 4"]
    checks.close()


@pytest.mark.real_time
async def test_a_client_that_is_gone_is_not_checked_any_more() -> None:
    checks, gate = PasswordChecks(), Gate()
    first, gone, last = (asyncio.ensure_future(checks.check("10.0.0.1", gate.check(name))) for name in "abc")
    await asyncio.sleep(0.01)
    gone.cancel()
    gate.let_end(3)
    assert [await asyncio.wait_for(each, 30) for each in (first, last)] == [True, True]
    assert gate.begun == ["a", "c"]
    checks.close()


@pytest.mark.real_time
async def test_a_check_that_fails_fails_alone() -> None:
    def broken() -> bool:
        raise ZeroDivisionError("a bug")

    checks, gate = PasswordChecks(), Gate()
    gate.let_end(1)
    failing = asyncio.ensure_future(checks.check("10.0.0.1", broken))
    right = asyncio.ensure_future(checks.check("10.0.0.1", gate.check("right")))
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(failing, 30)
    assert await asyncio.wait_for(right, 30)
    checks.close()


@pytest.mark.real_time
async def test_what_waits_ends_when_the_checks_end() -> None:
    checks, gate = PasswordChecks(), Gate()
    waiting = [asyncio.ensure_future(checks.check("10.0.0.1", gate.check(str(number)))) for number in range(2)]
    await asyncio.sleep(0.01)
    checks.close()
    gate.let_end(2)
    for each in waiting:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(each, 30)


async def test_a_token_that_cannot_be_verified_yet_is_not_refused_for_good() -> None:
    node = Node(NO_USERS)
    node.verifier.has_keys = False
    failed = await node.refused("OAUTHBEARER", TOKEN)
    assert failed.is_passing
    assert "has not fetched the keys" in failed.reason
    assert not (await node.refused("OAUTHBEARER", b"nonsense")).is_passing
