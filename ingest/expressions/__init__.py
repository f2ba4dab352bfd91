"""Expressions of transforms as texts: their words, Flink's dialect, what is wrong with them. Needs no Spark."""
