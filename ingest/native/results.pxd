# cython: language_level=3
"""Rows made from what comes back from expressions. The reference is `ResultMerger` in encode/result_merger.py."""

cimport cython

from ingest.native.arrow cimport ArrowColumn
from ingest.native.records cimport EncodedBatch
from ingest.native.scan cimport Field, Row, Text
from ingest.native.workspace cimport Room, Workspace

cdef enum:
    MAX_MARKS = 63            # results whose failures are bits of one mask


cdef struct Result:
    Text name
    int place                 # which of the results that come back it is
    char kind
    Text copied               # the name of the column that it is a copy of


cdef struct ResultColumn:     # of a row that is made: the place of a result, or -1 and a name
    int place
    Text name


@cython.final
cdef class ResultRows:
    cdef Result *results
    cdef int count
    cdef ResultColumn *columns
    cdef int column_count     # -1: all that a row has, then results that are new
    cdef int filter           # which result, or -1
    cdef int filter_before
    cdef bint changeable
    cdef bint soft_delete
    cdef bint makes_key
    cdef list writers
    cdef object spec          # owns the texts of names

    cdef bint fits(self, bytes kinds) except -1
    cdef bint make(
        self, Workspace *ws, Text raw, const ArrowColumn *came, Py_ssize_t at, EncodedBatch batch, Room *room, Row *made
    ) except -1
    cdef bint write_results(
        self, Workspace *ws, Text raw, const ArrowColumn *came, Py_ssize_t at, Field *values
    ) except -1
