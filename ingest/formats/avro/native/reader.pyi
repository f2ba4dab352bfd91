from collections.abc import Sequence

from ingest.formats.avro.native_nodes import AvroNodeSpec

class AvroReader:
    """Reads messages of one schema, a record."""

    def __init__(self, nodes: Sequence[AvroNodeSpec], base: int, per_byte: int, /) -> None:
        """The first node is the record. Raise ValueError or TypeError for nodes that do not fit each other.

        `base`, `per_byte`: the members that a message may have in records, and for each of its bytes.
        """

    def read(self, message: bytes, at: int, /) -> bytes | None:
        """Return the record from a place to the end of a message, as JSON text; None where the reference has to look.

        That may be a message that is not right, or one that is rare.
        """
