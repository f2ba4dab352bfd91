# cython: language_level=3
"""The reading of Debezium's messages, and of those that are rows in JSON or CSV. What is not plainly right is for the reference."""

cimport cython

from libc.stdint cimport uint8_t

from ingest.native.change cimport ID_PARTS, Change, Workspace
from ingest.native.message_schemas cimport SchemaCache
from ingest.native.scan cimport MAX_FIELDS, Text


@cython.final
cdef class RowForm:
    cdef bint flatten         # objects within rows become columns of their own
    cdef int fields           # so many of a row have a part of its table's id
    cdef Text names[ID_PARTS]
    cdef tuple spec           # owns the texts of names


@cython.final
cdef class CsvForm:
    cdef char delimiter
    cdef char quote           # 0: there is none
    cdef int count            # of columns; -1: they are not known here
    cdef size_t room          # bytes of all names, with what is around them
    cdef Text begins[MAX_FIELDS]      # a column's name as a row has it, with what is before and behind it
    cdef uint8_t kinds[MAX_FIELDS]    # CsvKind
    cdef list kept            # owns the texts of names


cdef bint read_debezium(Workspace *ws, SchemaCache schemas, const char *p, const char *end, Change *change) except -1
cdef bint read_row_message(Workspace *ws, RowForm form, const char *p, const char *end, Change *change) except -1
cdef bint read_csv_message(Workspace *ws, CsvForm form, const char *p, const char *end, Change *change) except -1
