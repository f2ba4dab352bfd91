# cython: language_level=3
"""The reading of messages that are rows. What is not plainly right is for the reference."""

from ingest.native.messages cimport Change
from ingest.native.workspace cimport Workspace

cdef bint read_row_message(Workspace *ws, const char *p, const char *end, Change *change) noexcept nogil
