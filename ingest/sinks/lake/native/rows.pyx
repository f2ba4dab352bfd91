# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows of one table as columns of Arrow, and the last states of the keys of one; see rows.pyi. The reference is values.py."""

cimport cython

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.conversion cimport PyOS_string_to_double
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.math cimport isfinite
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from ingest.native.records cimport EncodedBatch, EncodedRecord
from ingest.native.scan cimport (
    HAS_ESCAPES, JSON_ARRAY, JSON_NULL, JSON_OBJECT, JSON_STRING, Field, Row, is_named, put_unescaped, read_base64,
    read_short_double, scan_object,
)
from ingest.native.transform_rows cimport bits_of

cdef extern from "cells.h" nogil:
    bint cell_truth(const Field *field, uint8_t *to)
    bint cell_integer(const Field *field, int64_t bits, int64_t *to)
    bint cell_decimal(const Field *field, int64_t precision, int64_t scale, uint8_t *to)
    bint cell_number(Field *field)
    bint cell_float(double value, float *to)
    bint cell_date(const Field *field, int32_t *to)
    bint cell_time(const Field *field, int64_t *to, bint *cut)
    bint cell_timestamp(const Field *field, bint zoned, int64_t *to, bint *cut)

cdef enum:
    MAX_COLUMNS = 10000
    MAX_ROWS = 1 << 28        # what is computed of their number stays in range
    FIRST_ROWS = 256


cpdef enum LakeKind:    # what a column of Arrow holds
    LAKE_BOOL
    LAKE_INT            # of 32 bits, with so many as the column's type has
    LAKE_LONG
    LAKE_FLOAT
    LAKE_DOUBLE
    LAKE_DECIMAL
    LAKE_TEXT
    LAKE_BYTES
    LAKE_DATE
    LAKE_TIME
    LAKE_TIMESTAMP
    LAKE_TIMESTAMP_LTZ
    LAKE_KINDS          # so many there are


cdef struct LakeCells:        # a column, as Arrow has it, but for truth values and validity, of a byte each until they are taken
    int kind                  # LakeKind
    bint of_key
    bint was_cut              # the value in hand is a time that lost something
    int64_t first             # bits, or digits
    int64_t second            # the scale
    const char *name
    uint32_t name_size
    const Field *field        # the value in hand; NULL: there is none
    uint8_t *valid
    int32_t *ends             # of texts and bytes, after a 0
    char *data
    size_t bytes              # room for texts and bytes
    int64_t cut               # values that lost something


cdef size_t width_of(int kind) noexcept nogil:
    """Return the bytes of a value; 0 for a text or bytes."""
    if kind == LAKE_TEXT or kind == LAKE_BYTES:
        return 0
    if kind == LAKE_BOOL:
        return 1
    if kind == LAKE_DECIMAL:
        return 16
    return 4 if kind == LAKE_INT or kind == LAKE_FLOAT or kind == LAKE_DATE else 8


# -- Values of the row in hand, which counts only when `count` says so: what was put for another try is written over ----


cdef char *room_of(LakeCells *col, Py_ssize_t row, size_t size) except NULL:
    """Return where so many bytes of a row's text may be written."""
    cdef size_t start = <size_t> col.ends[row], room
    if start + size > INT32_MAX:
        raise OverflowError("a batch of rows with more than 2 GiB in a column")
    if start + size > col.bytes or col.data == NULL:
        room = (start + size) * 2 + 4096
        more = <char *> PyMem_Realloc(col.data, room)
        if not more:
            raise MemoryError
        col.data, col.bytes = more, room
    return col.data + start


cdef bint put_text(LakeCells *col, Py_ssize_t row) except -1:
    """Put a text, or the text of a number or of a truth value; False for a fallback."""
    cdef const Field *field = col.field
    cdef const char *text = field.text
    cdef size_t size = field.size
    cdef char *to
    if field.kind == JSON_OBJECT or field.kind == JSON_ARRAY:
        return False
    if field.kind == JSON_STRING:
        text, size = text + 1, size - 2
    to = room_of(col, row, size)
    if field.flags & HAS_ESCAPES and field.kind == JSON_STRING:
        to = put_unescaped(to, text, text + size)
    else:
        memcpy(to, text, size)
        to += size
    col.ends[row + 1] = <int32_t> (to - col.data)
    return True


cdef bint put_bytes(LakeCells *col, Py_ssize_t row) except -1:
    """Put the bytes that a text in base64 stands for; False for a fallback."""
    cdef const Field *field = col.field
    cdef int64_t made
    cdef char *to
    if field.kind != JSON_STRING:
        return False
    to = room_of(col, row, field.size)
    made = read_base64(field.text + 1, field.size - 2, <uint8_t *> to, field.size)
    if made < 0:
        return False
    col.ends[row + 1] = <int32_t> (to - col.data + made)
    return True


cdef bint put_double(LakeCells *col, Py_ssize_t row) except -1:
    """Put the nearest binary number; False for a fallback."""
    cdef Field field = col.field[0]
    cdef char *end
    cdef double number
    if not cell_number(&field):
        return False
    if not read_short_double(&field, &number):
        number = PyOS_string_to_double(field.text, &end, NULL)
        if end != field.text + field.size or not isfinite(number):
            return False
    if col.kind == LAKE_FLOAT:
        return cell_float(number, &(<float *> col.data)[row])
    (<double *> col.data)[row] = number
    return True


cdef bint put_cell(LakeCells *col, Py_ssize_t row) except -1:
    """Put a value that is not null; False for a fallback."""
    cdef const Field *field = col.field
    cdef int kind = col.kind
    cdef int64_t whole
    cdef int64_t *longs = <int64_t *> col.data
    if kind == LAKE_TEXT:
        return put_text(col, row)
    if kind == LAKE_LONG:
        return cell_integer(field, 64, &longs[row])
    if kind == LAKE_INT:
        if not cell_integer(field, col.first, &whole):
            return False
        (<int32_t *> col.data)[row] = <int32_t> whole
        return True
    if kind == LAKE_DOUBLE or kind == LAKE_FLOAT:
        return put_double(col, row)
    if kind == LAKE_BOOL:
        return cell_truth(field, &(<uint8_t *> col.data)[row])
    if kind == LAKE_DECIMAL:
        return cell_decimal(field, col.first, col.second, <uint8_t *> col.data + row * 16)
    if kind == LAKE_TIMESTAMP or kind == LAKE_TIMESTAMP_LTZ:
        return cell_timestamp(field, kind == LAKE_TIMESTAMP_LTZ, &longs[row], &col.was_cut)
    if kind == LAKE_DATE:
        return cell_date(field, &(<int32_t *> col.data)[row])
    if kind == LAKE_TIME:
        return cell_time(field, &longs[row], &col.was_cut)
    return put_bytes(col, row)


cdef void put_null(LakeCells *col, Py_ssize_t row) noexcept nogil:
    cdef size_t width = width_of(col.kind)
    if width:
        memset(col.data + <size_t> row * width, 0, width)
    else:
        col.ends[row + 1] = col.ends[row]
    col.valid[row] = False


@cython.final
cdef class ColumnBuffer:
    """Memory of a column that was taken. It is not copied: there may be a lot of it."""

    cdef void *bytes
    cdef Py_ssize_t size

    def __dealloc__(self):
        PyMem_Free(self.bytes)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.bytes, self.size, 1, flags)


cdef object taken(void **memory, size_t size):
    """Return the first bytes of memory that is no longer its owner's, without room for more."""
    cdef ColumnBuffer made
    if memory[0] == NULL:  # all of its texts are null: Arrow takes no buffer without an address
        return b""
    made = ColumnBuffer()
    less = PyMem_Realloc(memory[0], size) if size else NULL
    made.bytes, made.size = less if less != NULL else memory[0], <Py_ssize_t> size
    memory[0] = NULL
    return made


@cython.final
cdef class LakeRows:
    """Rows of one table, with columns of these `LakeColumnSpec`s."""

    cdef bint busy            # one of its methods runs
    cdef object spec          # has the names
    cdef LakeCells *cells
    cdef int columns
    cdef uint8_t *gone        # rows that are deletes
    cdef Py_ssize_t count
    cdef Py_ssize_t room
    cdef Row *rows            # the row in hand, and the one before it, in turn
    cdef Row *key_row
    cdef int now              # which one is in hand
    cdef bint alike           # the memory of the row before is there still
    cdef object held          # the row before, where it is an object

    def __cinit__(self, tuple spec not None):
        cdef LakeCells *col
        if len(spec) > MAX_COLUMNS:
            raise ValueError("too many columns")
        self.spec = spec
        self.cells = <LakeCells *> PyMem_Calloc(<size_t> len(spec) + 1, sizeof(LakeCells))
        self.rows = <Row *> PyMem_Malloc(2 * sizeof(Row))
        self.key_row = <Row *> PyMem_Malloc(sizeof(Row))
        if not self.cells or not self.rows or not self.key_row:
            raise MemoryError
        for given in spec:
            col = &self.cells[self.columns]
            if type(given.name) is not bytes:
                raise TypeError("a name is bytes")
            col.name, col.name_size = PyBytes_AS_STRING(given.name), <uint32_t> len(given.name)
            col.kind, col.first, col.second, col.of_key = given.kind, given.first, given.second, given.of_key
            if not 0 <= col.kind < <int> LAKE_KINDS or (col.kind == LAKE_INT and not 1 <= col.first <= 32):
                raise ValueError("a column of no kind that there is")
            if col.kind == LAKE_DECIMAL and not 0 <= col.second <= col.first <= 38:
                raise ValueError("a decimal that has not 128 bits")
            self.columns += 1

    def __dealloc__(self):
        cdef int c
        for c in range(self.columns):
            PyMem_Free(self.cells[c].valid)
            PyMem_Free(self.cells[c].ends)
            PyMem_Free(self.cells[c].data)
        PyMem_Free(self.cells)
        PyMem_Free(self.gone)
        PyMem_Free(self.rows)
        PyMem_Free(self.key_row)

    cdef int begin(self) except -1:
        """Begin a call. Raises RuntimeError where another one is not done yet."""
        if self.busy:
            raise RuntimeError("these rows are in use: by a call that is not done yet, or in another thread")
        self.busy = True
        return 0

    cdef int make_room(self) except -1:
        """Make room for more rows; raises OverflowError."""
        cdef size_t room = <size_t> self.room * 2 or <size_t> FIRST_ROWS
        cdef LakeCells *col
        cdef void *made
        cdef int c
        if room > MAX_ROWS:
            raise OverflowError(f"a batch of more than {MAX_ROWS} rows")
        made = PyMem_Realloc(self.gone, room)
        if not made:
            raise MemoryError
        self.gone = <uint8_t *> made
        for c in range(self.columns):
            col = &self.cells[c]
            made = PyMem_Realloc(col.valid, room)
            if not made:
                raise MemoryError
            col.valid = <uint8_t *> made
            if width_of(col.kind):
                made = PyMem_Realloc(col.data, room * width_of(col.kind))
                col.data = <char *> made if made else col.data
            else:
                made = PyMem_Realloc(col.ends, (room + 1) * sizeof(int32_t))
                col.ends = <int32_t *> made if made else col.ends
            if not made:
                raise MemoryError
            if not self.room and col.ends != NULL:
                col.ends[0] = 0
        self.room = <Py_ssize_t> room
        return 0

    # -- Rows

    cdef bint place_fields(self, Row *row, bint of_key) noexcept nogil:
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
        return True

    cdef bint put_cells(self, bint deleted) except -1:
        """Put the values of the row in hand; False for a fallback."""
        cdef Py_ssize_t row = self.count
        cdef LakeCells *col
        cdef bint cut = False
        cdef int c
        for c in range(self.columns):
            col = &self.cells[c]
            if col.field == NULL or col.field.kind == JSON_NULL:
                if col.of_key:
                    return False
                put_null(col, row)
                continue
            if not put_cell(col, row):
                return False
            col.valid[row] = True
            cut |= col.was_cut
        self.gone[row] = deleted
        self.count += 1
        if cut:
            for c in range(self.columns):
                self.cells[c].cut += self.cells[c].was_cut
        return True

    cdef bint add(self, const char *key, size_t key_size, const char *row, size_t row_size) except -1:
        """Add a row; False for a fallback. The memory of the row before is there, unless `alike` is unset."""
        cdef const Row *like = &self.rows[self.now] if self.alike else NULL
        cdef int c
        if self.count == self.room:
            self.make_room()
        for c in range(self.columns):
            self.cells[c].field = NULL
            self.cells[c].was_cut = False
        if not scan_object(key, key_size, self.key_row, NULL):
            self.alike = False  # who gives a row may let go of the one before
            return False
        self.place_fields(self.key_row, True)
        if row != NULL:
            self.alike = False
            self.now = 1 - self.now
            if not scan_object(row, row_size, &self.rows[self.now], like):
                return False
            self.alike = True
            self.place_fields(&self.rows[self.now], False)
        return self.put_cells(row == NULL)

    def read(self, records):
        cdef Py_ssize_t at = 0
        cdef bytes key, row
        cdef list left = []
        self.begin()
        try:
            for key_given, row_given in records:
                key = key_given if type(key_given) is bytes else bytes(key_given)
                row = None if row_given is None else row_given if type(row_given) is bytes else bytes(row_given)
                if not self.add(
                    PyBytes_AS_STRING(key), <size_t> PyBytes_GET_SIZE(key),
                    NULL if row is None else PyBytes_AS_STRING(row), 0 if row is None else <size_t> PyBytes_GET_SIZE(row),
                ):
                    left.append(at)
                if row is not None:
                    self.held = row
                at += 1
        finally:
            self.alike, self.held, self.busy = False, None, False
        return left

    def size(self):
        cdef size_t size = 0
        cdef int c
        for c in range(self.columns):
            if width_of(self.cells[c].kind):
                size += <size_t> self.count * width_of(self.cells[c].kind)
            elif self.count:
                size += <size_t> self.cells[c].ends[self.count] + <size_t> self.count * sizeof(int32_t)
        return self.count, size

    # -- Columns that are taken

    cdef tuple take_parts(self, LakeCells *col):
        """Return a column as Arrow has it, with its memory: validity, ends, data. There are rows."""
        cdef Py_ssize_t nulls = 0, i, count = self.count
        for i in range(count):
            nulls += not col.valid[i]
        valid = bits_of(col.valid, count) if nulls else None
        if col.kind == LAKE_BOOL:
            return valid, None, bits_of(<const uint8_t *> col.data, count)
        if width_of(col.kind):
            return valid, None, taken(<void **> &col.data, <size_t> count * width_of(col.kind))
        data = taken(<void **> &col.data, <size_t> col.ends[count])
        return valid, taken(<void **> &col.ends, (<size_t> count + 1) * sizeof(int32_t)), data

    def take(self):
        cdef int c
        self.begin()
        try:
            columns = [self.take_parts(&self.cells[c]) for c in range(self.columns)] if self.count else []
            cut = [self.cells[c].cut for c in range(self.columns)]
            made = (self.count, columns, cut, bits_of(self.gone, self.count))
            self.count = self.room = 0
            for c in range(self.columns):
                self.cells[c].cut = self.cells[c].bytes = 0
        finally:
            self.busy = False
        return made


# -- Keys --------------------------------------------------------------------------------------------------------------


@cython.final
cdef class LakeKeys:
    """The last states of keys, with columns of these `LakeColumnSpec`s."""

    cdef bint busy            # one of its methods runs
    cdef LakeRows rows
    cdef dict numbers         # of the last states of keys: of rows, and below 0 of those that were left
    cdef list left            # records that the reference has to look at
    cdef Py_ssize_t left_count

    def __cinit__(self, tuple spec not None):
        self.rows, self.numbers, self.left = LakeRows(spec), {}, []

    cdef int begin(self) except -1:
        """Begin a call. Raises RuntimeError where another one is not done yet."""
        if self.busy:
            raise RuntimeError("these keys are in use: by a call that is not done yet, or in another thread")
        self.busy = True
        return 0

    cdef int keep(
        self, Py_ssize_t place, const char *key, size_t key_size, const char *row, size_t row_size
    ) except -1:
        """Keep a record as the last state of its key."""
        cdef bytes name = PyBytes_FromStringAndSize(key, <Py_ssize_t> key_size)
        if self.rows.add(key, key_size, row, row_size):
            self.numbers[name] = self.rows.count - 1
            return 0
        self.left_count += 1
        text = None if row == NULL else PyBytes_FromStringAndSize(row, <Py_ssize_t> row_size)
        self.left.append((place, name, text, self.numbers.get(name), self.rows.count))
        self.numbers[name] = -self.left_count
        return 0

    def keep_record(self, Py_ssize_t place, key_given, row_given):
        cdef bytes key = bytes(key_given)
        cdef bytes row = None if row_given is None else bytes(row_given)
        self.begin()
        try:
            self.keep(
                place, PyBytes_AS_STRING(key), <size_t> PyBytes_GET_SIZE(key),
                NULL if row is None else PyBytes_AS_STRING(row), 0 if row is None else <size_t> PyBytes_GET_SIZE(row),
            )
        finally:
            self.rows.alike, self.busy = False, False

    def take_left(self):
        if self.busy:
            self.begin()
        left, self.left = self.left, []
        return left

    def forget(self, bytes key not None, int64_t number, before):
        if self.numbers.get(key) != number:
            return
        if before is None:
            del self.numbers[key]
        else:
            self.numbers[key] = before

    def size(self):
        return self.rows.size()

    cdef tuple last_states(self):
        """Return bits of the rows that are a key's last state, or None: all are; and the numbers of others."""
        cdef Py_ssize_t number, count = 0, rows_count = self.rows.count
        cdef list others = []
        cdef bytearray marks = bytearray(rows_count)
        flags = <uint8_t *> PyByteArray_AS_STRING(marks)
        for number in self.numbers.values():
            if number < 0:
                others.append(number)
            elif number < rows_count:
                flags[number] = 1
                count += 1
        return None if count == rows_count else bits_of(flags, rows_count), others

    def take(self):
        self.begin()
        try:
            last, others = self.last_states()
            made = (*self.rows.take(), last, others)
            self.numbers, self.left, self.left_count = {}, [], 0
        finally:
            self.busy = False
        return made


def keep_batch(EncodedBatch batch not None, list tables not None):
    cdef Py_ssize_t i, count = len(tables)
    cdef const EncodedRecord *record
    cdef LakeKeys keys
    for keys in tables:
        if keys is None:
            raise TypeError("a target without a table")
        if keys.busy:
            keys.begin()
    for keys in tables:
        keys.busy = True
    try:
        for i in range(batch.count):
            record = &batch.records[i]
            if not 0 <= record.target < count:
                raise IndexError("a record of the batch has no destination")
            if record.key == NULL:
                raise ValueError("a row without a key")
            (<LakeKeys> tables[record.target]).keep(
                i, record.key, record.key_size, record.value, record.value_size
            )
    finally:
        for keys in tables:  # the batch may be gone soon
            keys.rows.alike, keys.busy = False, False
