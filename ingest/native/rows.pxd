# cython: language_level=3
"""Rows: whether they fit their table, their keys, and what they are written as. The reference is encode/upsert_encoder.py."""

from libc.stdint cimport uint8_t

from ingest.native.scan cimport Field, Row, Text, is_named
from ingest.native.table cimport TableColumn, Table
from ingest.native.workspace cimport Typing

cdef enum:
    MAX_KEY = 4096            # most bytes of a key


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
cdef size_t written_size(Table table, const Row *row, Py_ssize_t rewritten) noexcept nogil
cdef size_t write_row(
    Table table, const Row *row, const Typing *typing, const uint8_t *modes, Py_ssize_t rewritten, char *to
) noexcept nogil
cdef bint key_fields(Table table, const Row *row, const Field **fields) noexcept nogil
cdef int find_key(Table table, const Row *row, const Field **fields) noexcept nogil
cdef size_t write_key(Table table, const Field **fields, char *to) noexcept nogil
cdef size_t write_partial_key(Table table, const Row *row, char *to) noexcept nogil
cdef bint has_plain_key(Table table, const Row *row) noexcept nogil
cdef bint is_key(Table table, const Text *names, int count) noexcept nogil
cdef bint scan_message_key(Text message_key, Row *row) noexcept nogil
cdef bint has_key_columns(Table table, Text message_key, Row *row) noexcept nogil
cdef bint lacks_values(const Row *row) noexcept nogil
cdef bint scan_message_key(Text message_key, Row *row) noexcept nogil
