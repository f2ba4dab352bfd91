# cython: language_level=3, boundscheck=False, wraparound=False
"""Rows of a result set, in the text protocol, to records without a Python object for each.

In: what a socket gives, cut anywhere. Out: records with the same bytes as those of ingest/sources/mysql/snapshot.py. What
is not plainly right here, a value at a time, is written by the reference: functions of query_values.py.
"""

cimport cython

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcpy, memmove

from ingest.native.scan cimport (
    BASE64_SIZE, MAX_ESCAPE, is_utf8, put_base64, put_quoted_text, put_short_double,
)
from ingest.sources.mysql import query_values
from ingest.sources.mysql.native.log_records cimport PendingRecords
from ingest.sources.mysql.native.packed cimport put_short_float

cdef enum:
    NUMBER = 0
    QUOTED_NUMBER
    DOUBLE
    SINGLE
    MOMENT
    INSTANT
    CHARACTERS
    BYTES
    FLAG
    OTHER

    MAX_DIGITS = 15            # any number of so many digits is exact in a double
    MAX_PLACES = 22            # so is the power of ten
    MAX_SHORT = 80             # bytes of any short value
    FULL_PACKET = 0xFFFFFF     # the next one goes on
    FIRST_ROOM = 1 << 19

CODES = {
    query_values.number: NUMBER, query_values.quoted_number: QUOTED_NUMBER, query_values.double: DOUBLE,
    query_values.single: SINGLE, query_values.moment: MOMENT, query_values.instant: INSTANT,
    query_values.characters: CHARACTERS, query_values.base64: BYTES, query_values.flag: FLAG,
}

cdef double[23] powers
cdef int place
powers[0] = 1
for place in range(1, MAX_PLACES + 1):
    powers[place] = powers[place - 1] * 10


cdef struct Column:
    const char *name           # in quotes, with what is in front of it and the colon
    size_t name_size
    int code


cdef inline bint is_digit(char c) noexcept:
    return c'0' <= c <= c'9'


cdef bint read_double(const char *p, size_t size, double *value) noexcept:
    """Read a number that is plainly one double. False for what the reference has to read."""
    cdef const char *end = p + size
    cdef bint negative = size > 0 and p[0] == c'-'
    cdef int64_t whole = 0
    cdef int digits = 0, places = 0
    cdef bint point = False
    if negative:
        p += 1
    while p < end:
        if is_digit(p[0]):
            whole = whole * 10 + (p[0] - c'0')
            digits += whole != 0
            places += point
            if digits > MAX_DIGITS or places > MAX_PLACES:
                return False
        elif p[0] == c'.' and not point:
            point = True
        else:
            return False
        p += 1
    if size <= <size_t> negative + point:
        return False
    value[0] = <double> whole / powers[places]
    if negative:
        value[0] = -value[0]
    return True


cdef char *put_number(char *to, const char *p, size_t size) noexcept:
    """Write a number without the zeros in front."""
    cdef const char *end = p + size
    if size and p[0] == c'-':
        to[0] = c'-'
        to += 1
        p += 1
    while end - p > 1 and p[0] == c'0' and is_digit(p[1]):
        p += 1
    memcpy(to, p, <size_t> (end - p))
    return to + (end - p)


cdef char *put_moment(char *to, const char *p, size_t size, bint zoned) noexcept:
    """Write a date or a time without zeros at the end of its fraction."""
    to[0] = c'"'
    if memchr(p, c'.', size):
        while p[size - 1] == c'0':
            size -= 1
        if p[size - 1] == c'.':
            size -= 1
    memcpy(to + 1, p, size)
    to += size + 1
    if zoned:
        to[0] = c'Z'
        to += 1
    to[0] = c'"'
    return to + 1


cdef bint is_plain_number(const char *p, size_t size) noexcept:
    """Return whether a text is digits, with a sign and a point perhaps."""
    cdef size_t at = size > 0 and p[0] == c'-'
    cdef bint point = False
    if at == size or not is_digit(p[at]):
        return False
    while at < size:
        if not is_digit(p[at]):
            if point or p[at] != c'.' or at + 1 == size:
                return False
            point = True
        at += 1
    return True


@cython.final
cdef class ResultSetRows:
    """Takes what a socket gives of a result set's rows, up to its end."""

    cdef PendingRecords records
    cdef bytes head
    cdef bytes tail
    cdef list names            # keeps their bytes
    cdef list writers
    cdef Column *columns
    cdef Py_ssize_t count
    cdef int64_t position
    cdef int64_t millis
    cdef uint8_t *data
    cdef size_t used           # bytes of a packet whose end is not there yet
    cdef size_t room
    cdef list parts            # payloads of a packet that goes on in the next one
    cdef readonly bint ended
    cdef readonly bytes error
    """The payload of the packet by which the server ended the rows with an error."""
    cdef bint busy

    def __init__(self, bytes head not None, bytes tail not None, names, writers, position, millis, with_metadata=False):
        """See `Reading` of ingest/sources/mysql/snapshot.py. `names`: in quotes; `writers`: of query_values.py."""
        cdef Py_ssize_t at
        if self.columns != NULL or not names or len(names) != len(writers):
            raise ValueError(names)
        self.records = PendingRecords(with_metadata)
        self.head, self.tail, self.position, self.millis = head, tail, position, millis
        self.names = [(b"," if at else b"") + bytes(name) + b":" for at, name in enumerate(names)]
        self.writers = list(writers)
        self.parts = []
        self.columns = <Column *> PyMem_Malloc(<size_t> len(self.names) * sizeof(Column))
        if self.columns == NULL:
            raise MemoryError
        self.count = len(self.names)
        for at in range(self.count):
            self.columns[at].name = PyBytes_AS_STRING(self.names[at])
            self.columns[at].name_size = <size_t> PyBytes_GET_SIZE(self.names[at])
            self.columns[at].code = CODES.get(self.writers[at], OTHER)

    def __dealloc__(self):
        PyMem_Free(self.columns)
        PyMem_Free(self.data)

    def __len__(self):
        return len(self.records)

    @property
    def size(self):
        """Bytes of the records that wait."""
        return self.records.size

    def take(self):
        """Return all rows that were read since the last time, as records."""
        self.records.end()
        return self.records.take(len(self.records))

    def feed(self, data):
        """Read the rows of what came. Raise ValueError for what is no row of these columns."""
        cdef const uint8_t *p
        cdef const uint8_t *end
        cdef size_t size
        if self.busy:
            raise RuntimeError("it is being read already")
        self.add(data)
        p = self.data
        end = p + self.used
        self.busy = True
        try:
            while end - p >= 4 and not self.ended:
                size = p[0] | <size_t> p[1] << 8 | <size_t> p[2] << 16
                if end - p - 4 < <Py_ssize_t> size:
                    break
                p += 4
                if size == FULL_PACKET or self.parts:
                    self.parts.append(PyBytes_FromStringAndSize(<const char *> p, <Py_ssize_t> size))
                    if size != FULL_PACKET:
                        whole = b"".join(self.parts)
                        self.parts = []
                        self.packet(<const uint8_t *> PyBytes_AS_STRING(whole), <size_t> PyBytes_GET_SIZE(whole))
                else:
                    self.packet(p, size)
                p += size
            self.used = <size_t> (end - p)
            memmove(self.data, p, self.used)
        finally:
            self.busy = False
        if self.ended and self.used:
            raise ValueError("bytes behind the last row")

    cdef int add(self, given) except -1:
        """Put bytes behind those of the packet whose end is not there yet."""
        cdef Py_buffer view
        cdef uint8_t *grown
        cdef size_t room = self.room or FIRST_ROOM
        PyObject_GetBuffer(given, &view, PyBUF_SIMPLE)
        try:
            while room - self.used < <size_t> view.len:
                room *= 2
            if room != self.room:
                grown = <uint8_t *> PyMem_Realloc(self.data, room)
                if grown == NULL:
                    raise MemoryError
                self.data, self.room = grown, room
            memcpy(self.data + self.used, view.buf, <size_t> view.len)
            self.used += <size_t> view.len
        finally:
            PyBuffer_Release(&view)
        return 0

    cdef int packet(self, const uint8_t *p, size_t size) except -1:
        """Read a packet: a row, the end, or an error."""
        if size and p[0] == 0xFF:
            self.error, self.ended = PyBytes_FromStringAndSize(<const char *> p, <Py_ssize_t> size), True
        elif size and p[0] == 0xFE and size < 9:
            self.ended = True
        else:
            self.row(p, p + size)
        return 0

    cdef int row(self, const uint8_t *p, const uint8_t *end) except -1:
        cdef size_t used = 0, size, most
        cdef Py_ssize_t at
        cdef char *start
        cdef char *to
        cdef Column *column
        cdef int width
        # The values, each at its longest but those that are escaped or base64, for which more is reserved then
        used = <size_t> PyBytes_GET_SIZE(self.head)
        start = self.records.reserve(used)
        memcpy(start, PyBytes_AS_STRING(self.head), used)
        for at in range(self.count):
            column = &self.columns[at]
            if p >= end:
                raise ValueError("a row that ends too early")
            width = 0
            size = p[0]
            p += 1
            if size > 0xFB:
                width = 2 if size == 0xFC else 3 if size == 0xFD else 8 if size == 0xFE else 0
                if not width or end - p < width:
                    raise ValueError("a length that is none")
                size = 0
                for i in range(width):
                    size |= <size_t> p[i] << (8 * i)
                p += width
            elif size == 0xFB:
                start = self.records.reserve(used + column.name_size + 4)
                memcpy(start + used, column.name, column.name_size)
                memcpy(start + used + column.name_size, b"null", 4)
                used += column.name_size + 4
                continue
            if size > <size_t> (end - p):
                raise ValueError("a row that ends too early")
            most = size * MAX_ESCAPE if column.code == CHARACTERS else BASE64_SIZE(size) if column.code == BYTES else size
            start = self.records.reserve(used + column.name_size + most + MAX_SHORT)
            memcpy(start + used, column.name, column.name_size)
            used += column.name_size
            to = put_value(start + used, column.code, <const char *> p, size)
            if to != NULL:
                used = <size_t> (to - start)
            else:
                used = self.other(used, at, <const char *> p, size)
            p += size
        if p != end:
            raise ValueError("a row with more values than columns")
        size = <size_t> PyBytes_GET_SIZE(self.tail)
        start = self.records.reserve(used + size)
        memcpy(start + used, PyBytes_AS_STRING(self.tail), size)
        self.records.keep(used + size, self.position, self.millis)
        return 0

    cdef size_t other(self, size_t used, Py_ssize_t at, const char *p, size_t size) except 0:
        """Let the reference write a value, and return where it ends."""
        written = self.writers[at](PyBytes_FromStringAndSize(p, <Py_ssize_t> size))
        if type(written) is not bytes:
            raise TypeError(written)
        memcpy(
            self.records.reserve(used + <size_t> PyBytes_GET_SIZE(written)) + used, PyBytes_AS_STRING(written),
            <size_t> PyBytes_GET_SIZE(written),
        )
        return used + <size_t> PyBytes_GET_SIZE(written)


cdef char *put_value(char *to, int code, const char *p, size_t size) noexcept:
    """Write a value, for whose longest form there is room; NULL for what the reference has to write."""
    cdef double value = 0
    cdef char *end
    if code == NUMBER or code == QUOTED_NUMBER:
        if not is_plain_number(p, size):
            return NULL
        if code == NUMBER:
            return put_number(to, p, size)
        to[0] = c'"'
        end = put_number(to + 1, p, size)
        end[0] = c'"'
        return end + 1
    if code == CHARACTERS:
        return put_quoted_text(to, p, size) if is_utf8(p, size) else NULL
    if code == MOMENT or code == INSTANT:
        return put_moment(to, p, size, code == INSTANT)
    if code == BYTES:
        to[0] = c'"'
        end = put_base64(to + 1, p, size)
        end[0] = c'"'
        return end + 1
    if code == DOUBLE:
        return put_short_double(to, value) if read_double(p, size, &value) else NULL
    if code == SINGLE:
        return put_short_float(to, <float> value) if read_double(p, size, &value) else NULL
    if code == FLAG:
        if size != 1:
            return NULL
        if p[0] == 1:
            memcpy(to, b"true", 4)
            return to + 4
        memcpy(to, b"false", 5)
        return to + 5
    return NULL
