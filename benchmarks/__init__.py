"""Programs that measure, each printing one table and the surroundings it was measured in."""
