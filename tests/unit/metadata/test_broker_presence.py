from __future__ import annotations

from kraft.metadata.broker_presence import (
    CONFIRM_AFTER_MS,
    DIAL_INTERVAL_MS,
    DIALLED_AT_ONCE_MAX,
    BrokerPresence,
)
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import BrokerUnfenced
from kraft.model.ids import BrokerEpoch, BrokerId
from tests.support.cluster_images import cluster, registered

ONE, TWO = BrokerId(1), BrokerId(2)
FIRST, SECOND = BrokerEpoch(1), BrokerEpoch(2)
IMAGE = cluster(1, 2)


def dialled_ids(presence: BrokerPresence, now_ms: int, image: MetadataImage = IMAGE) -> list[int]:
    return [absentee.broker_id for absentee in presence.to_dial(image, now_ms)]


def dial(presence: BrokerPresence, now_ms: int, *, nobody_listens: bool, image: MetadataImage = IMAGE) -> list[int]:
    """Dials everybody whose turn it is. Returns who is gone."""
    return [
        absentee.broker_id
        for absentee in presence.to_dial(image, now_ms)
        if presence.dialled(absentee, nobody_listens=nobody_listens, now_ms=now_ms)
    ]


def test_whatever_is_no_refusal_is_tried_again_much_later() -> None:
    presence = BrokerPresence()
    assert dial(presence, 0, nobody_listens=False) == []
    assert dialled_ids(presence, DIAL_INTERVAL_MS - 1) == []
    assert dialled_ids(presence, DIAL_INTERVAL_MS) == [1, 2]


def test_who_attends_is_not_dialled_and_is_at_once_when_the_last_call_has_ended() -> None:
    presence = BrokerPresence()
    dial(presence, 0, nobody_listens=False)
    for epoch, broker_id in enumerate((ONE, TWO), start=1):
        presence.liveness_stream_opened(broker_id, BrokerEpoch(epoch))
    presence.liveness_stream_opened(ONE, FIRST)
    assert dialled_ids(presence, 10 * DIAL_INTERVAL_MS) == []
    presence.liveness_stream_closed(ONE, FIRST)
    assert dialled_ids(presence, 10 * DIAL_INTERVAL_MS) == []
    presence.liveness_stream_closed(ONE, FIRST)
    assert dialled_ids(presence, 10 * DIAL_INTERVAL_MS) == [1]


def test_a_call_that_ends_while_its_broker_is_dialled_has_it_dialled_again_at_once() -> None:
    presence = BrokerPresence()
    absentee, _ = presence.to_dial(IMAGE, now_ms=0)
    presence.liveness_stream_opened(ONE, FIRST)
    presence.liveness_stream_closed(ONE, FIRST)
    presence.dialled(absentee, nobody_listens=False, now_ms=1)
    assert dialled_ids(presence, 1) == [1]


def test_a_broker_with_a_stream_or_a_heartbeat_meanwhile_is_not_gone() -> None:
    presence = BrokerPresence()
    dial(presence, 0, nobody_listens=True)
    one, two = presence.to_dial(IMAGE, CONFIRM_AFTER_MS)
    presence.liveness_stream_opened(ONE, FIRST)
    presence.heard(TWO, SECOND)
    assert not presence.dialled(one, nobody_listens=True, now_ms=CONFIRM_AFTER_MS)
    assert not presence.dialled(two, nobody_listens=True, now_ms=CONFIRM_AFTER_MS)


def test_a_broker_that_was_wrongly_taken_for_gone_is_not_judged_by_its_address_again_in_that_life() -> None:
    image, presence = cluster(1), BrokerPresence()
    dial(presence, 0, nobody_listens=True, image=image)
    assert dial(presence, 200, nobody_listens=True, image=image) == [1]
    presence.heard(ONE, FIRST)
    assert dialled_ids(presence, 100 * DIAL_INTERVAL_MS, image) == []
    again = registered(1, epoch=SECOND, process=2)
    image = image.replay([again, BrokerUnfenced(broker_id=ONE, broker_epoch=SECOND)])
    assert dialled_ids(presence, 100 * DIAL_INTERVAL_MS, image) == [1]


def test_what_was_found_under_an_earlier_office_counts_for_nothing() -> None:
    presence = BrokerPresence()
    dial(presence, 0, nobody_listens=True)
    absentees = presence.to_dial(IMAGE, 200)
    presence.reset()
    assert not any(presence.dialled(each, nobody_listens=True, now_ms=200) for each in absentees)
    presence.liveness_stream_closed(ONE, FIRST)
    presence.liveness_stream_opened(ONE, FIRST)
    assert dialled_ids(presence, 300) == [2]


def test_a_large_cluster_is_dialled_part_by_part() -> None:
    image, presence = cluster(*range(1, DIALLED_AT_ONCE_MAX + 11)), BrokerPresence()
    assert len(presence.to_dial(image, now_ms=0)) == DIALLED_AT_ONCE_MAX
    assert len(presence.to_dial(image, now_ms=0)) == 10
