"""The login of one connection, step by step, and any steps in any order."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.model.errors import ErrorCode
from kraft.model.principal import Principal
from kraft.sasl.exchange import Challenge, CheckPassword, CheckToken
from kraft.sasl.login import (
    AGAIN_AFTER_MS,
    MESSAGE_BYTES_MAX,
    TOKEN_MESSAGE_BYTES_MAX,
    LoggedIn,
    LoginFailed,
    LoginRules,
    Moment,
    SaslLogin,
)
from kraft.sasl.mechanisms import SaslMechanism
from kraft.sasl.plain import plain_message
from kraft.sasl.scram import ScramCredential, ScramMechanism, ScramServer, fake_credential
from kraft.sasl.scram_client import ScramClient
from tests.support.scram_users import credential

ALL = tuple(SaslMechanism)
TOKEN = b"n,,\x01auth=Bearer abc.def-_\x01\x01"
CREDENTIALS = {
    (user, mechanism): credential(f"{user}'s password", mechanism)
    for user in ("alice", "bob")
    for mechanism in ScramMechanism
}


def at(monotonic_ms: int) -> Moment:
    """A time; the clock of the day is a million ms ahead."""
    return Moment(wall_ms=monotonic_ms + 1_000_000, monotonic_ms=monotonic_ms)


class Known:
    """Alice and bob, who were made as the users 7 and 8."""

    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        return CREDENTIALS.get((user, mechanism)) or fake_credential(mechanism, b"key", user)

    def creation(self, user: str) -> int | None:
        return {"alice": 7, "bob": 8}.get(user)


def login(*mechanisms: SaslMechanism, reauthentication_ms_max: int = 0) -> SaslLogin:
    rules = LoginRules(mechanisms=mechanisms or ALL, reauthentication_ms_max=reauthentication_ms_max)
    return SaslLogin(rules, Known, lambda: "servers-nonce")


def log_in_with_scram(machine: SaslLogin, mechanism: ScramMechanism, user: str, now_ms: int = 0) -> LoggedIn:
    client = ScramClient(mechanism, user, f"{user}'s password", "clients-nonce")
    machine.handshake(mechanism.value, now_ms)
    challenge = machine.received(client.first(), at(now_ms))
    assert isinstance(challenge, Challenge)
    done = machine.received(client.final(challenge.message), at(now_ms))
    assert isinstance(done, LoggedIn)
    client.finish(done.message)
    return done


def log_in_with_plain(machine: SaslLogin, user: str, now_ms: int = 0) -> LoggedIn:
    machine.handshake("PLAIN", now_ms)
    assert machine.received(plain_message(user, "secret"), at(now_ms)) == CheckPassword(user, "secret")
    return machine.password_checked(True, at(now_ms))


def test_a_client_asks_for_the_versions_shakes_hands_and_logs_in() -> None:
    machine = login()
    machine.versions_told()
    done = log_in_with_scram(machine, ScramMechanism.SHA_512, "alice")
    assert machine.is_logged_in
    assert machine.session == done.session
    assert (done.session.principal, done.session.mechanism) == (Principal("alice"), SaslMechanism.SCRAM_SHA_512)
    assert (done.session.lifetime_ms, done.session.ends_at_ms) == (0, None)
    assert done.session.user_creation == 7
    assert not done.session.is_over(1 << 60)


def test_nothing_is_kept_of_an_exchange_that_is_over() -> None:
    """Its first message may have 8 KiB, and a connection lasts for weeks."""
    machine = login(reauthentication_ms_max=60_000)
    log_in_with_scram(machine, ScramMechanism.SHA_256, "alice")
    assert not any(isinstance(kept, ScramServer) for kept in gc.get_referents(machine, machine.__dict__))


def test_plain_logs_in_once_its_password_is_checked() -> None:
    machine = login()
    done = log_in_with_plain(machine, "alice")
    assert (done.message, done.session.principal) == (b"", Principal("alice"))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "GSSAPI", "", "plain", "SCRAM-SHA-512"])
def test_a_mechanism_that_is_not_enabled_is_refused(mechanism: str) -> None:
    machine = login(SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256)
    with pytest.raises(LoginFailed) as failed:
        machine.handshake(mechanism, 0)
    assert failed.value.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert failed.value.told == f"Unsupported SASL mechanism {mechanism}"
    assert machine.mechanisms == (SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256)


def test_little_is_said_of_the_long_name_of_a_mechanism() -> None:
    with pytest.raises(LoginFailed) as failed:
        login().handshake("\x01" * 500_000, 0)
    assert len(failed.value.told) + len(failed.value.reason) < 1_000


def test_wrong_passwords_are_refused_with_kafkas_texts() -> None:
    machine = login()
    machine.handshake("PLAIN", 0)
    machine.received(plain_message("alice", "guessed"), at(0))
    with pytest.raises(LoginFailed) as plain:
        machine.password_checked(False, at(0))
    assert plain.value.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert plain.value.told == "Authentication failed: Invalid username or password"
    assert "guessed" not in plain.value.reason

    machine = login()
    machine.handshake("SCRAM-SHA-256", 0)
    client = ScramClient(ScramMechanism.SHA_256, "alice", "guessed", "nonce")
    challenge = machine.received(client.first(), at(0))
    assert isinstance(challenge, Challenge)
    with pytest.raises(LoginFailed) as scram:
        machine.received(client.final(challenge.message), at(0))
    assert scram.value.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert scram.value.told == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )
    assert not machine.is_logged_in


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_an_unknown_user_is_told_the_same_as_one_with_another_password(mechanism: ScramMechanism) -> None:
    told = []
    for user in ("alice", "nobody"):
        machine = login()
        machine.handshake(mechanism.value, 0)
        client = ScramClient(mechanism, user, "guessed", "nonce")
        challenge = machine.received(client.first(), at(0))
        assert isinstance(challenge, Challenge)
        with pytest.raises(LoginFailed) as failed:
            machine.received(client.final(challenge.message), at(0))
        told.append((failed.value.error_code, failed.value.told))
    assert told[0] == told[1]


def test_a_message_before_the_handshake_is_refused() -> None:
    with pytest.raises(LoginFailed, match="SASL_AUTHENTICATE during SASL handshake") as failed:
        login().received(b"\0alice\0secret", at(0))
    assert failed.value.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_versions_are_told_once_and_not_during_an_exchange() -> None:
    machine = login()
    machine.versions_told()
    with pytest.raises(LoginFailed, match="API_VERSIONS during SASL handshake"):
        machine.versions_told()
    machine = login()
    machine.handshake("PLAIN", 0)
    with pytest.raises(LoginFailed, match="API_VERSIONS during SASL authentication"):
        machine.versions_told()


def test_the_mechanism_cannot_be_changed_during_the_exchange() -> None:
    machine = login()
    machine.handshake("SCRAM-SHA-256", 0)
    machine.received(ScramClient(ScramMechanism.SHA_256, "alice", "", "nonce").first(), at(0))
    with pytest.raises(LoginFailed) as failed:
        machine.handshake("PLAIN", 0)
    assert failed.value.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert failed.value.told == "Unexpected Kafka request of type SASL_HANDSHAKE during SASL authentication."
    with pytest.raises(LoginFailed):
        machine.received(plain_message("alice", "secret"), at(0))


@pytest.mark.parametrize("mechanism", ALL)
def test_a_message_that_is_too_long_is_refused_unread(mechanism: SaslMechanism) -> None:
    bytes_max = TOKEN_MESSAGE_BYTES_MAX if mechanism is SaslMechanism.OAUTHBEARER else MESSAGE_BYTES_MAX
    machine = login()
    machine.handshake(mechanism, 0)
    with pytest.raises(LoginFailed, match="is longer than") as failed:
        machine.received(b"x" * (bytes_max + 1), at(0))
    assert failed.value.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    machine = login()
    machine.handshake(mechanism, 0)
    with pytest.raises(LoginFailed, match="login failed: the"):
        machine.received(b"x" * bytes_max, at(0))


def test_a_token_that_was_refused_ends_the_login_with_the_clients_next_message() -> None:
    machine = login()
    machine.handshake("OAUTHBEARER", 0)
    assert machine.received(TOKEN, at(0)) == CheckToken("abc.def-_")
    assert machine.token_refused("expired") == Challenge(b'{"status":"invalid_token"}')
    with pytest.raises(LoginFailed) as failed:
        machine.received(b"\x01", at(0))
    assert failed.value.told == '{"status":"invalid_token"}'
    assert failed.value.reason.endswith("expired")


@pytest.mark.parametrize(
    ("reauthentication_ms_max", "token_ms", "lifetime_ms"), [(0, 5_000, 5_000), (3_000, 5_000, 3_000), (9_000, 5, 5)]
)
def test_a_session_ends_with_its_token_or_earlier(
    reauthentication_ms_max: int, token_ms: int, lifetime_ms: int
) -> None:
    machine = login(reauthentication_ms_max=reauthentication_ms_max)
    machine.handshake("OAUTHBEARER", 700)
    machine.received(TOKEN, at(700))
    session = machine.token_checked("carol", at(700).wall_ms + token_ms, at(700)).session
    assert (session.lifetime_ms, session.ends_at_ms) == (lifetime_ms, 700 + lifetime_ms)
    assert session.user_creation is None
    assert not session.is_over(700 + lifetime_ms)
    assert session.is_over(701 + lifetime_ms)


def test_a_token_that_has_expired_meanwhile_makes_a_session_that_is_over() -> None:
    machine = login()
    machine.handshake("OAUTHBEARER", 0)
    machine.received(TOKEN, at(0))
    session = machine.token_checked("carol", at(0).wall_ms - 1, at(0)).session
    assert session.lifetime_ms == 0
    assert session.is_over(1)


def test_a_client_logs_in_again_as_the_same_user_with_the_same_mechanism() -> None:
    machine = login(reauthentication_ms_max=60_000)
    first = log_in_with_scram(machine, ScramMechanism.SHA_256, "alice", 0)
    again = log_in_with_scram(machine, ScramMechanism.SHA_256, "alice", 50_000)
    assert (first.session.ends_at_ms, again.session.ends_at_ms) == (60_000, 110_000)
    assert machine.session == again.session


def test_a_client_cannot_log_in_again_as_another_user() -> None:
    machine = login(reauthentication_ms_max=60_000)
    log_in_with_plain(machine, "alice")
    with pytest.raises(LoginFailed) as failed:
        log_in_with_plain(machine, "bob", 50_000)
    assert failed.value.told == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert machine.session is not None
    assert machine.session.principal == Principal("alice")
    assert machine.has_failed


def test_a_client_cannot_log_in_again_with_another_mechanism() -> None:
    machine = login(reauthentication_ms_max=60_000)
    log_in_with_plain(machine, "alice")
    machine.handshake("SCRAM-SHA-256", 50_000)
    with pytest.raises(LoginFailed) as failed:
        machine.received(ScramClient(ScramMechanism.SHA_256, "alice", "", "nonce").first(), at(50_000))
    assert failed.value.told == (
        "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    )


def test_a_wrong_password_while_logging_in_again_is_called_so() -> None:
    machine = login(reauthentication_ms_max=60_000)
    log_in_with_scram(machine, ScramMechanism.SHA_256, "alice")
    machine.handshake("SCRAM-SHA-256", 50_000)
    with pytest.raises(LoginFailed) as failed:
        machine.received(b"nonsense", at(50_000))
    assert "during re-authentication due to" in failed.value.told


def test_nobody_logs_in_again_without_need_or_too_often() -> None:
    without_end = login()
    log_in_with_plain(without_end, "alice")
    assert not without_end.may_begin_again(1 << 60)

    machine = login(reauthentication_ms_max=60_000)
    assert not machine.may_begin_again(0)
    log_in_with_plain(machine, "alice", 0)
    assert machine.may_begin_again(0)
    log_in_with_plain(machine, "alice", 0)
    assert not machine.may_begin_again(AGAIN_AFTER_MS - 1)
    assert machine.may_begin_again(AGAIN_AFTER_MS)


_MESSAGES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            plain_message("alice", "secret"),
            plain_message("bob", "secret"),
            TOKEN,
            b"\x01",
            ScramClient(ScramMechanism.SHA_256, "alice", "", "nonce").first(),
            b"c=biws,r=nonceservers-nonce,p=AAAA",
        ]
    ),
)
_STEPS = st.one_of(
    st.just(("versions", None)),
    st.tuples(st.just("handshake"), st.sampled_from([*(each.value for each in SaslMechanism), "GSSAPI"])),
    st.tuples(st.just("message"), _MESSAGES),
    st.tuples(st.just("right"), st.booleans()),
    st.tuples(st.just("scram"), st.sampled_from(["alice", "bob"])),
    st.tuples(st.just("wait"), st.integers(0, 5_000)),
)


@given(
    st.lists(_STEPS, max_size=12),
    st.sampled_from([0, 2_000]),
    st.sets(st.sampled_from(ALL), min_size=1).map(tuple),
)
def test_nobody_gets_in_but_by_a_check_and_nobody_changes(
    steps: list[tuple[str, object]], reauthentication_ms_max: int, mechanisms: tuple[SaslMechanism, ...]
) -> None:
    machine = login(*mechanisms, reauthentication_ms_max=reauthentication_ms_max)
    now_ms, asked, proven = 0, None, set()
    first = None
    for kind, value in steps:
        failed_before = machine.has_failed
        try:
            match kind, value:
                case "versions", _:
                    machine.versions_told()
                case "handshake", str(mechanism):
                    machine.handshake(mechanism, now_ms)
                    assert mechanism in mechanisms
                case "message", bytes(message):
                    asked = machine.received(message, at(now_ms))
                    assert not isinstance(asked, LoggedIn), "nothing here is the answer to a challenge"
                case "right", bool(is_right):
                    if isinstance(asked, CheckPassword):
                        proven |= {asked.user} if is_right else set()
                        machine.password_checked(is_right, at(now_ms))
                    elif isinstance(asked, CheckToken):
                        proven.add("carol")
                        machine.token_checked("carol", at(now_ms).wall_ms + 3_000, at(now_ms))
                    asked = None
                case "scram", str(user):
                    proven.add(user)
                    log_in_with_scram(machine, ScramMechanism.SHA_256, user, now_ms)
                case _, wait:
                    assert isinstance(wait, int)
                    now_ms += wait
        except LoginFailed:
            assert machine.has_failed
            asked = None
        assert machine.has_failed or not failed_before, "a login that failed has ended"
        if machine.session is not None:
            first = first or machine.session
            assert machine.session.principal.name in proven
            assert (machine.session.principal, machine.session.mechanism) == (first.principal, first.mechanism)
            assert machine.session.mechanism in mechanisms
