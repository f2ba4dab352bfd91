"""The pipeline file: YAML with positions to frozen models, with all errors at once."""
