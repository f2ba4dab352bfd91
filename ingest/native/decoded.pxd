# cython: language_level=3
"""Changes that the reference has decoded, on their way to encoded records, or to rows for expressions.

In: what decoders in Python return (model/change.py). Out: what `NativeEncoder` makes of messages, by the same encoders of
tables. The reference is `encode` in encode/encode.py.
"""

cimport cython

from ingest.native.messages cimport Change
from ingest.native.records cimport EncodedBatch
from ingest.native.row_encoder cimport RowEncoder
from ingest.native.transform_rows cimport TransformRows
from ingest.native.workspace cimport Workspace


@cython.final
cdef class DecodedEncoder:
    cdef object find
    cdef dict tables          # the encoders of tables, or None where that is the reference
    cdef object last          # the table of the last change; most decoders make one object of an id
    cdef RowEncoder encoder   # its encoder
    cdef dict skips
    cdef object held          # memory of the change in hand that the change itself does not hold

    cdef RowEncoder find_table(self, object table)
    cdef RowEncoder read_change(self, Workspace *ws, tuple given, Change *change)
    cdef int take_one(
        self, Workspace *ws, object given, object message, EncodedBatch batch, TransformRows rows
    ) except -1
    cdef Py_ssize_t take(
        self, list changes, Py_ssize_t start, Py_ssize_t end, EncodedBatch batch, object messages, Py_ssize_t first,
        TransformRows rows
    ) except -1
