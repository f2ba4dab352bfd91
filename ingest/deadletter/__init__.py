"""Rejected records: how they are kept, looked at, and read again."""
