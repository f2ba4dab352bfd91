# cython: language_level=3
"""The reading of messages that are rows. What is not plainly right is for the reference."""

cimport cython

from ingest.native.messages cimport ID_PARTS, Change
from ingest.native.scan cimport Text
from ingest.native.workspace cimport Workspace


@cython.final
cdef class RowForm:
    cdef bint flatten         # objects within rows become columns of their own
    cdef int fields           # so many of a row have a part of its table's id
    cdef Text names[ID_PARTS]
    cdef tuple spec           # owns the texts of names

cdef bint read_row_message(Workspace *ws, RowForm form, const char *p, const char *end, Change *change) except -1
