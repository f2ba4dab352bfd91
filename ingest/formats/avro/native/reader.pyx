# cython: language_level=3, boundscheck=False, wraparound=False
"""The reading of Avro's binary encoding; see reader.pxd. The references are primitives.py, logical.py and rows.py."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Realloc
from libc.math cimport isfinite
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from ingest.native.scan cimport (
    JSON_STRING, MAX_ESCAPE, MAX_MADE, Field, Text, is_utf8, put_base64, put_date, put_int, put_quoted_text, put_time,
    put_timestamp, put_unscaled, read_zoned,
)

import msgspec

from ingest.model.floats import shortest

cdef enum:
    MOST_BITS = 64            # of an integer
    MAX_TEXT = 1 << 26        # bytes of the text that is made
    MAX_DEPTH = 64            # values within values
    MAX_KEYS = 64             # of a map: each is compared with the others
    MAX_MESSAGE = 1 << 24     # bytes
    MAX_KEPT = 1 << 14        # bytes of room that are kept for the next message: there may be many readers

cdef int64_t DAY = 86_400_000_000

cdef object encode_number = msgspec.json.Encoder().encode


# -- Nodes -------------------------------------------------------------------------------------------------------------


cdef class AvroNodes:
    """The nodes of one schema, from `AvroNodeSpec`s; raises ValueError or TypeError where they do not fit each other."""

    def __cinit__(self, nodes):
        cdef AvroNode *node
        self.spec = nodes = tuple(nodes)
        self.nodes = <AvroNode *> PyMem_Calloc(<size_t> len(nodes) + 1, sizeof(AvroNode))
        if not self.nodes:
            raise MemoryError
        self.count = len(nodes)
        for i, spec in enumerate(nodes):
            self.fill(&self.nodes[<int> i], spec)
        if not self.count or (self.nodes[0].codec != AVRO_RECORD and self.nodes[0].codec != AVRO_UNION):
            raise ValueError("the first node is neither a record nor a union")

    cdef int fill(self, AvroNode *node, object spec) except -1:
        """Fill a node; raises ValueError or TypeError."""
        cdef Py_ssize_t places = len(spec.nodes), texts = len(spec.texts), most = max(places, texts)
        cdef Py_ssize_t i
        node.codec, node.first, node.second, node.size = spec.codec, spec.first, spec.second, spec.size
        node.nodes = <int *> PyMem_Calloc(<size_t> most + 1, sizeof(int))
        node.texts = <Text *> PyMem_Calloc(<size_t> most + 1, sizeof(Text))
        if not node.nodes or not node.texts:
            raise MemoryError
        for i in range(places):
            node.nodes[i] = spec.nodes[i]
            if not 0 <= node.nodes[i] < self.count:
                raise ValueError("a place of no node")
        for i in range(texts):
            text = spec.texts[i]
            if type(text) is not bytes:
                raise TypeError("a text that is not bytes")
            node.texts[i].text, node.texts[i].size = PyBytes_AS_STRING(text), <size_t> PyBytes_GET_SIZE(text)
        node.count = <int> most
        self.check(node, places, texts)
        return 0

    cdef int check(self, const AvroNode *node, Py_ssize_t places, Py_ssize_t texts) except -1:
        cdef bint inner = node.codec >= <int> AVRO_RECORD
        if not 0 <= node.codec < <int> AVRO_CODECS:
            raise ValueError("no such codec")
        if (node.codec == AVRO_RECORD and places != texts) or (node.codec == AVRO_UNION and places < 1):
            raise ValueError("a record without names, or a union without branches")
        if (node.codec == AVRO_ARRAY or node.codec == AVRO_MAP) and places != 1:
            raise ValueError("an array or a map has one node")
        if not inner and places:
            raise ValueError("a value with other values in it")
        if (node.codec == AVRO_INTEGER and not 1 <= node.first <= MOST_BITS) or node.size < -1:
            raise ValueError("numbers that there are not")
        if (node.codec == AVRO_TIME or node.codec == AVRO_MOMENT) and node.first < 1:
            raise ValueError("no unit")
        if node.codec == AVRO_RECORD and node.first < 0:
            raise ValueError("members fewer than none")
        if node.codec == AVRO_DECIMAL and node.first < 1:
            raise ValueError("no digits")
        return 0

    def __dealloc__(self):
        cdef int i
        if self.nodes:
            for i in range(self.count):
                PyMem_Free(self.nodes[i].nodes)
                PyMem_Free(self.nodes[i].texts)
        PyMem_Free(self.nodes)


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


# -- Messages ----------------------------------------------------------------------------------------------------------


cdef class AvroReader:
    """The reader of one schema; see reader.pyi."""

    def __cinit__(self, nodes, int64_t base, int64_t per_byte):
        cdef int i
        self.kept = AvroNodes(nodes)
        self.nodes = self.kept.nodes
        self.base, self.per_byte = base, per_byte
        for i in range(self.kept.count):
            self.numbers |= self.nodes[i].codec == AVRO_VARIABLE

    def __dealloc__(self):
        PyMem_Free(self.made.text)

    # -- Values with others in them ------------------------------------------------------------------------------------

    cdef const uint8_t *read_record(
        self, const AvroNode *node, const uint8_t *p, const uint8_t *end, int depth
    ) except? NULL:
        cdef bint first = True
        cdef size_t before
        cdef int i
        self.left -= node.first
        if self.left < 0 or not put(&self.made, b"{", 1):
            return NULL
        for i in range(node.count):
            before = self.made.used
            if not first and not put(&self.made, b",", 1):
                return NULL
            if not put(&self.made, node.texts[i].text, node.texts[i].size):
                return NULL
            p = self.read_value(node.nodes[i], p, end, depth)
            if p == NULL:
                return NULL
            if node.texts[i].size:
                first = False
            else:
                self.made.used = before
        return p if put(&self.made, b"}", 1) else NULL

    cdef const uint8_t *read_count(
        self, const uint8_t *p, const uint8_t *end, int64_t so_far, int64_t *count
    ) noexcept nogil:
        """Read how many items come next, each of which takes a byte at least; NULL for a fallback."""
        cdef int64_t size
        p = scan_long(p, end, count)
        if p != NULL and count[0] < 0:
            if count[0] == INT64_MIN:
                return NULL
            count[0] = -count[0]
            p = scan_long(p, end, &size)
        return p if p != NULL and count[0] <= self.size - so_far else NULL

    cdef const uint8_t *read_key(
        self, const uint8_t *p, const uint8_t *end, Text *keys, int64_t seen
    ) except? NULL:
        """Read a key that is not one of those before it; NULL for a fallback."""
        cdef int64_t size = 0, i
        cdef char *to
        p = scan_size(p, end, &size)
        if p == NULL or seen == MAX_KEYS or not is_utf8(<const char *> p, <size_t> size):
            return NULL
        keys[seen].text, keys[seen].size = <const char *> p, <size_t> size
        for i in range(seen):
            if keys[i].size == keys[seen].size and not memcmp(keys[i].text, p, keys[i].size):
                return NULL
        to = more(&self.made, <size_t> size * MAX_ESCAPE + 4)
        if to == NULL:
            return NULL
        to = put_quoted_text(to, <const char *> p, <size_t> size)
        to[0] = b':'
        return ended(&self.made, to + 1, p + size)

    cdef const uint8_t *read_items(
        self, const AvroNode *node, const uint8_t *p, const uint8_t *end, int depth, Text *keys
    ) except? NULL:
        """Read the items of an array, or of a map, of which `keys` has room for the keys. NULL for a fallback."""
        cdef int64_t count = 0, seen = 0
        cdef const char *ends = b"[]" if keys == NULL else b"{}"
        if not put(&self.made, ends, 1):
            return NULL
        while True:
            p = self.read_count(p, end, seen, &count)
            if p == NULL:
                return NULL
            if not count:
                return p if put(&self.made, ends + 1, 1) else NULL
            while count:
                if seen and not put(&self.made, b",", 1):
                    return NULL
                if keys != NULL:
                    p = self.read_key(p, end, keys, seen)
                if p != NULL:
                    p = self.read_value(node.nodes[0], p, end, depth)
                if p == NULL:
                    return NULL
                seen += 1
                count -= 1

    cdef const uint8_t *read_map(
        self, const AvroNode *node, const uint8_t *p, const uint8_t *end, int depth
    ) except? NULL:
        cdef Text keys[MAX_KEYS]
        return self.read_items(node, p, end, depth, keys)

    cdef const uint8_t *read_value(self, int place, const uint8_t *p, const uint8_t *end, int depth) except? NULL:
        """Read a value, and return where it ends; NULL for a fallback."""
        cdef const AvroNode *node = &self.nodes[place]
        cdef int codec = node.codec
        if codec == AVRO_UNION:
            if p >= end or p[0] & 1 or p[0] >> 1 >= node.count or p[0] >= 128 or depth >= MAX_DEPTH:
                return NULL
            return self.read_value(node.nodes[p[0] >> 1], p + 1, end, depth + 1)
        if codec < <int> AVRO_RECORD:
            return read_scalar(&self.made, node, p, end)
        if depth >= MAX_DEPTH:
            return NULL
        if codec == AVRO_RECORD:
            return self.read_record(node, p, end, depth + 1)
        if codec == AVRO_ARRAY:
            return self.read_items(node, p, end, depth + 1, NULL)
        return self.read_map(node, p, end, depth + 1)

    # -- Messages ------------------------------------------------------------------------------------------------------

    cdef bint begin(self, Py_ssize_t size, Py_ssize_t at) except -1:
        """Begin a message; False for a fallback. Another thread may come while a number's digits are looked for."""
        if not 0 <= at <= size:
            raise ValueError("no such place in the message")
        if self.busy or size > MAX_MESSAGE:
            return False
        self.busy, self.made.used, self.size = True, 0, size
        self.left = self.base + self.per_byte * size
        return True

    cdef int leave(self) noexcept:
        """Give back the room that one large message needed."""
        self.busy = False
        if self.made.room > <size_t> MAX_KEPT:
            PyMem_Free(self.made.text)
            self.made.text = NULL
            self.made.room = 0
        return 0

    cdef bint read_text(self, const char *message, Py_ssize_t size, Py_ssize_t at, Text *made) except -1:
        """Let `made` be the JSON text of a message, which is there until `leave`; False for a fallback.

        `leave` has to be called after True, and not after anything else.
        """
        cdef const uint8_t *p = <const uint8_t *> message
        cdef bint whole = False
        if not self.begin(size, at):
            return False
        try:
            whole = self.read_value(0, p + at, p + size, 0) == p + size
        finally:
            if not whole:
                self.leave()
        made.text, made.size = self.made.text, self.made.used
        return whole

    def read(self, bytes message not None, Py_ssize_t at):
        cdef Text made
        if not self.read_text(PyBytes_AS_STRING(message), PyBytes_GET_SIZE(message), at, &made):
            return None
        try:
            return PyBytes_FromStringAndSize(made.text, <Py_ssize_t> made.size)
        finally:
            self.leave()
