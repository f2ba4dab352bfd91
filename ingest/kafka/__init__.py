"""Access to Kafka for sources, sinks, dead letters and the sandbox: properties, clients, administration, errors.

Only this package imports confluent_kafka.
"""
