# cython: language_level=3
"""Images of rows, in the form of their types: what messages say of values, and other spellings of declared types."""

from ingest.native.inline_schema cimport RowCodec
from ingest.native.messages cimport Change
from ingest.native.scan cimport Row
from ingest.native.table cimport Table
from ingest.native.workspace cimport Workspace

cdef size_t room_to_read(const Row *row) noexcept nogil
cdef bint read_images(Workspace *ws, Table table, RowCodec codec, Change *change, bint fed) except -1
