"""Native code for lakes: rows become columns."""
