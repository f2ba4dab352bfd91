# cython: language_level=3
"""Messages in Avro, as JSON texts: what comes after reads those. Each schema has a native reader of its own."""

cimport cython

from ingest.formats.avro.native.reader cimport AvroReader
from ingest.native.scan cimport Text
from ingest.native.workspace cimport Room

cdef enum:
    MAX_HEAD = 8


@cython.final
cdef class AvroTexts:
    cdef Py_ssize_t head_size # bytes in front of a message, by which its schema is known
    cdef object find
    cdef dict readers         # by heads
    cdef char head[MAX_HEAD]  # of the message that was read last
    cdef AvroReader last      # and its reader

    cdef AvroReader reader_of(self, const Text *message)
    cdef bint read(self, Text *message, Room *room) except -1
