# cython: language_level=3
"""The reading of Oracle GoldenGate's messages. What is not plainly right is for the reference."""

from ingest.native.messages cimport Change
from ingest.native.workspace cimport Workspace

cdef bint read_ogg(Workspace *ws, const char *p, const char *end, Change *change) noexcept nogil
