"""What Kafka source, sinks, dead letters and sandbox share: properties, clients, administration, errors.

The only package that imports confluent_kafka.
"""
