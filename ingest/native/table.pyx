# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A table as the native code has it, and whether rows fit it; see table.pxd.

The reference is encode/upsert_encoder.py.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from ingest.native.change cimport MAX_KEYS, Typing, text_of_bytes
from ingest.native.codes cimport (
    COLUMN_BOOL, COLUMN_BYTES, COLUMN_DATE, COLUMN_DECIMAL, COLUMN_DOUBLE, COLUMN_EXACT_DOUBLE, COLUMN_EXACT_FLOAT,
    COLUMN_INT, COLUMN_OTHER, COLUMN_TEXT, COLUMN_TIME, COLUMN_TIMESTAMP, SPELLING_FINE, SPELLING_USUAL, TARGET_INSERT,
    TARGET_UPDATE, WRITE_AS_IS, WRITE_AS_TEXT, WRITE_FALLBACK, WRITE_QUOTED,
)
from ingest.native.scan cimport (
    JSON_ARRAY, JSON_BOOL, JSON_INT, JSON_NULL, JSON_OBJECT, JSON_STRING, MIN_UNAVAILABLE, Field, Row, Text, fits_date,
    fits_decimal, fits_double, fits_exact_double, fits_exact_float, fits_fine_time, fits_fine_timestamp, fits_int,
    fits_length, fits_time, fits_timestamp, is_named, is_number, is_unavailable, read_base64, scan_object, scan_row,
)


touched = []


cdef int *places_of(tuple places, Py_ssize_t end) except NULL:
    """Return an array of places, each below `end`; raises ValueError."""
    cdef Py_ssize_t i
    cdef long place
    found = <int *> PyMem_Calloc(<size_t> len(places) + 1, sizeof(int))
    if not found:
        raise MemoryError
    try:
        for i in range(len(places)):
            place = places[i]
            if not 0 <= place < end:
                raise ValueError("no such column or place")
            found[i] = <int> place
    except:
        PyMem_Free(found)
        raise
    return found


cdef class Table:
    """Columns of a table, from a `RowEncoderSpec`, and how many of its rows were inserted, updated and deleted."""

    def __cinit__(self, spec, reference, destination, *_):
        cdef tuple columns = spec.columns
        cdef tuple key = spec.key.columns
        cdef Py_ssize_t count = len(columns)
        self.own = spec.source_columns
        if len(key) > MAX_KEYS or not 0 <= self.own <= count or count > INT_MAX // 2 or len(spec.sink_order) != count:
            raise ValueError("too many columns, or not one place for each column")
        self.columns = <TableColumn *> PyMem_Calloc(<size_t> count + 1, sizeof(TableColumn))
        if not self.columns:
            raise MemoryError
        self.order = places_of(spec.sink_order, count)
        for column in columns:
            self.add_column(column)
        key_columns = places_of(key, self.own)
        self.keys = <int> len(key)
        for i in range(self.keys):
            self.key_columns[i] = key_columns[i]
            self.columns[key_columns[i]].key = i
        PyMem_Free(key_columns)
        self.key_from_message = spec.key.from_message
        self.key_as_text = spec.key.as_text
        self.deletes_are_rows = spec.key.deletes_are_rows
        self.reference, self.destination = reference, destination
        self.spec = columns

    def __dealloc__(self):
        PyMem_Free(self.columns)
        PyMem_Free(self.order)

    def add_column(self, given):
        cdef Text name, fill
        cdef TableColumn *column = &self.columns[self.count]
        text_of_bytes(given.name, &name)
        text_of_bytes(given.fill, &fill)
        column.name, column.name_size = name.text, <uint32_t> name.size
        column.fill, column.fill_size = fill.text, <uint32_t> fill.size
        column.kind, column.type, column.key = given.kind, given.type_number, -1
        column.as_text, column.zoned, column.coarse = given.as_text, given.zoned, given.coarse
        column.bits, column.characters = given.bits, given.characters
        column.precision, column.scale = given.precision, given.scale
        column.separator = ord(given.separator)
        cdef int spelling = given.spelling
        if column.kind == COLUMN_INT and not 1 <= column.bits <= 64:
            raise ValueError("a column of integers with no number of bits that there is")
        if not 0 <= spelling <= <int> SPELLING_FINE or not 0 <= column.kind <= <int> COLUMN_OTHER:
            raise ValueError("a column of no kind that there is")
        column.spelling = spelling
        self.declares |= spelling != SPELLING_USUAL
        self.count += 1


cdef int count_change(Table table, int use, size_t size) except -1:
    """Count a change that was written, in so many bytes of keys and values."""
    touch(table)
    table.bytes_out += <int64_t> size
    if use == TARGET_UPDATE:
        table.updated += 1
    elif use == TARGET_INSERT:
        table.inserted += 1
    else:
        table.deleted += 1
    return 0


cdef void forget_counts(Table table) noexcept:
    table.inserted = table.updated = table.deleted = 0
    table.bytes_in = table.bytes_out = 0
    table.is_touched = False


cdef int count_touched(bint good) except -1:
    """Tell the encoders what was counted, if all went well, and else forget it; raises what encoders raise."""
    global touched
    cdef Table table
    cdef list tables = touched
    touched = []
    try:
        while tables and good:
            table = tables.pop()
            inserted, updated, deleted = table.inserted, table.updated, table.deleted
            bytes_in, bytes_out = table.bytes_in, table.bytes_out
            forget_counts(table)
            if inserted:
                table.reference.inserted += inserted
            if updated:
                table.reference.updated += updated
            if deleted:
                table.reference.deleted += deleted
            if bytes_in:
                table.reference.bytes_in += bytes_in
            if bytes_out:
                table.reference.bytes_out += bytes_out
    finally:
        for table in tables:
            forget_counts(table)
    return 0


cdef enum:
    SHORT_DOUBLE = 16  # bytes of a number that is the shortest of those that are one DOUBLE, and so its key

# -- Values ------------------------------------------------------------------------------------------------------------


cdef uint8_t mode_of_text(const TableColumn *column, const Field *field) noexcept nogil:
    """Return how the value of a text column is written, which need not be a text."""
    if field.kind == JSON_STRING:
        return WRITE_AS_IS if fits_length(field, column.characters) else WRITE_FALLBACK
    if column.characters >= 0:
        return WRITE_FALLBACK
    if field.kind == JSON_OBJECT or field.kind == JSON_ARRAY:
        return WRITE_AS_TEXT if column.key < 0 else WRITE_FALLBACK
    return WRITE_QUOTED if column.as_text else WRITE_AS_IS


cdef bint fits_in_text(const TableColumn *column, const Field *field) noexcept nogil:
    """Return whether a value fits a column whose values are texts of a certain form."""
    if field.kind != JSON_STRING:
        return False
    if column.kind == COLUMN_TIMESTAMP:
        if fits_timestamp(field, column.separator, column.zoned):
            return True
        return column.spelling == SPELLING_FINE and fits_fine_timestamp(field, column.separator, column.zoned)
    if column.kind == COLUMN_DATE:
        return fits_date(field)
    if column.kind == COLUMN_TIME:
        return fits_time(field) or (column.spelling == SPELLING_FINE and fits_fine_time(field))
    return read_base64(field.text + 1, field.size - 2, NULL, 0) >= 0


cdef uint8_t mode_of(const TableColumn *column, const Field *field) noexcept nogil:
    """Return how a value is written in its column, or that the reference has to look at it."""
    cdef bint fits = False
    if field.kind == JSON_NULL:
        return WRITE_AS_IS if column.key < 0 else WRITE_FALLBACK
    if column.kind == COLUMN_INT:
        fits = field.kind == JSON_INT and fits_int(field, column.bits)
    elif column.kind == COLUMN_TEXT:
        return mode_of_text(column, field)
    elif column.kind == COLUMN_DOUBLE:
        fits = fits_double(field)
    elif column.kind == COLUMN_EXACT_DOUBLE:
        fits = fits_exact_double(field) and (column.key < 0 or field.size <= SHORT_DOUBLE)
    elif column.kind == COLUMN_EXACT_FLOAT:
        fits = fits_exact_float(field)
    elif column.kind == COLUMN_BOOL:
        fits = field.kind == JSON_BOOL
    elif column.kind == COLUMN_DECIMAL:
        fits = is_number(field) and fits_decimal(field, column.precision, column.scale)
    elif (
        column.kind == COLUMN_TIMESTAMP or column.kind == COLUMN_DATE or column.kind == COLUMN_TIME
        or column.kind == COLUMN_BYTES
    ):
        return WRITE_AS_IS if fits_in_text(column, field) else WRITE_FALLBACK
    if not fits:
        return WRITE_FALLBACK
    return WRITE_QUOTED if column.as_text else WRITE_AS_IS


cdef uint8_t mode_in_row(const TableColumn *column, const Row *row, int i, const Typing *typing) noexcept nogil:
    """Return how a row's field is written; it is not looked at where it surely is of its column's type."""
    if typing != NULL and typing.types[i] and typing.types[i] == column.type:
        return WRITE_AS_IS
    return mode_of(column, &row.fields[i])


# -- Rows --------------------------------------------------------------------------------------------------------------


cdef bint is_compact(const Row *row) noexcept nogil:
    """Return whether there is no white space between a row's values."""
    cdef Py_ssize_t size = 1 + (not row.count)
    cdef int i
    for i in range(row.count):
        size += row.fields[i].name_size + row.fields[i].size + 4
    return size == row.size


cdef TableColumn *find_column(Table table, const Field *field, int *next) noexcept nogil:
    """Do what `column_of` does, for any column."""
    cdef int _
    cdef TableColumn *column
    for _ in range(table.own):
        if next[0] >= table.own:
            next[0] = 0
        column = &table.columns[next[0]]
        next[0] += 1
        if is_named(field, column.name, column.name_size):
            return column
    return NULL


cdef bint check_row(
    Table table, const Row *row, const Typing *typing, uint8_t *modes, Py_ssize_t *rewritten
) noexcept nogil:
    """Check a row, and note where its columns are; `rewritten` is how many bytes more it may take, or 0.

    `typing`: what is known of its fields, or NULL.
    """
    cdef int next = 0, i
    cdef Py_ssize_t compact = 1 + (not row.count)  # how long it is without white space between its values
    cdef Py_ssize_t more = 0
    cdef const Field *field
    cdef TableColumn *column
    cdef uint8_t mode
    table.row += 1
    rewritten[0] = 0
    for i in range(row.count):
        field = &row.fields[i]
        column = column_of(table, field, &next)
        if not column or column.seen == table.row:  # a new one, or twice the same
            return False
        column.seen = table.row
        column.at = i
        mode = mode_in_row(column, row, i, typing)
        modes[i] = mode
        if mode == WRITE_FALLBACK:
            return False
        if mode > WRITE_AS_IS:
            more += 2 if mode == WRITE_QUOTED else field.size + 2
        compact += field.name_size + field.size + 4
        if typing != NULL and typing.came[i].text != NULL:
            more += field.size
            compact += <Py_ssize_t> typing.came[i].size - <Py_ssize_t> field.size
    rewritten[0] = more
    # A row that is written anew has no white space then, and the reference sees to that
    return row.size == compact or (not more and row.count == table.count)


cdef bint lacks_values(const Row *row) noexcept nogil:
    """Return whether a value of the row is one that Debezium did not have."""
    cdef int i
    for i in range(row.count):
        if row.fields[i].size >= MIN_UNAVAILABLE and is_unavailable(row.fields[i].text, row.fields[i].size):
            return True
    return False


# -- Keys --------------------------------------------------------------------------------------------------------------


cdef bint key_fields(Table table, const Row *row, const Field **fields) noexcept nogil:
    """Put in the fields of a row that was checked last, one for each key column; False where one is missing."""
    cdef int k
    cdef const TableColumn *column
    for k in range(table.keys):
        column = &table.columns[table.key_columns[k]]
        if column.seen != table.row:
            return False
        fields[k] = &row.fields[column.at]
    return True


cdef int find_key(Table table, const Row *row, const Field **fields) noexcept nogil:
    """Put in the key columns that an image has; return how many, or -1 for what the reference has to look at."""
    cdef int found = 0, before, i, k
    cdef const Field *field
    cdef const TableColumn *column
    for k in range(table.keys):
        column = &table.columns[table.key_columns[k]]
        before = found
        for i in range(row.count):
            field = &row.fields[i]
            if not is_named(field, column.name, column.name_size):
                continue
            if found > before or field.kind == JSON_NULL:
                return -1
            if field.size >= MIN_UNAVAILABLE and is_unavailable(field.text, field.size):  # Debezium did not have it
                return -1
            fields[k] = field
            found += 1
    return found


cdef bint is_key(Table table, const Text *names, int count) noexcept nogil:
    """Return whether these are the primary key's columns, in any order."""
    cdef const TableColumn *column
    cdef int i, k
    if count != table.keys:
        return False
    for k in range(count):
        column = &table.columns[table.key_columns[k]]
        for i in range(count):
            if names[i].size == column.name_size and not memcmp(names[i].text, column.name, names[i].size):
                break
        else:
            return False
    return True


cdef bint scan_message_key(Text message_key, Row *row) noexcept nogil:
    """Scan a message's key, in its schema envelope or without."""
    cdef Field payload
    cdef int at
    if not scan_object(message_key.text, message_key.size, row, NULL):
        return False
    if row.count == 2:
        at = is_named(&row.fields[1], b"payload", 7)
        payload = row.fields[at]
        if is_named(&payload, b"payload", 7) and is_named(&row.fields[not at], b"schema", 6):
            return payload.kind == JSON_OBJECT and scan_row(payload.text, payload.text + payload.size, row, NULL) != NULL
    return True


cdef bint has_key_columns(Table table, Text message_key, Row *row) noexcept nogil:
    """Return whether a message's key has the primary key's columns and no others; `row` has them then."""
    cdef Text names[MAX_KEYS]
    cdef int i
    if not scan_message_key(message_key, row) or row.count != table.keys:
        return False
    for i in range(row.count):
        names[i].text, names[i].size = row.fields[i].name, row.fields[i].name_size
    return is_key(table, names, row.count)
