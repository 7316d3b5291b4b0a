"""The cluster's metadata as a value: commands become records, records an image, and a delta says what changed.

Nothing here does I/O. The active controller decides with `controller`, every node replays the committed records into a
`MetadataImage`, and a broker acts on the `BrokerDelta` between two images.
"""
