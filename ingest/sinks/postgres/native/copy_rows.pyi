from ingest.sinks.postgres.statements import CopyColumnSpec

class CopyRows:
    """Rows of one table as lines of PostgreSQL's COPY. Raises RuntimeError where a call of it is not done yet."""

    def __init__(self, spec: tuple[CopyColumnSpec, ...], /) -> None:
        """Begin. Raise ValueError or TypeError for columns that there cannot be."""

    def lines(self, records: list[tuple[bytes, bytes | None]], first: int, /) -> bytes | None:
        """Return a line for each record; None where one cannot be a line, or has no key.

        Records are numbered from `first` on. A line has the number, `t` for a delete or `f`, and the columns.
        """
