"""Schema registries with Confluent's API: the options that name one, and its client."""
