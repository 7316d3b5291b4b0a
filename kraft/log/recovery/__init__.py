"""Recovery of a log when it is opened, and the checkpoints and producer state beside its segments."""
