# cython: language_level=3, boundscheck=False, wraparound=False
"""The reading of Avro's binary encoding; see reader.pxd."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free
from libc.stdint cimport INT64_MIN, int64_t, uint8_t
from libc.string cimport memcmp

from ingest.formats.avro.native.nodes cimport AVRO_ARRAY, AVRO_RECORD, AVRO_UNION, AVRO_VARIABLE, AvroNode, AvroNodes
from ingest.formats.avro.native.scalars cimport ended, more, put, read_scalar, scan_long, scan_size
from ingest.native.scan cimport MAX_ESCAPE, Text, is_utf8, put_quoted_text

cdef enum:
    MAX_DEPTH = 64            # values within values
    MAX_KEYS = 64             # of a map: each is compared with the others
    MAX_MESSAGE = 1 << 24     # bytes
    MAX_KEPT = 1 << 14        # bytes of room that are kept for the next message: there may be many readers


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
