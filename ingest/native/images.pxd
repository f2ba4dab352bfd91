# cython: language_level=3
"""Images of a change: in the form of their types, as messages say them or the pipeline, and checked against their table.

The references are model/spelling.py, and `RowCoercer` in encode/coercer.py.
"""

from libc.stdint cimport uint64_t

from ingest.native.change cimport MAX_KEYS, Change, Workspace
from ingest.native.message_schemas cimport RowCodec
from ingest.native.scan cimport Field, Row
from ingest.native.table cimport Table


cdef struct Images:           # what there is to put records together of
    const Row *row            # the row after, or NULL
    const Row *image          # the row before, or NULL
    uint64_t mark             # of the columns that the image has
    bint over                 # what the image lacks is as in the row
    const Field *fields[MAX_KEYS]      # of the key
    const Field *old_fields[MAX_KEYS]  # of the key before an update


cdef size_t room_to_read(const Row *row) noexcept nogil
cdef bint read_images(Workspace *ws, Table table, RowCodec codec, Change *change, bint fed) except -1
cdef bint begins_with(const Row *row, const Row *key) noexcept nogil
cdef bint check_images(
    Workspace *ws, Table table, const Change *change, Images *images, int *old_columns
) noexcept nogil
