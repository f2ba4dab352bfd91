# cython: language_level=3, boundscheck=False, wraparound=False
"""A table as the native code has it; see table.pxd."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.limits cimport INT_MAX
from libc.stdint cimport uint32_t

from ingest.native.codes cimport COLUMN_INT, COLUMN_OTHER, SPELLING_FINE, SPELLING_USUAL
from ingest.native.scan cimport Text

touched = []


cdef int text_of_bytes(object given, Text *text) except -1:
    """Put in `text` the bytes of an object, which has to be kept; raises TypeError, and ValueError for too many."""
    if type(given) is not bytes:
        raise TypeError(f"bytes are needed, not {type(given).__name__}")
    if PyBytes_GET_SIZE(given) > MAX_NAME:
        raise ValueError("a column with a name that is too long")
    text.text = PyBytes_AS_STRING(given)
    text.size = <size_t> PyBytes_GET_SIZE(given)
    return 0


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
