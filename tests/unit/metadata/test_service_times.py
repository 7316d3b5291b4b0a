from __future__ import annotations

from kraft.metadata.image import MetadataImage
from kraft.metadata.records import BrokerShuttingDown, BrokerUnfenced
from kraft.metadata.service_times import SETTLED_AFTER_MS, ServiceTimes
from kraft.model.ids import BrokerEpoch, BrokerId
from tests.support.cluster_images import cluster, epoch_of, fenced, registered

TWO = BrokerId(2)


def unfenced(image: MetadataImage) -> MetadataImage:
    return image.replay([BrokerUnfenced(broker_id=TWO, broker_epoch=epoch_of(image, 2))])


def seen(*images: MetadataImage) -> ServiceTimes:
    """The images were looked at after 0, 100, 200 ms and so on."""
    times = ServiceTimes()
    for number, image in enumerate(images):
        times.note(image, 100 * number)
    return times


def test_brokers_that_are_in_service_at_the_first_look_are_no_newcomers() -> None:
    assert seen(cluster(1, 2)).newcomers(0) == set()


def test_a_broker_that_comes_back_is_a_newcomer_until_its_clients_are_back() -> None:
    image = cluster(1, 2)
    times = seen(image, fenced(image, 2), unfenced(fenced(image, 2)))
    assert times.newcomers(200) == times.newcomers(200 + SETTLED_AFTER_MS - 1) == {TWO}
    assert times.newcomers(200 + SETTLED_AFTER_MS) == set()


def test_a_process_that_was_replaced_between_two_looks_is_a_newcomer() -> None:
    image = cluster(1, 2)
    replaced = image.replay([registered(2, epoch=9), BrokerUnfenced(broker_id=TWO, broker_epoch=BrokerEpoch(9))])
    assert seen(image, replaced).newcomers(100) == {TWO}


def test_neither_a_broker_that_is_fenced_nor_one_that_shuts_down_is_a_newcomer() -> None:
    image = cluster(1, 2)
    back = unfenced(fenced(image, 2))
    stopping = back.replay([BrokerShuttingDown(broker_id=TWO, broker_epoch=epoch_of(back, 2))])
    for after in (fenced(back, 2), stopping):
        assert seen(image, fenced(image, 2), back, after).newcomers(300) == set()


def test_a_change_of_another_broker_makes_nobody_a_newcomer_again() -> None:
    image = cluster(1, 2, 3)
    back = unfenced(fenced(image, 2))
    assert seen(image, fenced(image, 2), back, fenced(back, 3)).newcomers(200 + SETTLED_AFTER_MS) == set()
