"""Users: their credentials are set, removed and listed, and come back from the records."""

from __future__ import annotations

import pytest

from kraft.metadata.features import METADATA_VERSION, USERS_AS_METADATA
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import FeatureLevelSet, ScramCredentialSet, UnknownUsersKeySet
from kraft.metadata.user_decisions import (
    ALTERATIONS_PER_REQUEST_MAX,
    USER_LENGTH_MAX,
    alter_user_scram_credentials,
    describe_user_scram_credentials,
)
from kraft.model.errors import ErrorCode, Refusal
from kraft.sasl.scram import ScramMechanism, has_password, salted_password
from kraft.wire.schema.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kraft.wire.schema.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.support.cluster_images import cluster

SHA_256, SHA_512 = 1, 2
KEY = b"key of unknown users"
SALTED = salted_password(ScramMechanism.SHA_256, "secret", b"salt", 4_096)


def image() -> MetadataImage:
    return cluster(1).replay([FeatureLevelSet(feature=METADATA_VERSION, level=USERS_AS_METADATA)])


def upsertion(
    user: str = "alice",
    mechanism: int = SHA_256,
    iterations: int = 4_096,
    salt: bytes = b"salt",
    salted: bytes = SALTED,
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def deletion(user: str = "alice", mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


Alteration = ScramCredentialUpsertion | ScramCredentialDeletion


def altered(before: MetadataImage, *alterations: Alteration) -> tuple[MetadataImage, dict[str, tuple[int, str | None]]]:
    """Return the image afterwards, and the outcome for each user."""
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in alterations if isinstance(each, ScramCredentialDeletion)),
        upsertions=tuple(each for each in alterations if isinstance(each, ScramCredentialUpsertion)),
    )
    decision = alter_user_scram_credentials(before, request, KEY)
    outcome = {each.user: (each.error_code, each.error_message) for each in decision.response.results}
    return before.replay(decision.records), outcome


def described(of: MetadataImage, *users: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(users=tuple(UserName(name=user) for user in users) or None)
    return [
        (each.user, each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in describe_user_scram_credentials(of, request).results
    ]


def test_a_user_has_the_password_that_was_salted_and_is_told_by_name() -> None:
    after, outcome = altered(image(), upsertion("bob"), upsertion("alice"))
    assert outcome == {"bob": (ErrorCode.NONE, None), "alice": (ErrorCode.NONE, None)}
    assert described(after) == [("alice", 0, [(SHA_256, 4_096)]), ("bob", 0, [(SHA_256, 4_096)])]
    credential = after.users.credential("alice", ScramMechanism.SHA_256)
    assert has_password(ScramMechanism.SHA_256, credential, "secret")
    assert not has_password(ScramMechanism.SHA_256, credential, "other")


def test_a_user_has_one_credential_of_each_mechanism_until_the_last_is_removed() -> None:
    after, _ = altered(image(), upsertion())
    after, _ = altered(after, upsertion(mechanism=SHA_512, iterations=8_192, salted=SALTED * 2))
    assert described(after, "alice") == [("alice", 0, [(SHA_256, 4_096), (SHA_512, 8_192)])]
    after, outcome = altered(after, deletion())
    assert outcome == {"alice": (ErrorCode.NONE, None)}
    assert described(after) == [("alice", 0, [(SHA_512, 8_192)])]
    after, _ = altered(after, deletion(mechanism=SHA_512))
    assert described(after) == []
    assert "alice" not in after.users.by_name


def test_a_later_password_replaces_the_earlier_one() -> None:
    before, _ = altered(image(), upsertion())
    after, _ = altered(before, upsertion(salted=bytes(32)))
    assert not has_password(ScramMechanism.SHA_256, after.users.credential("alice", ScramMechanism.SHA_256), "secret")


def test_the_key_of_unknown_users_comes_with_the_first_user_and_stays() -> None:
    request = AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion(),))
    first = alter_user_scram_credentials(image(), request, KEY)
    assert [type(record) for record in first.records] == [UnknownUsersKeySet, ScramCredentialSet]
    after = image().replay(first.records)
    assert after.users.unknown_users_key == KEY
    assert alter_user_scram_credentials(after, request, b"other").records == [], "alice has that credential"
    request = AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion("bob"),))
    (second,) = alter_user_scram_credentials(after, request, b"other").records
    assert isinstance(second, ScramCredentialSet)
    unknown = after.users.credential("nobody", ScramMechanism.SHA_512)
    assert unknown == after.users.credential("nobody", ScramMechanism.SHA_512)
    assert unknown != image().users.credential("nobody", ScramMechanism.SHA_512)


@pytest.mark.parametrize(
    ("alteration", "expected"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a\0"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a" * (USER_LENGTH_MAX + 1)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=4_095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salted=SALTED[:-1]), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=SHA_512), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (deletion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (deletion(mechanism=7), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (deletion(), ErrorCode.RESOURCE_NOT_FOUND),
        (deletion("bob", SHA_512), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_an_unlawful_alteration_is_refused_and_the_others_are_made(alteration: Alteration, expected: ErrorCode) -> None:
    before, _ = altered(image(), upsertion("bob"))
    after, outcome = altered(before, upsertion("carol"), alteration)
    assert outcome.pop("carol") == (ErrorCode.NONE, None)
    assert [code for code, _ in outcome.values()] == [expected]
    assert sorted(after.users.by_name) == ["bob", "carol"]


@pytest.mark.parametrize(
    "both",
    [
        (upsertion(), upsertion(mechanism=SHA_512, salted=SALTED * 2)),
        (deletion(), upsertion()),
        (deletion(), deletion(mechanism=SHA_512)),
    ],
)
def test_a_user_that_is_named_twice_is_not_altered(both: tuple[Alteration, Alteration]) -> None:
    before, _ = altered(image(), upsertion(iterations=5_000))
    after, outcome = altered(before, *both)
    assert outcome == {
        "alice": (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    }
    assert after == before


def test_a_request_is_bounded() -> None:
    with pytest.raises(Refusal, match="alter fewer at a time"):
        altered(image(), *(upsertion(str(number)) for number in range(ALTERATIONS_PER_REQUEST_MAX + 1)))


def test_a_cluster_at_an_earlier_level_has_no_users() -> None:
    earlier = cluster(1).replay([FeatureLevelSet(feature=METADATA_VERSION, level=USERS_AS_METADATA - 1)])
    after, outcome = altered(earlier, upsertion())
    assert after == earlier
    ((code, message),) = outcome.values()
    assert code == ErrorCode.UNSUPPORTED_VERSION
    assert message is not None
    assert "kraft features upgrade --feature metadata.version=3" in message


def test_what_is_asked_about_users_that_do_not_exist() -> None:
    after, _ = altered(image(), upsertion())
    assert described(after, "alice", "bob") == [
        ("alice", 0, [(SHA_256, 4_096)]),
        ("bob", ErrorCode.RESOURCE_NOT_FOUND, []),
    ]
    assert described(after, "alice", "alice") == [("alice", ErrorCode.DUPLICATE_RESOURCE, [])]
    assert described(after, "") == [("", ErrorCode.INVALID_REQUEST, [])]


def test_no_secret_is_printed() -> None:
    request = AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion(),))
    decision = alter_user_scram_credentials(image(), request, KEY)
    assert [repr(record) for record in decision.records] == [
        "UnknownUsersKeySet()",
        "ScramCredentialSet(user='alice', mechanism='SCRAM-SHA-256')",
    ]
