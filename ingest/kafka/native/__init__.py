"""librdkafka called directly: a consumer and a producer as ingest/kafka/handle.py describes them.

Absent where the package was installed without a compiler; ingest/kafka/reference.py does the same then.
"""
