"""`kraft cluster`: the state of the whole cluster."""
