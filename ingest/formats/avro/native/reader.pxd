# cython: language_level=3
"""The reading of Avro's binary encoding: a message becomes the JSON text of its row. The reference is formats/avro/rows.py.

What is not plainly right, and what is rare, is a fallback: the reference reads that message.
"""

cimport cython

from libc.stdint cimport int64_t, uint8_t

from ingest.native.scan cimport Text


cpdef enum AvroCodec:         # how a value is read
    AVRO_OTHER                # by the reference
    AVRO_NULL
    AVRO_BOOLEAN
    AVRO_INTEGER              # of `first` bits
    AVRO_FLOAT
    AVRO_DOUBLE
    AVRO_BYTES                # here, and of decimals: `size` of them, or -1: a message says how many
    AVRO_STRING
    AVRO_ZONED                # a text that is a time stamp with a zone
    AVRO_ENUM
    AVRO_DATE
    AVRO_TIME                 # in units of `first` microseconds
    AVRO_MOMENT               # the same, since 1970; with `second` it has a zone
    AVRO_DECIMAL              # of `first` digits, `second` of them behind the point
    AVRO_VARIABLE             # a record of a scale and a number by its bytes
    AVRO_PASSED               # bytes that nobody asks for
    AVRO_RECORD               # which takes `first` of the members that a message may have
    AVRO_ARRAY
    AVRO_MAP
    AVRO_UNION
    AVRO_CODECS               # so many there are


cdef struct AvroNode:         # places are indexes into the list of nodes: a record may hold itself
    int codec
    int count                 # of `nodes`, and of `texts`
    int64_t first
    int64_t second
    int64_t size
    int *nodes                # places of fields, branches or items
    Text *texts               # of fields: names with quotes and a colon, or nothing: it is passed over; of enums: symbols


@cython.final
cdef class AvroNodes:
    cdef AvroNode *nodes
    cdef int count
    cdef object spec          # owns the texts

    cdef int fill(self, AvroNode *node, object spec) except -1
    cdef int check(self, const AvroNode *node, Py_ssize_t places, Py_ssize_t texts) except -1


cdef struct JsonText:         # what is made
    char *text
    size_t used
    size_t room


@cython.final
cdef class AvroReader:
    cdef AvroNodes kept       # owns what `nodes` are
    cdef const AvroNode *nodes
    cdef JsonText made
    cdef Py_ssize_t size      # bytes of the message
    cdef int64_t left         # of the members that its records may have: see formats/avro/primitives.py
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
