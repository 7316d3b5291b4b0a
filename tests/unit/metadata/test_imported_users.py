"""Users that a broker's configuration file names become users of the metadata, if there are none of these names."""

from __future__ import annotations

import pytest

from kraft.metadata.features import METADATA_VERSION, USERS_AS_METADATA
from kraft.metadata.image import MetadataImage
from kraft.metadata.imported_users import ImportedUser, ImportUsersRequest, ImportUsersResult, import_users
from kraft.metadata.records import FeatureLevelSet, ScramCredentialSet, UnknownUsersKeySet
from kraft.metadata.user_decisions import ALTERATIONS_PER_REQUEST_MAX, USER_LENGTH_MAX
from kraft.model.errors import ErrorCode, Refusal
from kraft.sasl.scram import ScramCredential, ScramMechanism
from tests.support.cluster_images import cluster
from tests.support.scram_users import password_records

KEY = b"key of unknown users"


def image() -> MetadataImage:
    return cluster(1).replay([FeatureLevelSet(feature=METADATA_VERSION, level=USERS_AS_METADATA)])


def importing(*users: ImportedUser) -> ImportUsersRequest:
    return ImportUsersRequest(users=list(users), unknown_users_key=KEY)


def imported(name: str, salt: bytes = b"salt") -> ImportedUser:
    credential = ScramCredential(salt=salt, iterations=4_096, stored_key=b"stored", server_key=b"server")
    return ImportedUser(name=name, sha_256=credential, sha_512=credential)


def mechanisms(image: MetadataImage) -> dict[str, set[ScramMechanism]]:
    return {name: set(credentials) for name, credentials in image.users.by_name.items()}


def test_users_are_imported_with_all_credentials_in_one_decision_unless_they_exist() -> None:
    before = image().replay(password_records("alice", "hers"))
    decision = import_users(before, importing(imported("alice"), imported("bob")))
    assert decision.response == ImportUsersResult(imported=["bob"])
    after = before.replay(decision.records)
    assert mechanisms(after) == {"alice": set(ScramMechanism), "bob": set(ScramMechanism)}
    assert after.users.by_name["alice"] == before.users.by_name["alice"]
    again = import_users(after, importing(imported("bob")))
    assert (again.records, again.response.imported) == ([], ["bob"]), "a request may be repeated"
    others = import_users(after, importing(imported("bob", b"other salt")))
    assert (others.records, others.response.imported) == ([], [])


def test_the_key_of_unknown_users_comes_with_the_first_import() -> None:
    first = import_users(image(), importing(imported("alice")))
    assert [type(record) for record in first.records] == [UnknownUsersKeySet, ScramCredentialSet, ScramCredentialSet]
    after = image().replay(first.records)
    assert after.users.unknown_users_key == KEY
    assert len(import_users(after, importing(imported("bob"))).records) == 2
    assert import_users(image(), importing()).records == []


@pytest.mark.parametrize("name", ["", "a\0", "a" * (USER_LENGTH_MAX + 1)])
def test_an_import_has_lawful_names(name: str) -> None:
    with pytest.raises(Refusal) as refused:
        import_users(image(), importing(imported(name)))
    assert refused.value.error_code is ErrorCode.UNACCEPTABLE_CREDENTIAL


def test_an_import_is_bounded_and_waits_for_its_level() -> None:
    many = [imported(str(number)) for number in range(ALTERATIONS_PER_REQUEST_MAX + 1)]
    with pytest.raises(Refusal, match="more than 1000 users in one request"):
        import_users(image(), importing(*many))
    earlier = cluster(1).replay([FeatureLevelSet(feature=METADATA_VERSION, level=USERS_AS_METADATA - 1)])
    with pytest.raises(Refusal, match="importing users"):
        import_users(earlier, importing(imported("alice")))
    assert "stored" not in repr(importing(imported("alice")))
