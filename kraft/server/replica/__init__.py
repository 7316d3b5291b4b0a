"""The replicas on a broker: opened, led, copied from leaders, moved between log directories, and removed."""
