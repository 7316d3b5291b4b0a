"""Users that the file names become users of the metadata, if they do not exist."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from kraft.metadata.features import METADATA_VERSION, USERS_AS_METADATA
from kraft.metadata.image import MetadataImage
from kraft.metadata.imported_users import ImportUsersRequest, ImportUsersResult, import_users
from kraft.metadata.records import FeatureLevelSet, UserRecord
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.password import Password
from kraft.rpc.cluster_calls import IMPORT_USERS
from kraft.sasl.scram import ScramMechanism, has_password
from kraft.server.broker import imported_users
from kraft.server.broker.imported_users import UserImport
from kraft.server.handlers.forwarding import Forwarder, IsApplied
from tests.support.cluster_images import cluster as cluster_image
from tests.support.scram_users import password_records
from tests.support.virtual_time import Unchanging

IMPORTED = "users of the configuration file imported"
NOT_IMPORTED = "users of the configuration file not imported"
BOTH = {"alice": Password("written"), "bob": Password("bob's")}


class Cluster:
    """Its metadata, and an active controller that does not answer the first `refusals` requests."""

    def __init__(self, before: MetadataImage, refusals: int = 0) -> None:
        self.image = before
        self.refusals = refusals
        self.refuses: Refusal | None = None
        """The active controller's answer to the next request."""
        self.requests: list[ImportUsersRequest] = []
        self.meanwhile: list[UserRecord] = []
        """What is committed before the next request."""

    async def decided(
        self, call: object, request: ImportUsersRequest, is_applied: IsApplied[Any, Any]
    ) -> ImportUsersResult:
        assert call is IMPORT_USERS
        if self.refusals:
            self.refusals -= 1
            raise Refusal(ErrorCode.REQUEST_TIMED_OUT, "no active controller")
        if self.refuses is not None:
            refused, self.refuses = self.refuses, None
            return ImportUsersResult(error_code=refused.error_code, error_message=refused.message)
        self.requests.append(request)
        self.image = self.image.replay(self.meanwhile)
        decision = import_users(self.image, request)
        self.image = self.image.replay(decision.records)
        assert is_applied(self.image, request, decision.response)
        return decision.response

    def has(self, user: str, password: str, mechanism: ScramMechanism) -> bool:
        return has_password(mechanism, self.image.users.credential(user, mechanism), password)

    async def import_users(self) -> list[str]:
        """Return the events that were logged, in which no password is."""
        with capture_logs() as logged:
            await UserImport(BOTH, cast(Forwarder, self), Unchanging()).run()
        assert not any(password.text in repr(logged) for password in BOTH.values())
        return [str(each["event"]) for each in logged]


def cluster(refusals: int = 0) -> Cluster:
    level = FeatureLevelSet(feature=METADATA_VERSION, level=USERS_AS_METADATA)
    return Cluster(cluster_image(1).replay([level]), refusals)


@pytest.mark.real_time
async def test_users_are_made_with_both_credentials() -> None:
    nodes = cluster()
    assert await nodes.import_users() == [IMPORTED]
    for mechanism in ScramMechanism:
        assert nodes.has("alice", "written", mechanism)
        assert nodes.has("bob", "bob's", mechanism)


@pytest.mark.real_time
async def test_a_user_that_exists_is_never_changed() -> None:
    nodes = cluster()
    await nodes.import_users()
    before = nodes.image
    nodes.requests.clear()
    assert await nodes.import_users() == [NOT_IMPORTED]
    assert (nodes.image, nodes.requests) == (before, [])


@pytest.mark.real_time
async def test_a_user_that_is_made_meanwhile_is_not_changed_either() -> None:
    nodes = cluster()
    nodes.meanwhile = password_records("alice", "another")
    assert await nodes.import_users() == [IMPORTED]
    (request,) = nodes.requests
    assert [user.name for user in request.users] == ["alice", "bob"], "there was no alice yet"
    for mechanism in ScramMechanism:
        assert nodes.has("alice", "another", mechanism)
        assert nodes.has("bob", "bob's", mechanism)
    nodes = cluster()
    nodes.meanwhile = [*password_records("alice", "another"), *password_records("bob", "another")]
    assert await nodes.import_users() == [NOT_IMPORTED]


@pytest.mark.real_time
async def test_the_import_is_tried_again_when_the_controller_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imported_users, "RETRY_S", 0.01)
    nodes = cluster()
    nodes.refuses = Refusal(ErrorCode.UNSUPPORTED_VERSION, "importing users needs another level")
    assert await nodes.import_users() == [NOT_IMPORTED, IMPORTED]


async def test_without_users_in_the_file_nothing_happens() -> None:
    nodes = cluster()
    with capture_logs() as logged:
        await UserImport({}, cast(Forwarder, nodes), Unchanging()).run()
    assert (logged, nodes.requests) == ([], [])


@pytest.mark.real_time
async def test_listeners_wait_until_the_users_exist() -> None:
    nodes = cluster()
    importing = UserImport(BOTH, cast(Forwarder, nodes), Unchanging())
    running = asyncio.create_task(importing.run())
    await importing.until_tried()
    assert all(nodes.has("alice", "written", mechanism) for mechanism in ScramMechanism)
    await running


@pytest.mark.real_time
async def test_listeners_do_not_wait_for_a_controller_that_refuses_or_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imported_users, "OPENING_DELAY_S_MAX", 0.1)
    importing = UserImport(BOTH, cast(Forwarder, cluster(refusals=10_000)), Unchanging())
    # It does not run, as if the controller hangs.
    await importing.until_tried()
    monkeypatch.setattr(imported_users, "OPENING_DELAY_S_MAX", 60)
    running = asyncio.create_task(importing.run())
    async with asyncio.timeout(10):
        await importing.until_tried()
    assert not running.done()
    running.cancel()


@pytest.mark.real_time
async def test_the_import_waits_for_a_controller_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imported_users, "RETRY_S", 0.01)
    nodes = cluster(refusals=3)
    assert await nodes.import_users() == [NOT_IMPORTED, IMPORTED]
