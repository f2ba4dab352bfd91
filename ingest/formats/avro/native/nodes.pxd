# cython: language_level=3
"""A schema as a list of nodes. Those of fields, branches and items are said by their places: a record may hold itself."""

cimport cython

from libc.stdint cimport int64_t

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


cdef struct AvroNode:
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
