"""The commands and the texts that they print. Each command has its own file; no logic here needs Spark in its tests."""
