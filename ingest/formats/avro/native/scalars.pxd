# cython: language_level=3
"""The reading of values that hold no others. What is not plainly right is a fallback: NULL."""

from libc.stdint cimport int64_t, uint8_t

from ingest.formats.avro.native.nodes cimport AvroNode


cdef struct JsonText:         # what is made
    char *text
    size_t used
    size_t room


cdef const uint8_t *scan_long(const uint8_t *p, const uint8_t *end, int64_t *value) noexcept nogil
cdef const uint8_t *scan_size(const uint8_t *p, const uint8_t *end, int64_t *size) noexcept nogil
cdef char *more(JsonText *made, size_t size) except? NULL
cdef bint put(JsonText *made, const char *text, size_t size) except -1
cdef const uint8_t *ended(JsonText *made, const char *to, const uint8_t *p) noexcept nogil
cdef const uint8_t *read_scalar(
    JsonText *made, const AvroNode *node, const uint8_t *p, const uint8_t *end
) except? NULL
