from ingest.native.contract import InlineColumnSpec

class InlineSchema:
    """The types that messages declare for their columns."""

    def __init__(self, columns: tuple[InlineColumnSpec, ...], /) -> None:
        """Take what is said of each column; raises ValueError for numbers that a codec does not have."""
