"""A real single-node Apache Kafka for development, tests and the demo. It needs no Docker."""
