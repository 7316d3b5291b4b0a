"""One file for each API: Kafka's messages on one side, the values that both listeners share on the other."""
