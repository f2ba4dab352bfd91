# cython: language_level=3
"""The reading that messages of all forms share; see messages.pxd."""

from ingest.native.inline_schema cimport SchemaCache


cdef class Said:
    """The place where messages declare their columns' types: in a member of this name, by schemas that `read` makes."""

    def __cinit__(self, bytes member, read):
        self.member = member
        self.schemas = SchemaCache(read)
