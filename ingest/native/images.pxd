# cython: language_level=3
"""Images of rows, in the form of their types: what messages say of values, and other spellings of declared types."""

from ingest.native.inline_schema cimport InlineSchema
from ingest.native.messages cimport Change
from ingest.native.table cimport Table
from ingest.native.workspace cimport Workspace

cdef bint read_images(Workspace *ws, Table table, InlineSchema said, Change *change, bint fed) except -1
