# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows of the log to records; see row_image.pxd. What is not plainly right is left to the reference."""

cimport cython

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from ingest.native.scan cimport is_utf8, put_base64, put_int, put_quoted_text, put_short_double
from ingest.sources.mysql.native.log_records cimport PendingRecords
from ingest.sources.mysql.native.packed cimport (
    MAX_PACKED, low_bytes, packed_decimal_size, put_packed_date, put_packed_datetime, put_packed_decimal,
    put_packed_time, put_packed_timestamp, put_short_float, put_unsigned, put_windows_text,
)

cdef enum:
    MAX_EXPANSION = 6         # bytes that a byte of a text may become
    MAX_COLUMNS = 4096
    MAX_WIDTH = 1 << 16
    MAX_PADDED = 1 << 8


cdef TextPiece piece_of(bytes text):
    return TextPiece(PyBytes_AS_STRING(text), <size_t> PyBytes_GET_SIZE(text))


cdef inline char *put_piece(char *to, TextPiece *piece) noexcept nogil:
    memcpy(to, piece.text, piece.size)
    return to + piece.size


cdef inline char *put_name(char *to, ColumnStep *column, bint first) noexcept nogil:
    """Write a column's name, without the comma before the first one."""
    memcpy(to, column.name.text + first, column.name.size - first)
    return to + column.name.size - first


cdef char *put_padded(char *to, const uint8_t *p, size_t size, size_t full) noexcept nogil:
    """Write bytes with zeros up to the length of their column."""
    cdef uint8_t bytes_of[MAX_PADDED]
    if full > MAX_PADDED or size > full:
        return NULL
    memcpy(bytes_of, p, size)
    memset(bytes_of + size, 0, full - size)
    to[0] = b'"'
    to = put_base64(to + 1, <const char *> bytes_of, full)
    to[0] = b'"'
    return to + 1


cdef int check_step(ColumnStep *made) except -1:
    """Raise ValueError for a step that would read or write where nothing is."""
    cdef int step = made.step, size = made.size, scale = made.scale
    cdef bint fits = 0 <= made.length_bytes <= 4 and 0 <= size <= MAX_WIDTH and made.name.size > 0
    if step in (SIGNED, UNSIGNED, LABEL, LABELS):
        fits &= 1 <= size <= 8
    elif step == DATE:
        fits &= size == 3
    elif step == DATETIME:
        fits &= 0 <= scale <= 3 and size == 5 + scale
    elif step == TIME:
        fits &= 0 <= scale <= 3 and size == 3 + scale
    elif step == TIMESTAMP:
        fits &= 0 <= scale <= 3 and size == 4 + scale
    elif step == FLOAT:
        fits &= size == 4
    elif step == DOUBLE:
        fits &= size == 8
    elif step in (YEAR, TRUTH):
        fits &= size == 1
    elif step == DECIMAL:
        fits &= size == packed_decimal_size(made.precision, scale)
    if made.length_bytes and step not in (BY_PYTHON, UTF8, ASCII, WINDOWS, BYTES, PADDED, NOTHING):
        fits = False
    if not fits:
        raise ValueError((step, size, scale))
    return 0


cdef inline bint has(const uint8_t *bits, int at) noexcept nogil:
    return bits[at >> 3] >> (at & 7) & 1


@cython.final
cdef class RowShape:
    """See row_image.pyi."""

    def __cinit__(self, sizes, places):
        cdef int at
        cdef size_t room = <size_t> len(sizes) or 1
        if len(sizes) > MAX_COLUMNS:
            raise ValueError(len(sizes))
        self.lengths = <int *> PyMem_Calloc(room, sizeof(int))
        self.sizes = <int *> PyMem_Calloc(room, sizeof(int))
        self.wanted = <uint8_t *> PyMem_Calloc(room, 1)
        self.begins = <const uint8_t **> PyMem_Calloc(room, sizeof(void *))
        self.ends = <const uint8_t **> PyMem_Calloc(room, sizeof(void *))
        if NULL in (<void *> self.lengths, <void *> self.sizes, <void *> self.wanted, <void *> self.begins,
                    <void *> self.ends):
            raise MemoryError
        self.count = len(sizes)
        for at, (length, size) in enumerate(sizes):
            if not (0 <= length <= 4 and 0 <= size <= MAX_WIDTH):
                raise ValueError((length, size))
            self.lengths[at], self.sizes[at] = length, size
        for at in places:
            if not 0 <= at < self.count:
                raise ValueError(at)
            self.wanted[at] = 1

    def __dealloc__(self):
        PyMem_Free(self.lengths)
        PyMem_Free(self.sizes)
        PyMem_Free(self.wanted)
        PyMem_Free(self.begins)
        PyMem_Free(self.ends)

    cdef set changed(
        self, const uint8_t *p, const uint8_t *end, const uint8_t *before, const uint8_t *after
    ):
        """Return the places at which rows have other bytes after an update; None where the reference has to look."""
        cdef set out = set()
        cdef const uint8_t *begin
        while p < end:
            begin = p
            memset(self.begins, 0, <size_t> self.count * sizeof(void *))
            p = self.image(p, end, before, None)
            if p != NULL:
                p = self.image(p, end, after, out)
            if p == NULL or p == begin:
                return None
        return out

    cdef const uint8_t *image(
        self, const uint8_t *p, const uint8_t *end, const uint8_t *present, set changed
    ) except? NULL:
        """Go over an image, and return where it ends; NULL for one that is cut. Without `changed`: keep its values."""
        cdef const uint8_t *nulls = p
        cdef const uint8_t *begin
        cdef int at, count = 0, seen = 0
        cdef size_t size
        cdef bint other
        for at in range(self.count):
            count += has(present, at)
        if end - p < (count + 7) // 8:
            return NULL
        p += (count + 7) // 8
        for at in range(self.count):
            if not has(present, at):
                continue
            begin = p  # of NULL: no bytes
            if not has(nulls, seen):
                size = <size_t> self.sizes[at]
                if self.lengths[at]:
                    if end - p < self.lengths[at]:
                        return NULL
                    size = <size_t> low_bytes(p, self.lengths[at])
                    p += self.lengths[at]
                if <size_t> (end - p) < size:
                    return NULL
                p += size
            seen += 1
            if not self.wanted[at]:
                continue
            if changed is None:
                self.begins[at], self.ends[at] = begin, p
                continue
            other = self.begins[at] == NULL or self.ends[at] - self.begins[at] != p - begin
            if other or memcmp(self.begins[at], begin, <size_t> (p - begin)):
                changed.add(at)
        return p


@cython.final
cdef class RowPlan:
    """See row_image.pyi."""

    def __cinit__(self, known, bytes map not None, bytes head not None, tails, columns, read):
        cdef ColumnStep *made
        cdef int at, place
        self.known, self.map, self.read = known, map, read
        if len(columns) > MAX_COLUMNS or len(tails) != 3:
            raise ValueError(len(columns))
        self.columns = <ColumnStep *> PyMem_Calloc(<size_t> (len(columns) or 1), sizeof(ColumnStep))
        if self.columns == NULL:
            raise MemoryError
        self.kept = (head, tuple(tails), tuple(columns))
        self.head = piece_of(head)
        for at in range(3):
            self.tails[at] = piece_of(tails[at])
        self.count = len(columns)
        for at, (step, length_bytes, size, precision, scale, name, labels) in enumerate(self.kept[2]):
            made = &self.columns[at]
            made.step, made.length_bytes, made.size = step, length_bytes, size
            made.precision, made.scale = precision, scale
            made.name = piece_of(name)
            check_step(made)
            self.room += made.name.size + MAX_PACKED
            if step == PADDED:
                self.room += <size_t> precision * 2
            made.labels = <TextPiece *> PyMem_Calloc(<size_t> (len(labels) or 1), sizeof(TextPiece))
            if made.labels == NULL:
                raise MemoryError
            made.label_count = len(labels)
            for place in range(made.label_count):
                made.labels[place] = piece_of(labels[place])
                self.room += made.labels[place].size + 1

    def __dealloc__(self):
        cdef int at
        if self.columns != NULL:
            for at in range(self.count):
                PyMem_Free(self.columns[at].labels)
        PyMem_Free(self.columns)

    cdef int rows(
        self, PendingRecords records, const uint8_t *p, const uint8_t *end, const uint8_t *before,
        const uint8_t *after, int64_t position, int64_t millis
    ) except -1:
        """Add a record for each row; 0 where the reference has to do it, with nothing added.

        `before`, `after`: which columns the images have; NULL where there are none.
        """
        cdef Py_ssize_t first = records.count
        cdef TextPiece *tail = &self.tails[0 if before == NULL else 2 if after == NULL else 1]
        cdef const uint8_t *begin
        cdef char *to
        cdef size_t fixed = self.head.size + tail.size + 2 * self.room + 64
        while p < end:
            begin = p
            to = records.reserve(fixed + <size_t> (end - p) * MAX_EXPANSION)
            to = put_piece(to, &self.head)
            if before == NULL:
                memcpy(to, b"null", 4)
                to += 4
            else:
                p = self.image(records, &to, p, end, before)
            if p != NULL:
                memcpy(to, b',"after":', 9)
                to += 9
                if after == NULL:
                    memcpy(to, b"null", 4)
                    to += 4
                else:
                    p = self.image(records, &to, p, end, after)
            if p == NULL or p == begin:
                records.cut(first)
                return 0
            to = put_piece(to, tail)
            records.keep(<size_t> (to - records.data) - records.used, position, millis)
            position += 1
        return 1

    cdef const uint8_t *image(
        self, PendingRecords records, char **out, const uint8_t *p, const uint8_t *end, const uint8_t *present
    ) except? NULL:
        """Write an image, and return where it ends; NULL for what the reference has to look at."""
        cdef ColumnStep *column
        cdef const uint8_t *nulls = p
        cdef const uint8_t *begin
        cdef const uint8_t *done
        cdef char *to = out[0]
        cdef bint first = True
        cdef int at, count = 0, seen = 0
        cdef size_t size
        for at in range(self.count):
            count += has(present, at)
        if end - p < (count + 7) // 8:
            return NULL
        p += (count + 7) // 8
        to[0] = b"{"
        to += 1
        for at in range(self.count):
            if not has(present, at):
                continue
            column = &self.columns[at]
            if has(nulls, seen):
                seen += 1
                if column.step != NOTHING:
                    to = put_name(to, column, first)
                    first = False
                    memcpy(to, b"null", 4)
                    to += 4
                continue
            seen += 1
            begin = p
            size = <size_t> column.size
            if column.length_bytes:
                if end - p < column.length_bytes:
                    return NULL
                size = <size_t> low_bytes(p, column.length_bytes)
                p += column.length_bytes
            if <size_t> (end - p) < size:
                return NULL
            if column.step == NOTHING:
                p += size
                continue
            to = put_name(to, column, first)
            first = False
            done = self.value(&to, column, p, size)
            if done == NULL:
                out[0] = to
                p = self.by_python(records, out, at, begin, p + size, end)
                to = out[0]
            else:
                p = done
        to[0] = b"}"
        out[0] = to + 1
        return p

    cdef const uint8_t *by_python(
        self, PendingRecords records, char **to, int at, const uint8_t *begin, const uint8_t *p, const uint8_t *end
    ) except NULL:
        """Write what the reference reads of a value that begins at a place; `to` may move."""
        cdef bytes made = self.read(at, PyBytes_FromStringAndSize(<const char *> begin, p - begin))
        cdef size_t written = <size_t> (to[0] - records.data) - records.used
        cdef size_t size = <size_t> PyBytes_GET_SIZE(made)
        cdef char *now = records.reserve(
            written + size + self.head.size + 2 * self.room + 1024 + <size_t> (end - p) * MAX_EXPANSION
        )
        memcpy(now + written, PyBytes_AS_STRING(made), size)
        to[0] = now + written + size
        return p

    cdef const uint8_t *value(self, char **out, ColumnStep *column, const uint8_t *p, size_t size) noexcept nogil:
        """Write a value, and return where its bytes end; NULL for what the reference has to look at."""
        cdef char *to = out[0]
        cdef int step = column.step
        cdef uint64_t number
        cdef int64_t signed
        cdef float narrow
        cdef double wide
        cdef char *piece
        cdef int at
        if step == SIGNED:
            number = low_bytes(p, column.size)
            signed = <int64_t> (number << (64 - 8 * column.size)) >> (64 - 8 * column.size)
            to = put_int(to, signed)
        elif step == UNSIGNED:
            to = put_unsigned(to, low_bytes(p, column.size))
        elif step == UTF8:
            if not is_utf8(<const char *> p, size):
                return NULL
            to = put_quoted_text(to, <const char *> p, size)
        elif step == DATETIME:
            to = put_packed_datetime(to, p, column.scale)
        elif step == TIMESTAMP:
            to = put_packed_timestamp(to, p, column.scale)
        elif step == DECIMAL:
            to = put_packed_decimal(to, p, column.precision, column.scale)
        elif step == DATE:
            to = put_packed_date(to, p)
        elif step == TIME:
            to = put_packed_time(to, p, column.scale)
        elif step == DOUBLE:
            memcpy(&wide, p, 8)
            to = put_short_double(to, wide)
        elif step == FLOAT:
            memcpy(&narrow, p, 4)
            to = put_short_float(to, narrow)
        elif step == LABEL:
            number = low_bytes(p, column.size)
            if number >= <uint64_t> column.label_count:
                return NULL
            to = put_piece(to, &column.labels[number])
        elif step == LABELS:
            number = low_bytes(p, column.size)
            if column.label_count < 64 and number >> column.label_count:
                return NULL
            to[0] = b'"'
            to += 1
            piece = to
            for at in range(column.label_count):
                if number >> at & 1:
                    if to != piece:
                        to[0] = b","
                        to += 1
                    to = put_piece(to, &column.labels[at])
            to[0] = b'"'
            to += 1
        elif step == ASCII:
            for at in range(<int> size):
                if p[at] >= 0x80:
                    return NULL
            to = put_quoted_text(to, <const char *> p, size)
        elif step == WINDOWS:
            to = put_windows_text(to, p, size)
        elif step == BYTES or step == BITS:
            to[0] = b'"'
            to = put_base64(to + 1, <const char *> p, size)
            to[0] = b'"'
            to += 1
        elif step == PADDED:
            to = put_padded(to, p, size, <size_t> column.precision)
        elif step == YEAR:
            to = put_int(to, 1900 + p[0] if p[0] else 0)
        elif step == TRUTH:
            memcpy(to, b"true" if p[0] else b"false", 5)
            to += 4 if p[0] else 5
        else:
            return NULL
        if to == NULL:
            return NULL
        out[0] = to
        return p + size
