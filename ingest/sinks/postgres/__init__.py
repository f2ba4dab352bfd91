"""PostgreSQL: connections, the tables that rows go to, and rows and progress in one transaction.

It knows no options and no schemas that evolve: `sinks/postgres/postgres.py` does.
"""
