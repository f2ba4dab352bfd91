# cython: language_level=3
"""Records that are put together: columns of a row, images, and texts between them.

The reference is `RecordTemplate` in encode/change_encoder.py, of the segments that formats/template.py has.
"""

cimport cython

from libc.stdint cimport int32_t

from ingest.native.change cimport Change, Workspace
from ingest.native.records cimport EncodedBatch
from ingest.native.table cimport Table
from ingest.native.transform_rows cimport TransformRows


cdef struct Segment:
    int kind                  # SegmentKind
    int column                # its place; in keys, among the columns of the key
    const char *text
    size_t size


cdef struct Segments:
    Segment *segments
    int count


@cython.final
cdef class RecordAssembler:
    cdef Segments key
    cdef Segments insert
    cdef Segments update
    cdef Segments update_alone
    cdef Segments delete
    cdef bint keyed
    cdef bint writes_deletes  # they have a value
    cdef bint clears_old_key
    cdef bint splits          # the reference makes two records of an update that changes the key
    cdef object spec          # owns the texts of segments

    cdef int add(self, Workspace *ws, Table table, const Change *change, EncodedBatch batch) except -1
    cdef int add_ready(
        self, Workspace *ws, Table table, const Change *change, const int32_t *targets, TransformRows rows
    ) except -1
