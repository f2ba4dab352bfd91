# cython: language_level=3, boundscheck=False, wraparound=False
"""The reading of values that hold no others; see scalars.pxd. The references are formats/avro/primitives.py and formats/avro/logical.py."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Realloc
from libc.math cimport isfinite
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from ingest.formats.avro.native.nodes cimport (
    AVRO_BOOLEAN, AVRO_BYTES, AVRO_DATE, AVRO_DECIMAL, AVRO_DOUBLE, AVRO_ENUM, AVRO_FLOAT, AVRO_INTEGER, AVRO_MOMENT,
    AVRO_NULL, AVRO_OTHER, AVRO_PASSED, AVRO_TIME, AVRO_VARIABLE, AVRO_ZONED, AvroNode,
)
from ingest.native.scan cimport (
    JSON_STRING, MAX_ESCAPE, MAX_MADE, Field, is_utf8, put_base64, put_date, put_int, put_quoted_text, put_time,
    put_timestamp, put_unscaled, read_zoned,
)

import msgspec

from ingest.model.floats import shortest

cdef enum:
    MAX_TEXT = 1 << 26        # bytes of the text that is made

cdef int64_t DAY = 86_400_000_000

cdef object encode_number = msgspec.json.Encoder().encode


# -- Values of a message -----------------------------------------------------------------------------------------------


cdef const uint8_t *scan_long(const uint8_t *p, const uint8_t *end, int64_t *value) noexcept nogil:
    """Scan an integer: groups of seven bits, the lowest first, with the sign in the lowest bit. NULL for a fallback."""
    cdef uint64_t bits = 0
    cdef int shift = 0
    while p < end and shift < 63:
        bits |= <uint64_t> (p[0] & 127) << shift
        if p[0] < 128:
            value[0] = <int64_t> (bits >> 1) ^ -<int64_t> (bits & 1)
            return p + 1
        p += 1
        shift += 7
    if p >= end or p[0] > 1:  # the last bit
        return NULL
    bits |= <uint64_t> p[0] << 63
    value[0] = <int64_t> (bits >> 1) ^ -<int64_t> (bits & 1)
    return p + 1


cdef const uint8_t *scan_size(const uint8_t *p, const uint8_t *end, int64_t *size) noexcept nogil:
    """Scan the number of the bytes that come next, which are there. NULL for a fallback."""
    p = scan_long(p, end, size)
    return p if p != NULL and 0 <= size[0] <= end - p else NULL


cdef bint is_in_bits(int64_t value, int64_t bits) noexcept nogil:
    cdef int64_t bound = <int64_t> 1 << (bits - 1) if bits < 64 else INT64_MAX
    return bits == 64 or (-bound <= value < bound)


# -- The text that is made ---------------------------------------------------------------------------------------------


cdef char *more(JsonText *made, size_t size) except? NULL:
    """Return room for so many bytes behind those that are there; NULL for a fallback."""
    cdef size_t room
    if made.text and size <= made.room - made.used:
        return made.text + made.used
    if size > <size_t> MAX_TEXT or made.used + size > <size_t> MAX_TEXT:
        return NULL
    room = (made.used + size) * 2 + 1024
    text = <char *> PyMem_Realloc(made.text, room)
    if not text:
        raise MemoryError
    made.text, made.room = text, room
    return made.text + made.used


cdef bint put(JsonText *made, const char *text, size_t size) except -1:
    """Add a text; False for a fallback."""
    cdef char *to = more(made, size)
    if to == NULL:
        return False
    memcpy(to, text, size)
    made.used += size
    return True


cdef const uint8_t *ended(JsonText *made, const char *to, const uint8_t *p) noexcept nogil:
    """Take what was written up to `to` for made; returns `p`, or NULL where nothing was."""
    if to == NULL:
        return NULL
    made.used = <size_t> (to - made.text)
    return p


# -- Plain values ------------------------------------------------------------------------------------------------------


cdef const uint8_t *read_integer(JsonText *made, const AvroNode *node, const uint8_t *p, const uint8_t *end) except? NULL:
    """Read an integer, or what is counted."""
    cdef int64_t value = 0
    cdef char *to = more(made, MAX_MADE)
    p = scan_long(p, end, &value)
    if p == NULL or to == NULL:
        return NULL
    if node.codec == AVRO_INTEGER:
        return ended(made, put_int(to, value), p) if is_in_bits(value, node.first) else NULL
    if node.codec == AVRO_ENUM:
        if not 0 <= value < node.count or not put(made, node.texts[value].text, node.texts[value].size):
            return NULL
        return p
    to[0] = b'"'
    to += 1
    if node.codec == AVRO_DATE:
        to = put_date(to, value) if is_in_bits(value, 32) else NULL
    elif value > INT64_MAX / node.first or value < -(INT64_MAX / node.first):
        to = NULL
    elif node.codec == AVRO_TIME:
        value *= node.first
        to = put_time(to, <uint64_t> value) if 0 <= value < DAY else NULL
    else:
        to = put_timestamp(to, value * node.first, b' ')
        if to != NULL and node.second:
            to[0] = b'Z'
            to += 1
    if to == NULL:
        return NULL
    to[0] = b'"'
    return ended(made, to + 1, p)


cdef const uint8_t *read_boolean(JsonText *made, const uint8_t *p, const uint8_t *end) except? NULL:
    cdef bint room
    if p >= end or p[0] > 1:
        return NULL
    room = put(made, b"true", 4) if p[0] else put(made, b"false", 5)
    return p + 1 if room else NULL


cdef const uint8_t *read_number(JsonText *made, const AvroNode *node, const uint8_t *p, const uint8_t *end) except? NULL:
    """Read a number of 32 or 64 bits, with the digits that the reference gives it."""
    cdef Py_ssize_t size = 4 if node.codec == AVRO_FLOAT else 8
    cdef float narrow = 0
    cdef double value = 0
    if end - p < size:
        return NULL
    if node.codec == AVRO_FLOAT:
        memcpy(&narrow, p, 4)
        value = narrow
    else:
        memcpy(&value, p, 8)
    if not isfinite(value):
        return NULL
    digits = encode_number(shortest(value) if node.codec == AVRO_FLOAT else value)
    if not put(made, PyBytes_AS_STRING(digits), <size_t> PyBytes_GET_SIZE(digits)):
        return NULL
    return p + size


cdef const uint8_t *read_bytes(JsonText *made, const AvroNode *node, const uint8_t *p, const uint8_t *end) except? NULL:
    """Read what has its size in front: texts, bytes and decimals."""
    cdef const char *text
    cdef char *to
    cdef int64_t size = node.size
    if size < 0:
        p = scan_size(p, end, &size)
    if p == NULL or size > end - p:
        return NULL
    text = <const char *> p
    if node.codec == AVRO_PASSED:
        return p + size
    to = more(made, <size_t> size * MAX_ESCAPE + MAX_MADE)
    if to == NULL:
        return NULL
    if node.codec == AVRO_DECIMAL:
        to = put_unscaled(to, p, <size_t> size, node.first, node.second)
    elif node.codec == AVRO_BYTES:
        to[0] = b'"'
        to = put_base64(to + 1, text, <size_t> size)
        to[0] = b'"'
        to += 1
    elif not is_utf8(text, <size_t> size):
        return NULL
    else:
        to = put_quoted_text(to, text, <size_t> size)
        if node.codec == AVRO_ZONED:
            to = zoned(made, to)
    return ended(made, to, p + size)


cdef char *zoned(JsonText *made, const char *end) noexcept nogil:
    """Put a time stamp in the form that is written in the place of a text, and return where it ends, or NULL."""
    cdef char room[MAX_MADE]
    cdef char *to = room
    cdef Field field
    field.text, field.size = made.text + made.used, <uint32_t> (end - made.text - made.used)
    field.kind, field.flags = JSON_STRING, 0
    if field.size > MAX_MADE or not read_zoned(&field, &to):
        return NULL
    memcpy(made.text + made.used, field.text, field.size)
    return made.text + made.used + field.size


cdef const uint8_t *read_variable(JsonText *made, const uint8_t *p, const uint8_t *end) except? NULL:
    """Read a record of a scale and a number by its bytes, as a text."""
    cdef int64_t scale = 0, size = 0
    cdef char *to = more(made, MAX_MADE * 2)
    p = scan_long(p, end, &scale)
    if p != NULL:
        p = scan_size(p, end, &size)
    if p == NULL or to == NULL:
        return NULL
    to[0] = b'"'
    to = put_unscaled(to + 1, p, <size_t> size, 0, scale)
    if to == NULL:
        return NULL
    to[0] = b'"'
    return ended(made, to + 1, p + size)


cdef const uint8_t *read_scalar(
    JsonText *made, const AvroNode *node, const uint8_t *p, const uint8_t *end
) except? NULL:
    """Read a value that holds no others, and return where it ends; NULL for a fallback."""
    cdef int codec = node.codec
    if codec == AVRO_OTHER or (codec == AVRO_NULL and not put(made, b"null", 4)):
        return NULL
    if codec == AVRO_NULL:
        return p
    if codec == AVRO_INTEGER or codec == AVRO_ENUM or AVRO_DATE <= codec <= AVRO_MOMENT:
        return read_integer(made, node, p, end)
    if codec == AVRO_BOOLEAN:
        return read_boolean(made, p, end)
    if codec == AVRO_FLOAT or codec == AVRO_DOUBLE:
        return read_number(made, node, p, end)
    if codec == AVRO_VARIABLE:
        return read_variable(made, p, end)
    return read_bytes(made, node, p, end)
