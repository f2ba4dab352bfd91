"""The pipeline file: reads YAML with positions into frozen models, and reports all errors at once."""
