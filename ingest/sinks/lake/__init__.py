"""Rows as columns of Arrow, for the tables of a lake: what a type is there, and the values that JSON says."""
