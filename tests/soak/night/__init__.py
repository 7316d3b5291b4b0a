"""The scripted night: a cluster with one fault, and what an operator sees of it."""
