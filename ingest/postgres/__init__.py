"""PostgreSQL: connections, the tables that rows go to, and rows and progress in one transaction.

It knows no options and no schemas that evolve: `sinks/postgres.py` does.
"""

from importlib.util import find_spec

from ingest.errors import ProgramMissing

if find_spec("psycopg") is None:
    _MISSING = "the package psycopg is missing, which talks to PostgreSQL"
    raise ProgramMissing(_MISSING, "install it where the command and the workers run: pip install 'ingest[postgres]'")
