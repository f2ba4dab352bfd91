# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows of one table as lines of PostgreSQL's COPY, in its text format.

A line has the number of the state, whether it is a delete, and the columns. A value is its own text: a text without its
quotes and escapes, all else as JSON has it. The server reads it by the type of its column.
"""

cimport cython

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memchr, memcpy

from ingest.native.scan cimport (
    HAS_ESCAPES, JSON_ARRAY, JSON_NULL, JSON_OBJECT, JSON_STRING, Field, Row, is_named, put_int, put_unescaped, scan_object,
)

cdef enum:
    MAX_COLUMNS = 1600
    FIXED = 64                # bytes of a line that are not its columns', at most
    FIRST_BYTES = 1 << 20


cdef struct CopyCell:
    const char *name
    uint32_t name_size
    bint of_key
    const Field *field        # the value in hand; NULL: there is none


cdef char *put_escaped_copy(char *to, const char *text, const char *end) noexcept nogil:
    """Write a text as COPY reads it, twice as long at most; return where it ends."""
    cdef char byte
    while text < end:
        byte = text[0]
        text += 1
        if byte == b"\\":
            to[0] = to[1] = b"\\"
            to += 2
        elif byte == b"\n" or byte == b"\r" or byte == b"\t":
            to[0] = b"\\"
            to[1] = b"n" if byte == b"\n" else b"r" if byte == b"\r" else b"t"
            to += 2
        else:
            to[0] = byte
            to += 1
    return to


cdef char *put_nested(char *to, const Field *field) noexcept nogil:
    """Write an object or an array on one line: what ends lines and fields there is white space between values."""
    cdef uint32_t i
    cdef char byte
    for i in range(field.size):
        byte = field.text[i]
        if byte == b"\n" or byte == b"\r" or byte == b"\t":
            byte = b" "
        elif byte == b"\\":
            to[0] = byte
            to += 1
        to[0] = byte
        to += 1
    return to


@cython.final
cdef class CopyRows:
    """Lines of one table, with columns of these `CopyColumnSpec`s."""

    cdef bint busy            # its method runs
    cdef object spec          # has the names
    cdef CopyCell *cells
    cdef int columns
    cdef Row *rows            # the row in hand, and the one before it, in turn
    cdef Row *key_row
    cdef int now              # which one is in hand
    cdef bint alike           # the memory of the row before is there still
    cdef char *text           # lines
    cdef size_t size
    cdef size_t room
    cdef char *plain          # a text without its escapes
    cdef size_t plain_room

    def __cinit__(self, tuple spec not None):
        cdef CopyCell *cell
        if len(spec) > MAX_COLUMNS:
            raise ValueError("too many columns")
        self.spec = spec
        self.cells = <CopyCell *> PyMem_Calloc(<size_t> len(spec) + 1, sizeof(CopyCell))
        self.rows = <Row *> PyMem_Malloc(2 * sizeof(Row))
        self.key_row = <Row *> PyMem_Malloc(sizeof(Row))
        if not self.cells or not self.rows or not self.key_row:
            raise MemoryError
        for given in spec:
            cell = &self.cells[self.columns]
            if type(given.name) is not bytes:
                raise TypeError("a name is bytes")
            cell.name, cell.name_size = PyBytes_AS_STRING(given.name), <uint32_t> len(given.name)
            cell.of_key = given.of_key
            self.columns += 1

    def __dealloc__(self):
        PyMem_Free(self.cells)
        PyMem_Free(self.rows)
        PyMem_Free(self.key_row)
        PyMem_Free(self.text)
        PyMem_Free(self.plain)

    cdef int make_room(self, size_t size) except -1:
        """Make room for so many bytes more; raises MemoryError."""
        cdef size_t room
        if self.text != NULL and self.room - self.size >= size:
            return 0
        room = (self.size + size) * 2 + <size_t> FIRST_BYTES
        more = <char *> PyMem_Realloc(self.text, room)
        if not more:
            raise MemoryError
        self.text, self.room = more, room
        return 0

    cdef char *put_string(self, char *to, const Field *field) except? NULL:
        """Write a text; NULL for a fallback: one with a zero character."""
        cdef const char *text = field.text + 1
        cdef const char *end = field.text + field.size - 1
        if not field.flags & HAS_ESCAPES:  # it has neither backslashes nor control characters
            memcpy(to, text, <size_t> (end - text))
            return to + (end - text)
        if self.plain == NULL or self.plain_room < field.size:
            more = <char *> PyMem_Realloc(self.plain, <size_t> field.size * 2)
            if not more:
                raise MemoryError
            self.plain, self.plain_room = more, <size_t> field.size * 2
        end = put_unescaped(self.plain, text, end)
        if memchr(self.plain, 0, <size_t> (end - self.plain)) != NULL:
            return NULL
        return put_escaped_copy(to, self.plain, end)

    cdef void place_fields(self, Row *row, bint of_key) noexcept nogil:
        """Let columns have the fields of a row, or of a key. Of two fields of one name the last one counts."""
        cdef int i, c = 0, tries
        for i in range(row.count):
            for tries in range(self.columns):
                if c == self.columns:
                    c = 0
                if is_named(&row.fields[i], self.cells[c].name, self.cells[c].name_size):
                    if self.cells[c].of_key == of_key:
                        self.cells[c].field = &row.fields[i]
                    c += 1
                    break
                c += 1

    cdef bint scan(self, bytes key, bytes row) except -1:
        """Find the values of a record; False for a fallback."""
        cdef const Row *like = &self.rows[self.now] if self.alike else NULL
        cdef int c
        for c in range(self.columns):
            self.cells[c].field = NULL
        self.alike = False
        if not scan_object(PyBytes_AS_STRING(key), <size_t> PyBytes_GET_SIZE(key), self.key_row, NULL):
            return False
        self.place_fields(self.key_row, True)
        if row is not None:
            self.now = 1 - self.now
            if not scan_object(PyBytes_AS_STRING(row), <size_t> PyBytes_GET_SIZE(row), &self.rows[self.now], like):
                return False
            self.alike = True
            self.place_fields(&self.rows[self.now], False)
        return True

    cdef bint add(self, int64_t number, bytes key, bytes row) except -1:
        """Write the line of a record; False for a fallback."""
        cdef size_t most = <size_t> PyBytes_GET_SIZE(key) + (0 if row is None else <size_t> PyBytes_GET_SIZE(row))
        cdef const Field *field
        cdef char *to
        cdef int c
        if not self.scan(key, row):
            return False
        self.make_room(2 * most + 3 * <size_t> self.columns + FIXED)
        to = put_int(self.text + self.size, number)
        to[0], to[1] = b"\t", b"t" if row is None else b"f"
        to += 2
        for c in range(self.columns):
            field = self.cells[c].field
            to[0] = b"\t"
            to += 1
            if field == NULL or field.kind == JSON_NULL:
                if self.cells[c].of_key:
                    return False
                to[0], to[1] = b"\\", b"N"
                to += 2
            elif field.kind == JSON_STRING:
                to = self.put_string(to, field)
                if to == NULL:
                    return False
            elif field.kind == JSON_OBJECT or field.kind == JSON_ARRAY:
                to = put_nested(to, field)
            else:
                memcpy(to, field.text, field.size)
                to += field.size
        to[0] = b"\n"
        self.size = <size_t> (to + 1 - self.text)
        return True

    def lines(self, list records not None, int64_t first):
        cdef bytes key, row
        if self.busy:
            raise RuntimeError("these rows are in use: by a call that is not done yet, or in another thread")
        self.busy, self.size = True, 0
        try:
            for key, row in records:
                if key is None:
                    raise TypeError("a row without a key")
                if not self.add(first, key, row):
                    return None
                first += 1
            return PyBytes_FromStringAndSize(self.text, <Py_ssize_t> self.size) if self.size else b""
        finally:
            self.alike, self.busy = False, False
