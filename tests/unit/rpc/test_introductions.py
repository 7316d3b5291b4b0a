from __future__ import annotations

import pytest

from kraft.rpc import introductions
from kraft.rpc.introductions import (
    PROCESS_BYTES,
    SESSIONS_MAX,
    WINDOW,
    ClusterSecrets,
    Introduction,
    SessionBook,
    SessionForgotten,
    Unintroduced,
)

SECRETS = ClusterSecrets([b"the secret of the cluster"])
OTHERS = ClusterSecrets([b"the secret of another cluster"])
METHOD = "/kraft.v1.Controller/Heartbeat"


def introduction(session: bytes, count: int = 1) -> Introduction:
    return Introduction(cluster_id="cluster", node_id=3, session=session, count=count)


def book() -> SessionBook:
    return SessionBook(bytes(PROCESS_BYTES))


def test_an_introduction_is_accepted_by_a_node_with_the_secret() -> None:
    said = introduction(book().open(), count=7)
    assert Introduction.from_header(SECRETS, METHOD, said.to_header(SECRETS.primary, METHOD)) == said


def test_the_header_does_not_hold_the_secret() -> None:
    header = introduction(book().open()).to_header(SECRETS.primary, METHOD)
    assert "secret" not in header
    assert SECRETS.primary.key.hex() not in header


def test_an_introduction_with_another_secret_is_refused() -> None:
    header = introduction(book().open()).to_header(OTHERS.primary, METHOD)
    with pytest.raises(Unintroduced, match="its cluster secret differs"):
        Introduction.from_header(SECRETS, METHOD, header)


def test_an_introduction_holds_for_one_method_only() -> None:
    header = introduction(book().open()).to_header(SECRETS.primary, METHOD)
    with pytest.raises(Unintroduced, match="secret"):
        Introduction.from_header(SECRETS, "/kraft.v1.Raft/Exchange", header)


@pytest.mark.parametrize("part", range(7))
def test_no_part_of_an_introduction_can_be_changed(part: int) -> None:
    parts = introduction(book().open()).to_header(SECRETS.primary, METHOD).split(" ")
    parts[part] = {2: "other", 3: "4", 5: "2"}.get(part, "ff" + parts[part][2:])
    with pytest.raises(Unintroduced):
        Introduction.from_header(SECRETS, METHOD, " ".join(parts))


@pytest.mark.parametrize("header", ["", "1", "1 2 3 4 5 6 7", "1 zz c 1 00 1 00", "1 00 c x 00 1 00", " " * 6])
def test_garbage_is_no_introduction(header: str) -> None:
    with pytest.raises(Unintroduced):
        Introduction.from_header(SECRETS, METHOD, header)


def test_the_first_secret_is_used_and_a_second_one_is_accepted() -> None:
    both = ClusterSecrets([b"the old one", b"the new one"])
    new = ClusterSecrets([b"the new one"])
    header = introduction(book().open()).to_header(new.primary, METHOD)
    assert Introduction.from_header(both, METHOD, header).node_id == 3
    assert both.primary == ClusterSecrets([b"the old one"]).primary


def test_secrets_are_replaced_for_all_who_hold_them_and_a_removed_one_admits_nobody() -> None:
    held = ClusterSecrets([b"the old one"])
    header = introduction(book().open()).to_header(held.primary, METHOD)
    assert not held.replace(ClusterSecrets([b"the old one"]))
    assert held.replace(ClusterSecrets([b"the new one", b"the old one"]))
    assert Introduction.from_header(held, METHOD, header).node_id == 3
    assert held.replace(ClusterSecrets([b"the new one"]))
    with pytest.raises(Unintroduced, match="its cluster secret differs"):
        Introduction.from_header(held, METHOD, header)
    assert held.generation == 2


def test_a_proof_holds_for_one_nonce_and_one_session() -> None:
    proof = introductions.prove(SECRETS.primary, b"nonce", b"session")
    assert introductions.is_proof(SECRETS.primary, b"nonce", b"session", proof)
    assert not introductions.is_proof(SECRETS.primary, b"other", b"session", proof)
    assert not introductions.is_proof(SECRETS.primary, b"nonce", b"other", proof)
    assert not introductions.is_proof(SECRETS.primary, b"nonces", b"ession", proof)
    assert not introductions.is_proof(OTHERS.primary, b"nonce", b"session", proof)


def test_each_call_of_a_session_counts_once_in_any_order() -> None:
    sessions = book()
    session = sessions.open()
    for count in (1, 5, 3, 2, 4, 5 + WINDOW - 1):
        sessions.admit(introduction(session, count))
    for count in (1, 2, 3, 4, 5, 5 + WINDOW - 1, 0, -1):
        with pytest.raises(Unintroduced, match="repeated"):
            sessions.admit(introduction(session, count))


def test_a_leap_leaves_no_gap_through_which_a_call_could_be_repeated() -> None:
    sessions = book()
    session = sessions.open()
    for count in (1, 10 * WINDOW):
        sessions.admit(introduction(session, count))
    for count in (1, 9 * WINDOW, 10 * WINDOW):
        with pytest.raises(Unintroduced, match="repeated"):
            sessions.admit(introduction(session, count))
    sessions.admit(introduction(session, 10 * WINDOW - 1))


def test_a_session_of_another_process_is_refused() -> None:
    session = SessionBook(b"\x01" * PROCESS_BYTES).open()
    with pytest.raises(SessionForgotten, match="earlier process"):
        book().admit(introduction(session))


@pytest.mark.parametrize(
    "session",
    [
        b"",
        bytes(PROCESS_BYTES),
        bytes(PROCESS_BYTES + 8),
        bytes(PROCESS_BYTES + 9),
        bytes(PROCESS_BYTES) + (1).to_bytes(8, "big"),
    ],
)
def test_a_session_that_was_never_opened_is_refused(session: bytes) -> None:
    with pytest.raises(Unintroduced) as refused:
        book().admit(introduction(session))
    assert not isinstance(refused.value, SessionForgotten)


def test_sessions_that_nobody_used_cost_nothing_and_old_ones_are_forgotten_for_good() -> None:
    sessions = book()
    first = sessions.open()
    sessions.admit(introduction(first))
    for _ in range(SESSIONS_MAX):
        sessions.admit(introduction(sessions.open()))
    with pytest.raises(SessionForgotten, match="too old"):
        sessions.admit(introduction(first, 2))
    for _ in range(10):
        sessions.open()
    assert len(sessions._calls) == SESSIONS_MAX
