from __future__ import annotations

from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.records import BrokerFenced, BrokerUnfenced, BrokerUnregistered
from kraft.model.ids import BrokerId
from kraft.server.cluster.fenced_lately import LISTED_ON_MS, FencedLately
from tests.support.cluster_images import cluster, epoch_of

IMAGE = cluster(1, 2, 3)


def fenced(image: MetadataImage, broker_id: int) -> MetadataImage:
    return image.replay([BrokerFenced(broker_id=BrokerId(broker_id), broker_epoch=epoch_of(image, broker_id))])


class Watching:
    """A broker that acts on one image after the other."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.lately = FencedLately(lambda: self.now_ms)
        self.image = EMPTY_IMAGE
        self.act(IMAGE)

    def act(self, image: MetadataImage) -> None:
        self.lately.published(self.image, image)
        self.image = image


def test_a_fenced_broker_is_listed_for_some_time() -> None:
    watching = Watching()
    assert watching.lately.brokers() == ()
    watching.act(fenced(IMAGE, 2))
    assert watching.lately.brokers() == (2,)
    watching.now_ms += LISTED_ON_MS - 1
    watching.act(fenced(watching.image, 3))
    assert watching.lately.brokers() == (2, 3)
    watching.now_ms += 1
    assert watching.lately.brokers() == (3,)


def test_a_broker_that_is_back_or_unregistered_is_not_listed_for_having_been_fenced() -> None:
    watching = Watching()
    watching.act(fenced(fenced(IMAGE, 2), 3))
    watching.act(
        watching.image.replay(
            [
                BrokerUnfenced(broker_id=BrokerId(2), broker_epoch=epoch_of(IMAGE, 2)),
                BrokerUnregistered(broker_id=BrokerId(3), broker_epoch=epoch_of(IMAGE, 3)),
            ]
        )
    )
    assert watching.lately.brokers() == ()


def test_a_broker_that_was_fenced_in_the_first_image_is_not_listed() -> None:
    lately = FencedLately(lambda: 0)
    lately.published(EMPTY_IMAGE, fenced(IMAGE, 2))
    assert lately.brokers() == ()
