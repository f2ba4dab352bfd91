"""Native code for PostgreSQL: rows become lines of COPY."""
