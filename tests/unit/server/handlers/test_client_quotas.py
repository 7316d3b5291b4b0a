from __future__ import annotations

from kraft.metadata.features import METADATA_VERSION
from kraft.metadata.quota_decisions import alter_client_quotas
from kraft.metadata.records import FeatureLevelSet
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers.client_quotas import is_applied, refused
from tests.support.cluster_images import cluster
from tests.support.quotas import Names, alteration, asked

REQUEST = asked(alteration({"user": "anna"}, producer_byte_rate=7), alteration({}, producer_byte_rate=7))


def test_what_this_image_shows_is_applied() -> None:
    image = cluster(1)
    decision = alter_client_quotas(image, REQUEST)
    assert not is_applied(image, REQUEST, decision.response)
    assert is_applied(image.replay(decision.records), REQUEST, decision.response)


def test_an_entity_that_is_there_twice_is_applied_with_its_last_values() -> None:
    anna: Names = {"user": "anna"}
    request = asked(
        alteration(anna, producer_byte_rate=7, consumer_byte_rate=9),
        alteration(anna, producer_byte_rate=8),
        alteration(anna, consumer_byte_rate=None),
    )
    image = cluster(1)
    decision = alter_client_quotas(image, request)
    (quotas,) = image.replay(decision.records).client_quotas.values()
    assert dict(quotas) == {"producer_byte_rate": 8}
    assert is_applied(image.replay(decision.records), request, decision.response)


def test_an_image_that_refuses_what_the_controller_accepted_is_older() -> None:
    image = cluster(1).replay([FeatureLevelSet(feature=METADATA_VERSION, level=1)])
    assert not is_applied(image, REQUEST, alter_client_quotas(cluster(1), REQUEST).response)


def test_a_refused_request_is_refused_for_each_entity() -> None:
    response = refused(REQUEST, Refusal(ErrorCode.REQUEST_TIMED_OUT, "no controller is active"))
    assert [(each.error_code, each.error_message, each.entity) for each in response.entries] == [
        (ErrorCode.REQUEST_TIMED_OUT, "no controller is active", entry.entity) for entry in REQUEST.entries
    ]
