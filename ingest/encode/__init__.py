"""A row against its table's schema, and the records that a sink writes for it: the reference, in Python."""
