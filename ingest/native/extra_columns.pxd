# cython: language_level=3
"""Columns that rows have beside those of their message's value. The reference is formats/metadata_columns.py."""

cimport cython

from ingest.native.change cimport MAX_KEYS, Change, Typing, Workspace
from ingest.native.message_schemas cimport AvroTexts, RowCodec
from ingest.native.metadata cimport MetadataWriter, RecordColumns
from ingest.native.records cimport RawRecord
from ingest.native.scan cimport Row, Text


@cython.final
cdef class RowExtender:
    cdef bint key             # the fields of the message's key are columns
    cdef bint key_is_primary
    cdef bint except_key      # a column that is in the key and in the value is the key's
    cdef Text[MAX_KEYS] key_fields
    cdef int key_field_count  # of the fields of keys that are columns; 0: all of them
    cdef Text key_prefix
    cdef Text value_prefix
    cdef AvroTexts keys       # None: keys are JSON
    cdef bint has_schema      # the last key was in an envelope
    cdef MetadataWriter metadata
    cdef list kept            # owns the texts of prefixes and names

    cdef bint extend(self, Workspace *ws, RowCodec codec, const RawRecord *record, Change *change) except -1
    cdef bint read_columns(self, Workspace *ws, const RawRecord *record, Change *change) except -1
    cdef bint choose_fields(self, Row *key, const Change *change) noexcept nogil
    cdef size_t room(self, Workspace *ws, const RawRecord *record, const Change *change) noexcept nogil
    cdef char *put_key(self, Workspace *ws, Change *change, char *to) noexcept nogil
    cdef bint is_plain(self, const Row *row, const Typing *typing) noexcept nogil
    cdef char *rewrite(
        self, Row *made, Row *row, Typing *typing, const Row *key, bint is_old, const RecordColumns *about, char *to
    ) noexcept nogil
