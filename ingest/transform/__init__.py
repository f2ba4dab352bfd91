"""Transforms on Spark SQL: rules bound to tables, compiled to one plan, and the rows that cross over."""
