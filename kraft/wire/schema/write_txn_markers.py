"""WriteTxnMarkers: writes the markers that end transactions into partitions."""

from kraft.wire.declaration import Array, Bool, Int8, Int16, Int32, Int64, Message, String, Struct, field


class WritableTxnMarkerTopic(Struct):
    name: String
    partition_indexes: Array[Int32]


class WritableTxnMarker(Struct):
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: Array[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = field("2+", default=0)


class WriteTxnMarkersRequest(Message, key=27, versions="1-2", flexible="1+"):
    markers: Array[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32
    error_code: Int16


class WritableTxnMarkerTopicResult(Struct):
    name: String
    partitions: Array[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    producer_id: Int64
    topics: Array[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(Message, key=27, versions="1-2", flexible="1+"):
    markers: Array[WritableTxnMarkerResult]
