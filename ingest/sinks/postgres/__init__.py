"""The sinks `postgres` and `hologres`, its dialect: rows and progress in one transaction."""
