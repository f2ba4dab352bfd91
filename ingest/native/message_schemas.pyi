from ingest.native.contract import ColumnCodecSpec

class RowCodec:
    """The codecs of a row's columns, as its message declares their types."""

    def __init__(self, columns: tuple[ColumnCodecSpec, ...], /) -> None:
        """Take what is said of each column; raises ValueError for numbers that a codec does not have."""
