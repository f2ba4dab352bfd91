"""The MySQL source: a snapshot of tables, then the binary log, without Debezium in between.

docs/adr/2026-11-28-mysql-source.md has the design.
"""
