# cython: language_level=3
"""The reading of Avro's binary encoding: a message becomes the JSON text of its row. The reference is formats/avro/rows.py.

What is not plainly right, and what is rare, is a fallback: the reference reads that message.
"""

cimport cython

from libc.stdint cimport int64_t, uint8_t

from ingest.formats.avro.native.nodes cimport AvroNode, AvroNodes
from ingest.formats.avro.native.scalars cimport JsonText
from ingest.native.scan cimport Text


@cython.final
cdef class AvroReader:
    cdef AvroNodes kept       # owns what `nodes` are
    cdef const AvroNode *nodes
    cdef JsonText made
    cdef Py_ssize_t size      # bytes of the message
    cdef int64_t left         # of the members that its records may have: see formats/avro/budget.py
    cdef int64_t base         # of this for each message, and for each of its bytes
    cdef int64_t per_byte
    cdef bint numbers         # some of its values are texts that hold numbers
    cdef bint busy

    cdef const uint8_t *read_record(
        self, const AvroNode *node, const uint8_t *p, const uint8_t *end, int depth
    ) except? NULL
    cdef const uint8_t *read_count(
        self, const uint8_t *p, const uint8_t *end, int64_t so_far, int64_t *count
    ) noexcept nogil
    cdef const uint8_t *read_key(
        self, const uint8_t *p, const uint8_t *end, Text *keys, int64_t seen
    ) except? NULL
    cdef const uint8_t *read_items(
        self, const AvroNode *node, const uint8_t *p, const uint8_t *end, int depth, Text *keys
    ) except? NULL
    cdef const uint8_t *read_map(
        self, const AvroNode *node, const uint8_t *p, const uint8_t *end, int depth
    ) except? NULL
    cdef const uint8_t *read_value(self, int place, const uint8_t *p, const uint8_t *end, int depth) except? NULL
    cdef bint begin(self, Py_ssize_t size, Py_ssize_t at) except -1
    cdef int leave(self) noexcept
    cdef bint read_text(self, const char *message, Py_ssize_t size, Py_ssize_t at, Text *made) except -1
