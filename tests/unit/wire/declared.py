"""Declarations with one of everything, for tests."""

from kraft.wire.declaration import ZERO_UUID, Array, Bytes, Int16, Int32, Message, Records, String, Struct, Uuid, field


class Inner(Struct):
    name: String


class Outer(Message, key=99, versions="0-3", flexible="2+"):
    count: Int32
    note: String | None = "none"
    topic_id: Uuid = field("2-3", default=ZERO_UUID)
    inner: Array[Inner]
    records: Records | None = field(nullable="1+")
    secret: Bytes


class Tagged(Message, key=98, versions="0", flexible="0+"):
    inner: Inner | None = field(default=None, absent=Inner(name=""), tag=0)
    other: Inner | None = field(default=None, tag=1)
    number: Int16 = field(default=0, tag=2)
