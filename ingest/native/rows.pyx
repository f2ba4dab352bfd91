# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows: whether they fit their table, their keys, and what they are written as; see rows.pxd."""

from libc.stdint cimport uint8_t
from libc.string cimport memcmp, memcpy, memset

from ingest.native.codes cimport (
    COLUMN_BOOL, COLUMN_BYTES, COLUMN_DATE, COLUMN_DECIMAL, COLUMN_DOUBLE, COLUMN_EXACT_DOUBLE, COLUMN_EXACT_FLOAT,
    COLUMN_INT, COLUMN_TEXT, COLUMN_TIME, COLUMN_TIMESTAMP, SPELLING_FINE, WRITE_AS_IS, WRITE_AS_TEXT,
    WRITE_FALLBACK, WRITE_QUOTED,
)
from ingest.native.scan cimport (
    JSON_ARRAY, JSON_BOOL, JSON_INT, JSON_NULL, JSON_OBJECT, JSON_STRING, MIN_UNAVAILABLE, Field, Row,
    Text, fits_date, fits_decimal, fits_double, fits_exact_double, fits_exact_float, fits_fine_time, fits_fine_timestamp,
    fits_int, fits_length, fits_time, fits_timestamp, is_named, is_number, is_unavailable, is_utf8, key_text,
    put_json_text, read_base64, scan_number, scan_row, skip_space,
)
from ingest.native.table cimport MAX_KEYS, TableColumn, Table
from ingest.native.workspace cimport Typing

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


cdef size_t written_size(Table table, const Row *row, Py_ssize_t rewritten) noexcept nogil:
    """Return how many bytes the row that was checked last needs to be written; 0: it is written as it came."""
    cdef size_t size = <size_t> (row.size + rewritten)
    cdef int i
    if row.count == table.count:
        return size if rewritten else 0
    for i in range(table.count):
        if table.columns[i].seen != table.row:
            size += table.columns[i].fill_size
    return size


cdef char *put(char *to, const char *text, size_t size) noexcept nogil:
    memcpy(to, text, size)
    return to + size


cdef char *write_fields(const Row *row, const Typing *typing, const uint8_t *modes, char *to) noexcept nogil:
    """Write a row without its last brace, with the values that are written otherwise than they came."""
    cdef const char *done = row.text
    cdef const Field *field
    cdef Text came
    cdef int i
    for i in range(row.count):
        field = &row.fields[i]
        came.text, came.size = field.text, field.size
        if typing != NULL and typing.came[i].text != NULL:
            came = typing.came[i]
        elif modes[i] == WRITE_AS_IS:
            continue
        to = put(to, done, <size_t> (came.text - done))
        done = came.text + came.size
        if modes[i] == WRITE_AS_TEXT:
            to = put_json_text(to, field.text, field.size)
            continue
        if modes[i] == WRITE_QUOTED:
            to[0] = b'"'
            to += 1
        to = put(to, field.text, field.size)
        if modes[i] == WRITE_QUOTED:
            to[0] = b'"'
            to += 1
    return put(to, done, <size_t> (row.text + row.size - 1 - done))


cdef size_t write_row(
    Table table, const Row *row, const Typing *typing, const uint8_t *modes, Py_ssize_t rewritten, char *to
) noexcept nogil:
    """Write the row that was checked last, of which `written_size` is no zero, and return its size."""
    cdef char *start = to
    cdef const TableColumn *column
    cdef int i
    to = write_fields(row, typing, modes, to) if rewritten else put(to, row.text, <size_t> row.size - 1)
    if row.count < table.count:
        for i in range(table.count):
            column = &table.columns[table.order[i]]
            if column.seen != table.row:
                to = put(to, column.fill, column.fill_size)
    to[0] = b'}'
    return <size_t> (to + 1 - start)


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


cdef size_t write_key(Table table, const Field **fields, char *to) noexcept nogil:
    """Write the key of these fields, one for each key column; return its size, or 0 for a fallback.

    `to` has room for MAX_KEY bytes.
    """
    cdef char *start = to
    cdef const TableColumn *column
    cdef Text value
    cdef bint quote
    cdef int i
    to[0] = b'{'
    to += 1
    for i in range(table.keys):
        column = &table.columns[table.key_columns[i]]
        if not key_text(fields[i], &value):
            return 0
        if column.coarse and mode_of(column, fields[i]) == WRITE_FALLBACK:
            return 0
        if <size_t> (to - start) + column.name_size + value.size + 8 > MAX_KEY:
            return 0
        quote = table.key_as_text and fields[i].kind != JSON_STRING
        if i:
            to[0] = b','
            to += 1
        to[0] = b'"'
        to = put(to + 1, column.name, column.name_size)
        to[0], to[1] = b'"', b':'
        to += 2
        if quote:
            to[0] = b'"'
            to += 1
        to = put(to, value.text, value.size)
        if quote:
            to[0] = b'"'
            to += 1
    to[0] = b'}'
    return <size_t> (to + 1 - start)


cdef size_t write_partial_key(Table table, const Row *row, char *to) noexcept nogil:
    """Write the key of an image that may lack other columns; return its size, or 0."""
    cdef const Field *fields[MAX_KEYS]
    return write_key(table, fields, to) if find_key(table, row, fields) == table.keys else 0


cdef bint is_plain(const Field *field) noexcept nogil:
    """Return whether a text surely is the same in a key if the number in it counts."""
    cdef const char *p = field.text + 1
    cdef Field number
    cdef Text text
    number.text, number.size, number.kind, number.flags = p, field.size - 2, 0, 0
    if field.kind != JSON_STRING or not number.size or not (p[0] == b'-' or b'0' <= p[0] <= b'9'):
        return True
    if scan_number(p, p + number.size, &number.kind, &number.flags) != p + number.size:
        # Zeros in front are none of JSON's
        return p[0] != b'0' and not (p[0] == b'-' and number.size > 1 and p[1] == b'0')
    return key_text(&number, &text) and text.size == number.size


cdef bint has_plain_key(Table table, const Row *row) noexcept nogil:
    """Return whether the key's columns of an image, if there is one, surely are the same if numbers in texts count."""
    cdef const Field *fields[MAX_KEYS]
    cdef int k
    memset(fields, 0, sizeof(fields))
    if row.size and find_key(table, row, fields) < 0:
        return False
    for k in range(table.keys):
        if fields[k] != NULL and not is_plain(fields[k]):
            return False
    return True


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
    cdef const char *text = message_key.text
    cdef const char *end = text + message_key.size
    cdef const char *p
    cdef Field payload
    cdef int at
    if not is_utf8(text, message_key.size):
        return False
    p = scan_row(skip_space(text, end), end, row, NULL)
    if not p or skip_space(p, end) != end:
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
