from ingest.native.contract import ExtraColumnsSpec

class RowExtender:
    """Adds the columns that rows have beside those of their message's value."""

    def __init__(self, spec: ExtraColumnsSpec, /) -> None: ...
