"""The controller role: one writer decides for the cluster while this node leads the quorum."""
