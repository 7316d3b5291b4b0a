"""DeleteTopics: by name, and since version 6 by id as well (KIP-516)."""

from kraft.wire.declaration import ZERO_UUID, Array, Int16, Int32, Message, String, Struct, Uuid, field


class DeleteTopicState(Struct):
    name: String | None = None
    topic_id: Uuid


class DeleteTopicsRequest(Message, key=20, versions="1-6", flexible="4+"):
    topics: Array[DeleteTopicState] = field("6+", default=())
    topic_names: Array[String] = field("1-5", default=())
    timeout_ms: Int32


class DeletableTopicResult(Struct):
    name: String | None = field(nullable="6+")
    topic_id: Uuid = field("6+", default=ZERO_UUID)
    error_code: Int16
    error_message: String | None = field("5+", default=None)


class DeleteTopicsResponse(Message, key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: Int32 = 0
    responses: Array[DeletableTopicResult]
