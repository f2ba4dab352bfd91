# cython: language_level=3
"""A message's key whose fields are columns of its rows. The reference is formats/metadata_columns.py."""

from ingest.native.scan cimport Row, Text


cdef bint read_key(Text text, Row *row) noexcept nogil
cdef bint match_key(const Row *key, const Row *row, bint is_old, int *places) noexcept nogil
