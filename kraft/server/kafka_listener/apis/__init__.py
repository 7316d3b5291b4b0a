"""One file per API: converts between Kafka's messages and the values that both kinds of listeners share."""
