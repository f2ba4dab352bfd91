"""The pipeline file: YAML with positions → frozen models, with all errors at once."""
