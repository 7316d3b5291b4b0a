"""What coordinators decide: consumer groups and their offsets. Pure: no clock, no disk, no network."""
