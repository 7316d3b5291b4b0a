"""The controller role: while this node leads the quorum, its one writer decides for the cluster."""
