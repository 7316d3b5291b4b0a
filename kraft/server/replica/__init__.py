"""The replicas on a broker: opened, led, fetched from leaders, moved between log directories, and removed."""
