# cython: language_level=3
"""A table as the native code has it: its columns, its key, and what was counted; and whether rows fit it."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from ingest.native.change cimport MAX_KEYS, Typing
from ingest.native.records cimport EncodedBatch
from ingest.native.scan cimport Field, Row, Text, is_named


cdef struct TableColumn:
    const char *name
    const char *fill          # `,"name":null`
    uint32_t name_size
    uint32_t fill_size
    int kind                  # ColumnKind
    int key                   # its place in the primary key, or -1
    int type                  # the number of its type where the sink's column is of the same, or 0
    bint as_text
    bint coarse               # in keys, what the column does not plainly hold is for the reference
    bint moves                # it is of the key of what comes out of expressions
    uint8_t spelling          # Spelling
    int64_t bits
    int64_t characters
    int64_t precision
    int64_t scale
    char separator
    bint zoned
    int at                    # the field of the row in hand
    int was                   # the field of the image in hand
    uint64_t seen             # the row that had it last
    uint64_t had              # the image that had it last


cdef class Table:
    cdef TableColumn *columns
    cdef int *order           # the sink's columns in the sink's order
    cdef int count            # columns of the sink
    cdef int own              # so many of them, the first ones, may be in a row
    cdef int keys
    cdef int key_columns[MAX_KEYS]
    cdef bint key_from_message
    cdef bint key_as_text
    cdef bint deletes_are_rows  # which the reference makes
    cdef bint declares        # the pipeline declares types of its columns
    cdef uint64_t row         # number of the row in hand
    cdef object reference     # the encoder whose counters are kept
    cdef readonly object destination
    cdef uint64_t batch       # the batch that `target` is of
    cdef Py_ssize_t target
    cdef long inserted
    cdef long updated
    cdef long deleted
    cdef int64_t bytes_in     # of messages whose rows are the table's
    cdef int64_t bytes_out    # of records that came of rows
    cdef bint is_touched
    cdef object spec          # owns the texts of names


cdef list touched             # tables with counters to hand over


cdef inline int touch(Table table) except -1:
    """Let the counters be told to `reference`, before one of them is changed."""
    if not table.is_touched:
        touched.append(table)
        table.is_touched = True
    return 0


cdef inline Py_ssize_t target_in(Table table, EncodedBatch batch) except -1:
    """Return the place of the table's destination in a batch."""
    if table.batch != batch.number:
        table.target = batch.add_target(table.destination)
        table.batch = batch.number
    return table.target


cdef int count_touched(bint good) except -1
cdef int *places_of(tuple places, Py_ssize_t end) except NULL
cdef int count_change(Table table, int use, size_t size) except -1


cdef inline TableColumn *column_of(Table table, const Field *field, int *next) noexcept nogil:
    """Return the column that a field is of, or NULL; the one behind that of the last field is looked at first."""
    cdef TableColumn *column
    if next[0] < table.own:
        column = &table.columns[next[0]]
        if is_named(field, column.name, column.name_size):
            next[0] += 1
            return column
    return find_column(table, field, next)


cdef uint8_t mode_of(const TableColumn *column, const Field *field) noexcept nogil
cdef uint8_t mode_in_row(const TableColumn *column, const Row *row, int i, const Typing *typing) noexcept nogil
cdef TableColumn *find_column(Table table, const Field *field, int *next) noexcept nogil
cdef bint is_compact(const Row *row) noexcept nogil
cdef bint check_row(
    Table table, const Row *row, const Typing *typing, uint8_t *modes, Py_ssize_t *rewritten
) noexcept nogil
cdef bint key_fields(Table table, const Row *row, const Field **fields) noexcept nogil
cdef int find_key(Table table, const Row *row, const Field **fields) noexcept nogil
cdef bint is_key(Table table, const Text *names, int count) noexcept nogil
cdef bint scan_message_key(Text message_key, Row *row) noexcept nogil
cdef bint has_key_columns(Table table, Text message_key, Row *row) noexcept nogil
cdef bint lacks_values(const Row *row) noexcept nogil
