# cython: language_level=3
"""The reading of Debezium's messages. What is not plainly right is for the reference."""

from ingest.native.messages cimport Change, InlineSchemas
from ingest.native.workspace cimport Workspace

cdef bint read_debezium(Workspace *ws, InlineSchemas schemas, const char *p, const char *end, Change *change) except -1
