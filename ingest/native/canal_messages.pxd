# cython: language_level=3
"""The reading of Canal's messages. What is not plainly right is for the reference."""

from ingest.native.messages cimport Change, InlineSchemas
from ingest.native.workspace cimport Workspace

cdef bint read_canal(Workspace *ws, InlineSchemas schemas, const char *p, const char *end, Change *change) except -1
cdef bint read_next_row(Workspace *ws, Change *change) noexcept nogil
