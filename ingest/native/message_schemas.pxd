# cython: language_level=3
"""What schemas of messages say: the types that they declare for columns, and the readers of messages in Avro.

The reference is formats/typed.py. Messages in Avro become JSON texts: what comes after reads those.
"""

cimport cython

from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint32_t

from ingest.formats.avro.native.reader cimport AvroReader
from ingest.native.change cimport Room, Typing
from ingest.native.scan cimport Row, Text

cdef enum:
    MAX_HEAD = 8
    RECENT_SCHEMAS = 8


cdef struct ColumnCodec:
    const char *name
    uint32_t name_size
    int codec                 # ValueCodec
    int type                  # the number of its type, as columns of tables have it
    int64_t first
    int64_t second


cdef struct RecentSchema:     # kept by the cache's dictionary
    PyObject *text
    PyObject *schema


@cython.final
cdef class RowCodec:
    cdef ColumnCodec *columns
    cdef int count
    cdef bint numbers         # some of its columns have texts that hold numbers
    cdef size_t weight        # bytes that it takes
    cdef object spec          # owns the texts of names

    cdef bint read_row(self, Row *row, Typing *typing, char **to) noexcept nogil


@cython.final
cdef class SchemaCache:
    cdef bytes member         # that has them in Canal's messages; None: those have none
    cdef RowCodec codec       # by the schema of the message that was read last, or None
    cdef object read
    cdef dict schemas         # by its text: a text and what it says
    cdef size_t count
    cdef size_t weight
    cdef RecentSchema recent[RECENT_SCHEMAS]  # the last ones first
    cdef object __weakref__

    cdef RowCodec find(self, const char **at, const char *end)
    cdef RowCodec find_text(self, bytes text)
    cdef bint keep(self, bytes text, object made) except -1
    cdef void forget(self) noexcept


@cython.final
cdef class AvroTexts:
    cdef Py_ssize_t head_size # bytes in front of a message, by which its schema is known
    cdef object find
    cdef dict readers         # by heads
    cdef char head[MAX_HEAD]  # of the message that was read last
    cdef AvroReader last      # and its reader

    cdef AvroReader reader_of(self, const Text *message)
    cdef bint read(self, Text *message, Room *room) except -1
