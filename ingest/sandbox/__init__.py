"""A real single-node Apache Kafka for development, tests and the demo, without Docker."""
