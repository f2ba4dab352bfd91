"""Iceberg: its catalogs, its tables, and the snapshots by which files become rows of tables."""
