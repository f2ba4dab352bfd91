# cython: language_level=3
"""The reading of a message: its table, what happened, and its images. Forms are Debezium's and Canal's."""

cimport cython

from ingest.native.inline_schema cimport InlineSchema, SchemaCache
from ingest.native.scan cimport Text
from ingest.native.table cimport MAX_KEYS
from ingest.native.workspace cimport Workspace

cdef enum:
    ID_PARTS = 3


cdef struct Change:           # its images are in the workspace: a size of 0 is none
    int form                  # MessageForm
    char op                   # c, r, u, d or what else there is
    Text parts[ID_PARTS]      # of the table's id
    Text message_key
    Text names[MAX_KEYS]      # of the primary key's columns, where a message tells them
    int named
    bint typed                # something is known of the rows beside their texts
    bint declared             # its message says something of the rows, which have the form of it already


@cython.final
cdef class Said:              # where a message says what columns' types are
    cdef bytes member         # the name of what has it in Canal's messages, or None: they do not
    cdef SchemaCache schemas
    cdef InlineSchema found   # by the message that was read last, or None

cdef bint read_debezium(Workspace *ws, Said said, const char *p, const char *end, Change *change) except -1
cdef bint read_canal(Workspace *ws, Said said, const char *p, const char *end, Change *change) except -1
cdef bint read_plain(Workspace *ws, const char *p, const char *end, Change *change) noexcept nogil
