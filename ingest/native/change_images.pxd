# cython: language_level=3
"""Images of a change, checked before its records are put together. The reference is `RowCoercer` in encode/coercer.py."""

from libc.stdint cimport uint64_t

from ingest.native.messages cimport Change
from ingest.native.scan cimport Field, Row
from ingest.native.table cimport MAX_KEYS, Table
from ingest.native.workspace cimport Workspace


cdef struct Images:           # what there is to put records together of
    const Row *row            # the row after, or NULL
    const Row *image          # the row before, or NULL
    uint64_t mark             # of the columns that the image has
    bint over                 # what the image lacks is as in the row
    const Field *fields[MAX_KEYS]      # of the key
    const Field *old_fields[MAX_KEYS]  # of the key before an update


cdef bint begins_with(const Row *row, const Row *key) noexcept nogil
cdef bint check_images(
    Workspace *ws, Table table, const Change *change, Images *images, int *old_columns
) noexcept nogil
