# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Columns that come back from expressions, and rows made of them; see results.pxd."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.limits cimport INT_MAX
from libc.stdint cimport INT32_MAX, UINT32_MAX, int32_t, uint8_t, uint32_t
from libc.string cimport memcpy

from ingest.native.change cimport Room, Workspace, room_for, text_of_bytes
from ingest.native.records cimport EncodedBatch, keep, reserve
from ingest.native.scan cimport (
    JSON_NULL, MAX_FIELDS, MAX_NUMBER, Field, Row, Text, is_named, put_int, put_short_double, scan_row, scan_value,
)
from ingest.native.table cimport is_compact


# -- Columns of Arrow --------------------------------------------------------------------------------------------------


cdef bint is_whole(const ArrowColumn *column, Py_ssize_t size) noexcept nogil:
    """Return whether a column has the bytes of so many values."""
    cdef Py_ssize_t end, bits
    if not 0 <= column.first <= INT32_MAX or size > INT32_MAX:
        return False
    if not size:
        return True
    end = column.first + size
    bits = (end + 7) // 8
    if column.valid.there and column.valid.size < bits:
        return False
    if column.kind == b's':
        return column.ends.size >= (end + 1) * 4
    if column.ends.there:
        return False
    if column.kind == b'b':
        return column.data.size >= bits
    return column.data.size >= end * (4 if column.kind == b'i' else 8)


cdef class ArrowColumns:
    """So many columns, which keep their buffers as they are while this lives."""

    def __cinit__(self, Py_ssize_t count):
        self.columns = <ArrowColumn *> PyMem_Calloc(<size_t> count + 1, sizeof(ArrowColumn))
        self.held = <Py_buffer *> PyMem_Calloc(<size_t> count * 3 + 1, sizeof(Py_buffer))
        if not self.columns or not self.held:
            raise MemoryError
        self.count = count

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.held_count):
            PyBuffer_Release(&self.held[i])
        PyMem_Free(self.held)
        PyMem_Free(self.columns)

    cdef int hold(self, object given, ArrowBuffer *buffer) except -1:
        """Take a buffer, or None for none; raises TypeError."""
        cdef Py_buffer *held = &self.held[self.held_count]
        if given is None:
            return 0
        PyObject_GetBuffer(given, held, PyBUF_SIMPLE)
        self.held_count += 1
        buffer.there, buffer.bytes, buffer.size = True, <const char *> held.buf, held.len
        return 0

    cdef int open(self, Py_ssize_t at, char kind, object given, Py_ssize_t size) except -1:
        """Take a column of `size` values: (first, validity, ends, data), each of the last three bytes-like or None.

        Raises TypeError, and ValueError for one that is shorter than it says.
        """
        cdef ArrowColumn *column = &self.columns[at]
        if type(given) is not tuple or len(given) != 4:
            raise TypeError("a column is (first, validity, ends, data)")
        column.kind = kind
        column.first, valid, ends, data = given
        self.hold(valid, &column.valid)
        self.hold(ends, &column.ends)
        self.hold(data, &column.data)
        if not is_whole(column, size):
            raise ValueError("a column that is shorter than it says, or of another kind")
        return 0


cdef int text_at(const ArrowColumn *column, Py_ssize_t at, Text *text) except -1:
    """Put in a text of a column; raises ValueError for one that is not among its bytes."""
    cdef int32_t ends[2]
    memcpy(ends, column.ends.bytes + (column.first + at) * 4, sizeof(ends))
    if not 0 <= ends[0] <= ends[1] or ends[1] > column.data.size:
        raise ValueError("a column with a text that is not among its bytes")
    text.text, text.size = b"", 0
    if column.data.bytes != NULL:
        text.text, text.size = column.data.bytes + ends[0], <size_t> (ends[1] - ends[0])
    return 0


# -- Results as JSON ---------------------------------------------------------------------------------------------------


cdef int put(Room *room, size_t *size, const char *text, size_t more) except -1:
    cdef char *to
    if size[0] + more > UINT32_MAX:
        raise OverflowError("results of more than 4 GiB")
    to = room_for(room, size[0] + more)
    if more:
        memcpy(to + size[0], text, more)
    size[0] += more
    return 0


cdef bint is_plain(Text text) noexcept nogil:
    """Return whether a text is JSON as it is, between quotes."""
    cdef size_t i
    for i in range(text.size):
        if <uint8_t> text.text[i] < 0x20 or text.text[i] == b'"' or text.text[i] == b'\\' or text.text[i] == 0x7F:
            return False
    return True


cdef bint put_written(Room *room, size_t *size, value, writer) except -1:
    """Put what Python makes of a value; False for a fallback: the reference says what is wrong with it."""
    try:
        made = writer(value)
    except Exception:
        return False
    if type(made) is not bytes:
        return False
    put(room, size, PyBytes_AS_STRING(made), <size_t> PyBytes_GET_SIZE(made))
    return True


cdef bint put_text(Room *room, size_t *size, const ArrowColumn *column, Py_ssize_t at, char kind, writer) except -1:
    cdef Text text
    text_at(column, at, &text)
    if kind == b't' and is_plain(text):
        put(room, size, b'"', 1)
        put(room, size, text.text, text.size)
        put(room, size, b'"', 1)
        return True
    try:
        value = PyUnicode_DecodeUTF8(text.text, <Py_ssize_t> text.size, NULL)
    except UnicodeDecodeError:
        return False
    return put_written(room, size, value, writer)


cdef bint put_double(Room *room, size_t *size, double value, writer) except -1:
    cdef char number[MAX_NUMBER]
    cdef char *end = put_short_double(number, value)
    if end == NULL:
        return put_written(room, size, value, writer)
    put(room, size, number, <size_t> (end - number))
    return True


cdef bint put_result(Room *room, size_t *size, const ArrowColumn *column, Py_ssize_t at, char kind, writer) except -1:
    """Put a result as JSON behind others; False for a fallback."""
    cdef char number[MAX_NUMBER]
    if is_null(column, at):
        put(room, size, b"null", 4)
        return True
    if column.kind == b's':
        return put_text(room, size, column, at, kind, writer)
    if column.kind != kind:
        return False
    if kind == b'd':
        return put_double(room, size, double_at(column, at), writer)
    if kind == b'b':
        if truth_at(column, at):
            put(room, size, b"true", 4)
        else:
            put(room, size, b"false", 5)
    else:
        put(room, size, number, <size_t> (put_int(number, long_at(column, at)) - number))
    return True


# -- Rows that are made ------------------------------------------------------------------------------------------------


cdef struct Composition:      # a row that is being written
    Row *row
    char *to
    const char *end
    const Row *source         # the row that fields are copied from
    bint compact              # that has no white space between its values


cdef bint add_field(Composition *made, const Field *name, const Field *value) noexcept nogil:
    """Add a field; False where there is no room for it."""
    cdef Row *row = made.row
    cdef char *p = made.to
    cdef Field *field
    # and the row's last brace
    if row.count == MAX_FIELDS or <size_t> name.name_size + value.size + 5 > <size_t> (made.end - p):
        return False
    field = &row.fields[row.count]
    if row.count:
        p[0] = b','
        p += 1
    row.count += 1
    p[0] = b'"'
    p += 1
    memcpy(p, name.name, name.name_size)
    field.name, field.name_size = p, name.name_size
    p += name.name_size
    p[0], p[1] = b'"', b':'
    p += 2
    memcpy(p, value.text, value.size)
    field.text, field.size, field.kind, field.flags = p, value.size, value.kind, value.flags
    made.to = p + value.size
    return True


cdef bint copy_fields(Composition *made, int first, int end) noexcept nogil:
    """Add some of the source's fields, from `first` on; False where there is no room for them."""
    cdef Row *row = made.row
    cdef const Row *source = made.source
    cdef const char *start
    cdef Py_ssize_t moved
    cdef size_t size
    cdef int f
    if not made.compact:
        for f in range(first, end):
            if not add_field(made, &source.fields[f], &source.fields[f]):
                return False
        return True
    if first == end:
        return True
    # Their text has no white space, so that all of it is copied at once
    start = source.fields[first].name - 1
    size = <size_t> (source.fields[end - 1].text + source.fields[end - 1].size - start)
    if row.count + end - first > MAX_FIELDS or size + 2 > <size_t> (made.end - made.to):
        return False
    if row.count:
        made.to[0] = b','
        made.to += 1
    memcpy(made.to, start, size)
    moved = made.to - start
    for f in range(first, end):
        row.fields[row.count] = source.fields[f]
        row.fields[row.count].name += moved
        row.fields[row.count].text += moved
        row.count += 1
    made.to += size
    return True


cdef const Field *field_of(const Row *row, Text name, bint *twice) noexcept nogil:
    """Return the field of a name, or NULL. A name `twice` is a fallback: the last one counts."""
    cdef const Field *found = NULL
    cdef int i
    for i in range(row.count):
        if is_named(&row.fields[i], name.text, <uint32_t> name.size):
            if found != NULL:
                twice[0] = True
            found = &row.fields[i]
    return found


cdef bint compose_all(ResultRows of, Composition *made, const Field *values) noexcept nogil:
    """Write all that a row has, with results in the place of columns, then those that are new."""
    cdef bint used[MAX_FIELDS]
    cdef const Row *row = made.source
    cdef const Field *field
    cdef int i, f, copied = 0
    for i in range(of.count):
        used[i] = False
    for f in range(row.count):
        field = &row.fields[f]
        for i in range(of.count):
            if is_named(field, values[i].name, values[i].name_size):
                # A name twice: the last one counts, and that is for the reference
                if used[i] or not copy_fields(made, copied, f) or not add_field(made, field, &values[i]):
                    return False
                used[i], copied = True, f + 1
                break
    if not copy_fields(made, copied, row.count):
        return False
    for i in range(of.count):
        if not used[i] and not add_field(made, &values[i], &values[i]):
            return False
    return True


cdef bint compose_columns(ResultRows of, Composition *made, const Field *values) noexcept nogil:
    """Write the columns that a row shall have."""
    cdef const ResultColumn *column
    cdef const Field *found
    cdef bint twice = False
    cdef int c
    for c in range(of.column_count):
        column = &of.columns[c]
        found = &values[column.place] if column.place >= 0 else field_of(made.source, column.name, &twice)
        if twice or (found != NULL and not add_field(made, found, found)):
            return False
    return True


cdef class ResultRows:
    """The making of a table's rows from results, by a `ResultsSpec`."""

    def __cinit__(self, spec):
        cdef tuple results = spec.results
        self.filter, self.filter_before = spec.filter, spec.filter_before
        self.changeable, self.soft_delete, self.makes_key = spec.changeable, spec.soft_delete, spec.makes_key
        if len(results) > MAX_FIELDS or self.filter < -1 or not -1 <= self.filter_before < MAX_MARKS:
            raise ValueError("too many results, or no such result")
        self.results = <Result *> PyMem_Calloc(<size_t> len(results) + 1, sizeof(Result))
        if not self.results:
            raise MemoryError
        self.writers = []
        self.spec = spec
        for result in results:
            self.add_result(result)
        self.column_count = -1
        if spec.columns is not None:
            self.set_columns(spec.columns)

    def __dealloc__(self):
        PyMem_Free(self.results)
        PyMem_Free(self.columns)

    def add_result(self, spec):
        cdef Result *result = &self.results[self.count]
        text_of_bytes(spec.name, &result.name)
        if not 0 <= spec.place < INT_MAX or spec.kind not in ("l", "b", "d", "t", "x", "c"):
            raise ValueError("a result of no such place or kind")
        result.place, result.kind = spec.place, ord(spec.kind)
        if result.kind == b'c':
            text_of_bytes(spec.write, &result.copied)
        self.writers.append(spec.write)
        self.count += 1

    def set_columns(self, tuple columns):
        cdef ResultColumn *column
        self.columns = <ResultColumn *> PyMem_Calloc(<size_t> len(columns) + 1, sizeof(ResultColumn))
        if not self.columns:
            raise MemoryError
        for i, given in enumerate(columns):
            column = &self.columns[i]
            column.place = -1
            if type(given) is int:
                if not 0 <= given < self.count:
                    raise ValueError("a column is a name or the place of a result")
                column.place = given
            else:
                text_of_bytes(given, &column.name)
        self.column_count = <int> len(columns)

    cdef bint fits(self, bytes kinds) except -1:
        """Return whether results of these kinds are those that rows are made of."""
        cdef Py_ssize_t count = len(kinds)
        cdef int i
        for i in (self.filter, self.filter_before):
            if i >= count or (i >= 0 and kinds[i] != b'b'):
                return False
        for i in range(self.count):
            if self.results[i].kind != b'c' and self.results[i].place >= count:
                return False
        return True

    cdef bint write_results(
        self, Workspace *ws, Text raw, const ArrowColumn *came, Py_ssize_t at, Field *values
    ) except -1:
        """Write the results of a row, those of row `at`; False for a fallback. A copy is of the row `ws.composed`."""
        cdef size_t size = 0, start
        cdef const Field *copied
        cdef const Result *result
        cdef bint twice = False
        cdef const char *text
        cdef int i
        for i in range(self.count):
            result = &self.results[i]
            values[i].name, values[i].name_size = result.name.text, <uint32_t> result.name.size
            values[i].text, values[i].size, values[i].kind, values[i].flags = b"null", 4, JSON_NULL, 0
            if result.kind == b'c':
                copied = field_of(&ws.composed, result.copied, &twice)
                if twice:
                    return False
                if copied != NULL:
                    values[i].text, values[i].size = copied.text, copied.size
                    values[i].kind, values[i].flags = copied.kind, copied.flags
                continue
            start = size
            if not put_result(&ws.results, &size, &came[result.place], at, result.kind, self.writers[i]):
                return False
            values[i].size = <uint32_t> (size - start)
        text = ws.results.bytes
        for i in range(self.count):
            if self.results[i].kind == b'c':
                continue
            values[i].text = text
            text += values[i].size
            if scan_value(values[i].text, text, 2, &values[i].kind, &values[i].flags) != text:
                return False
        return True

    cdef bint make(
        self, Workspace *ws, Text raw, const ArrowColumn *came, Py_ssize_t at, EncodedBatch batch, Room *room, Row *made
    ) except -1:
        """Make the row of an image, `raw`, and its results, those of row `at`; False for a fallback.

        Its text is in the batch then, or in the room where there is no batch. `ws.composed` is the image.
        """
        cdef Field values[MAX_FIELDS]
        cdef const char *end = raw.text + raw.size
        cdef Composition composed
        cdef size_t most = raw.size + 8
        cdef char *to
        cdef int i
        if raw.size > UINT32_MAX or scan_row(raw.text, end, &ws.composed, NULL) != end:
            return False
        if not self.write_results(ws, raw, came, at, values):
            return False
        for i in range(self.count):
            most += <size_t> values[i].name_size + values[i].size + 4
        to = room_for(room, most) if batch is None else reserve(batch, most)
        to[0] = b'{'
        made.text, made.count = to, 0
        composed.row, composed.to, composed.end = made, to + 1, to + most
        composed.source, composed.compact = &ws.composed, is_compact(&ws.composed)
        if self.column_count < 0:
            if not compose_all(self, &composed, values):
                return False
        elif not compose_columns(self, &composed, values):
            return False
        composed.to[0] = b'}'
        made.size = composed.to + 1 - to
        made.end = composed.to + 1
        if batch is not None:
            keep(batch, <size_t> made.size)
        return True
