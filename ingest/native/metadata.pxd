# cython: language_level=3
"""Columns about the record that a row came in. The reference is formats/metadata_columns.py."""

cimport cython

from libc.stdint cimport int32_t

from ingest.native.records cimport RawRecord
from ingest.native.scan cimport Field, Row, Text

cdef enum:
    MAX_COLUMNS = 16


cdef struct MetadataColumn:
    Text quoted               # its name, with quotes
    int kind                  # MetadataKind
    int type                  # the number of its type, as columns of tables have it


cdef struct RecordColumns:    # those of one record
    Text text                 # with a comma before each
    int count
    Field fields[MAX_COLUMNS] # in that text
    int32_t types[MAX_COLUMNS] # by field: the number of the type that its value is of, or 0


@cython.final
cdef class MetadataWriter:
    cdef MetadataColumn columns[MAX_COLUMNS]
    cdef int count
    cdef char separator
    cdef int wanted           # WantedMetadata
    cdef list kept            # owns the texts of names

    cdef size_t room(self, const RawRecord *record) noexcept nogil
    cdef char *put(self, const RawRecord *record, RecordColumns *made, char *to) noexcept nogil
    cdef bint is_in(self, const Row *row) noexcept nogil
    cdef bint clashes(self, const Row *row) noexcept nogil

cdef char *add_columns(const RecordColumns *about, Row *row, int32_t *types, char *to) noexcept nogil
