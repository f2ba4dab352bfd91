# cython: language_level=3
"""The reading of Canal's messages, Maxwell's and GoldenGate's. What is not plainly right is for the reference."""

from ingest.native.change cimport Change, Workspace
from ingest.native.message_schemas cimport SchemaCache
from ingest.native.scan cimport Text

cdef bint read_canal(Workspace *ws, SchemaCache schemas, const char *p, const char *end, Change *change) except -1
cdef bint read_next_row(Workspace *ws, Change *change) noexcept nogil
cdef bint read_maxwell(Workspace *ws, const char *p, const char *end, const Text *key, Change *change) noexcept nogil
cdef bint read_ogg(Workspace *ws, const char *p, const char *end, Change *change) noexcept nogil
