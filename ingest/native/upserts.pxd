# cython: language_level=3
"""Changes that become keyed rows and tombstones. The reference is `UpsertEncoder` in encode/upsert_encoder.py."""

from ingest.native.messages cimport Change
from ingest.native.records cimport EncodedBatch
from ingest.native.scan cimport Row, Text
from ingest.native.table cimport Table
from ingest.native.workspace cimport Typing, Workspace


cdef struct Upsert:
    Text key
    Text old_key              # of the row before an update; a size of 0: that is not known
    const Row *row            # NULL: the record is a tombstone
    const Typing *typing
    Py_ssize_t rewritten
    int use                   # TargetUse: what happened
    bint moved                # the old key is another one

cdef bint check_change(Workspace *ws, Table table, const Change *change, char *keys, Upsert *made) noexcept nogil
cdef int add_upsert(Workspace *ws, Table table, const Change *change, EncodedBatch batch) except -1
cdef int count_change(Table table, int use, size_t size) except -1
