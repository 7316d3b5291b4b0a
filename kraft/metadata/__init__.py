"""The cluster's metadata as a value: decisions give records, records an image, and a delta is what differs.

Nothing here does I/O. The active controller decides with the `*_decisions` modules, every node replays the committed
records into a `MetadataImage`, and a broker applies the `BrokerDelta` between two images.
"""
