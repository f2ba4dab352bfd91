"""Avro: schemas, the types of their columns, and the reading of messages by them."""
