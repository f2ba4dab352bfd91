# cython: language_level=3
"""The native encoder of one table's rows: checks and writes them."""

cimport cython

from libc.stdint cimport int32_t

from ingest.native.change cimport Change, Workspace
from ingest.native.codes cimport TARGET_USES
from ingest.native.message_schemas cimport RowCodec
from ingest.native.records cimport EncodedBatch
from ingest.native.results cimport ResultRows
from ingest.native.table cimport Table
from ingest.native.template cimport RecordAssembler
from ingest.native.transform_rows cimport TransformInput, TransformRows


@cython.final
cdef class RowEncoder(Table):
    cdef RecordAssembler template      # None: records are rows
    cdef TransformInput transform     # None: rows do not go to expressions
    cdef ResultRows results           # None: rows do not come from expressions
    cdef bint has_targets
    cdef int32_t targets[<int> TARGET_USES]


cdef int encode_change(
    Workspace *ws, RowEncoder encoder, RowCodec codec, Change *change, EncodedBatch batch
) except -1
cdef int feed_change(
    Workspace *ws, RowEncoder encoder, RowCodec codec, Change *change, TransformRows rows
) except -1
cdef int add_upsert(Workspace *ws, Table table, const Change *change, EncodedBatch batch) except -1
