"""JSON: rows as objects, plain or with a schema registry."""
