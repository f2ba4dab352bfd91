# cython: language_level=3
"""The reading of messages that are rows in CSV. What is not plainly right is for the reference."""

cimport cython

from libc.stdint cimport uint8_t

from ingest.native.messages cimport Change
from ingest.native.scan cimport MAX_FIELDS, Text
from ingest.native.workspace cimport Workspace


@cython.final
cdef class CsvForm:
    cdef char delimiter
    cdef char quote           # 0: there is none
    cdef int count            # of columns; -1: they are not known here
    cdef size_t room          # bytes of all names, with what is around them
    cdef Text begins[MAX_FIELDS]      # a column's name as a row has it, with what is before and behind it
    cdef uint8_t kinds[MAX_FIELDS]    # CsvKind
    cdef list kept            # owns the texts of names

cdef bint read_csv_message(Workspace *ws, CsvForm form, const char *p, const char *end, Change *change) except -1
