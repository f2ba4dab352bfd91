"""Expressions of transforms as texts: their tokens, their translation from Flink SQL, and their errors.

Needs no Spark.
"""
