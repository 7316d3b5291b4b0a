"""Kafka's protocol under the clients in the place of gRPC: the same requests, to brokers of Kraft and Apache Kafka."""
