"""Transforms on Spark SQL: rules bound to tables and compiled to one plan, and rows on their way to Spark and back."""
