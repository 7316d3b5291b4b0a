from __future__ import annotations

import pytest

from kraft.metadata.image import MetadataImage
from kraft.metadata.quota_decisions import alter_client_quotas, describe_client_quotas
from kraft.metadata.records import ClientQuotaSet, QuotaEntity
from kraft.model.client_quotas import QuotaMatch
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.alter_client_quotas import EntryData
from kraft.wire.schema.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.support.cluster_images import cluster
from tests.support.quotas import Names, alteration, asked


def with_quotas(*alterations: EntryData) -> MetadataImage:
    image = cluster(1)
    return image.replay(alter_client_quotas(image, asked(*alterations)).records)


def described(
    image: MetadataImage, *components: ComponentData, strict: bool = False
) -> list[tuple[Names, dict[str, float]]]:
    response = describe_client_quotas(image, DescribeClientQuotasRequest(components=components, strict=strict))
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
    return [
        (
            {part.entity_type: part.entity_name for part in each.entity},
            {quota.key: quota.value for quota in each.values},
        )
        for each in response.entries or ()
    ]


def component(entity_type: str, match_type: int, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=entity_type, match_type=match_type, match=match)


def exactly(entity_type: str, name: str) -> ComponentData:
    return component(entity_type, QuotaMatch.EXACT, name)


def any_of(entity_type: str) -> ComponentData:
    return component(entity_type, QuotaMatch.ANY)


def default_of(entity_type: str) -> ComponentData:
    return component(entity_type, QuotaMatch.DEFAULT)


def test_a_quota_is_set_changed_and_taken_away() -> None:
    image = cluster(1)
    decision = alter_client_quotas(image, asked(alteration({"client-id": "loader"}, producer_byte_rate=1_024)))
    loader = [QuotaEntity(entity_type="client-id", name="loader")]
    assert decision.records == [ClientQuotaSet(entity=loader, key="producer_byte_rate", value=1_024)]
    image = image.replay(decision.records)
    again = alter_client_quotas(image, asked(alteration({"client-id": "loader"}, producer_byte_rate=1_024)))
    assert again.records == []
    gone = alter_client_quotas(image, asked(alteration({"client-id": "loader"}, producer_byte_rate=None)))
    assert image.replay(gone.records).client_quotas == {}


@pytest.mark.parametrize(
    ("alteration_", "words"),
    [
        (alteration({}, producer_byte_rate=1), "a quota is for a user"),
        (
            alteration({"topic": "a"}, producer_byte_rate=1),
            "no quotas for 'topic': use user, client-id or ip",
        ),
        (alteration({"ip": "10.0.0.1", "user": "a"}, connection_creation_rate=1), "cannot also be for a user"),
        (alteration({"ip": "10.0.0.1"}, producer_byte_rate=1), "use one of connection_creation_rate"),
        (alteration({"ip": "example.org"}, connection_creation_rate=1), "'example.org' is not an IP address"),
        (alteration({"user": ""}, producer_byte_rate=1), "has 0 letters"),
        (alteration({"user": "a"}, produce_byte_rate=1), "there is no quota 'produce_byte_rate' for such an entity"),
        (alteration({"user": "a"}, producer_byte_rate=0), "expected a number above 0"),
        (alteration({"user": "a"}, producer_byte_rate=float("nan")), "expected a number above 0"),
        (alteration({"user": "a"}, producer_byte_rate=0.5), "a whole number up to"),
        (alteration({"user": "a"}, producer_byte_rate=1e30), "a whole number up to"),
        (alteration({"ip": None}, connection_creation_rate=2**31), "a whole number up to 2147483647"),
    ],
)
def test_what_is_no_quota_is_refused(alteration_: EntryData, words: str) -> None:
    fine = alteration({"user": "b"}, producer_byte_rate=1)
    decision = alter_client_quotas(cluster(1), asked(alteration_, fine))
    refused, other = decision.response.entries
    assert (refused.error_code, refused.entity) == (ErrorCode.INVALID_REQUEST, alteration_.entity)
    assert words in (refused.error_message or "")
    # Each entity has its own result.
    assert (other.error_code, other.error_message, other.entity) == (ErrorCode.NONE, None, fine.entity)
    assert len(decision.records) == 1


def test_two_values_for_one_quota_are_refused() -> None:
    rate = alteration({"user": "a"}, producer_byte_rate=1).ops
    twice = EntryData(entity=alteration({"user": "a"}).entity, ops=(*rate, *rate))
    (result,) = alter_client_quotas(cluster(1), asked(twice)).response.entries
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "producer_byte_rate of user 'a' is in the request twice",
    )


def test_a_request_with_too_many_quotas_is_refused_as_a_whole() -> None:
    each = alteration({"user": "a"}, producer_byte_rate=1)
    with pytest.raises(Refusal, match="more than 10000 quotas in one request"):
        alter_client_quotas(cluster(1), asked(*[each] * 10_001))


ANNA: Names = {"user": "anna"}
ANNAS_LOADER: Names = {"client-id": "loader", "user": "anna"}
EVERY_USER: Names = {"user": None}
LOADER: Names = {"client-id": "loader"}


def test_filters_let_through_what_they_name() -> None:
    image = with_quotas(*(alteration(each, producer_byte_rate=7) for each in (ANNA, ANNAS_LOADER, EVERY_USER, LOADER)))
    assert [names for names, _ in described(image)] == [LOADER, ANNAS_LOADER, EVERY_USER, ANNA]
    assert [names for names, _ in described(image, exactly("user", "anna"))] == [ANNAS_LOADER, ANNA]
    assert described(image, exactly("user", "anna"), strict=True) == [(ANNA, {"producer_byte_rate": 7})]
    assert [names for names, _ in described(image, default_of("user"))] == [EVERY_USER]
    assert [names for names, _ in described(image, any_of("user"), any_of("client-id"))] == [ANNAS_LOADER]
    assert described(image, exactly("user", "berta")) == []


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([any_of("topic")], ErrorCode.UNSUPPORTED_VERSION),
        ([any_of("user"), default_of("user")], ErrorCode.INVALID_REQUEST),
        ([any_of("user"), any_of("ip")], ErrorCode.INVALID_REQUEST),
        ([component("user", QuotaMatch.EXACT)], ErrorCode.INVALID_REQUEST),
        ([component("user", QuotaMatch.ANY, "anna")], ErrorCode.INVALID_REQUEST),
        ([component("user", QuotaMatch.DEFAULT, "anna")], ErrorCode.INVALID_REQUEST),
        ([component("user", 3)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_mean_nothing_are_refused(components: list[ComponentData], code: ErrorCode) -> None:
    with pytest.raises(Refusal) as refused:
        described(cluster(1), *components)
    assert refused.value.error_code is code
