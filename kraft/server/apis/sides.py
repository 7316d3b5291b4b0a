"""What the handlers of APIs are made from, at a broker and at a controller."""

from __future__ import annotations

from msgspec import Struct

from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.config_decisions import NodeConfigs
from kraft.metadata.group_configs import GroupDefaults
from kraft.metadata.image import CurrentImage, CurrentIndex, MetadataImage
from kraft.metadata.topic_decisions import ControllerDefaults
from kraft.model.callbacks import BrokerCondition
from kraft.model.describe_quorum import QuorumDescription, QuorumDescriptionRequest
from kraft.rpc.call import Handler
from kraft.runtime.entropy import Entropy
from kraft.server.access.asker import Askers
from kraft.server.config.keys import BY_NAME
from kraft.server.config.node_config import NodeConfig
from kraft.server.handlers.decisions import Decisions
from kraft.server.handlers.features import FeaturesOfOthers


class Side(Struct, frozen=True, kw_only=True):
    """What the handlers of a broker and those of a controller are both made from."""

    config: NodeConfig
    topic_defaults: TopicDefaultsInEffect
    image: CurrentImage
    """The metadata that this broker has applied, or that is committed."""

    index: CurrentIndex
    """Index of the last entry in it."""

    entropy: Entropy
    askers: Askers | None = None
    """None: nobody is asked what it may do."""

    def node_configs(self, image: MetadataImage) -> NodeConfigs:
        """Return what config alterations are checked together with."""
        return NodeConfigs(
            topics=self.topic_defaults(image),
            settings=self.config.settings,
            keys=BY_NAME,
            groups=GroupDefaults(default=self.config.groups.consumer, bounds=self.config.group_bounds),
        )


class ControllerSide(Side, frozen=True, kw_only=True):
    """What the handlers of a controller are made from."""

    decisions: Decisions
    features_of_others: FeaturesOfOthers
    has_live_session: BrokerCondition
    describe_quorum: Handler[QuorumDescriptionRequest, QuorumDescription]

    def new_topic_defaults(self, image: MetadataImage) -> ControllerDefaults:
        """Return what a topic has that its request leaves open."""
        topics = self.config.topics
        return ControllerDefaults(
            partitions=topics.partitions,
            replication_factor=topics.replication_factor,
            configs=self.topic_defaults(image),
        )
