"""The reference implementation of encoding: checks a row against its table's schema and makes the sink's records."""
