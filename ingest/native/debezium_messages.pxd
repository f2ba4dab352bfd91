# cython: language_level=3
"""The reading of Debezium's messages. What is not plainly right is for the reference."""

from ingest.native.change cimport Change, Workspace
from ingest.native.message_schemas cimport SchemaCache

cdef bint read_debezium(Workspace *ws, SchemaCache schemas, const char *p, const char *end, Change *change) except -1
