"""Canal JSON: rows of MySQL tables, many in one message, their values as texts."""
