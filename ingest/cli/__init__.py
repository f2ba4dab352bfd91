"""The commands and what they print. One file per command; no logic that a test would need Spark for."""
