# cython: language_level=3
"""The reading of Maxwell's messages. What is not plainly right is for the reference."""

from ingest.native.messages cimport Change
from ingest.native.scan cimport Text
from ingest.native.workspace cimport Workspace

cdef bint read_maxwell(Workspace *ws, const char *p, const char *end, const Text *key, Change *change) noexcept nogil
