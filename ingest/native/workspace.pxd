# cython: language_level=3
"""The memory that is needed while messages are read: one of a kind, as one call at a time runs."""

from libc.stdint cimport int32_t, uint8_t

from ingest.native.scan cimport MAX_FIELDS, Row, Text

cdef enum:
    MAX_SOURCE = 1024


cdef struct Typing:           # what a message says of a row's fields beside their values
    Text came[MAX_FIELDS]     # the text that a converted value came as; NULL for the others
    int32_t types[MAX_FIELDS] # the number of the type that a value surely is of, or 0


cdef struct Room:             # bytes that are written over again and again
    char *bytes
    size_t size


cdef struct Workspace:
    Row before
    Row after
    Row message_key
    Row composed              # one that another one is made of, or that is made of two
    Row source                # one that came, in a text of ours: most are like it
    char source_text[MAX_SOURCE]
    uint8_t modes[MAX_FIELDS]         # WriteMode of the fields of the row after
    uint8_t before_modes[MAX_FIELDS]  # and of the image before
    Typing before_typing
    Typing typing
    Room value_text           # a value that came in Avro, as JSON
    Room key_text             # and a key, as the format of values reads it
    Room columns_text         # and as columns are read from it
    Room made                 # values that were made of others
    Room flattened            # a row that was made of a nested one
    Room extended             # images with columns that are not their value's
    Room results
    Room row
    Room after_text           # of the row after, where that is made of results
    Room before_text          # and of the row before


cdef Workspace *enter() except NULL
cdef void leave() noexcept
cdef char *room_for(Room *room, size_t size) except NULL
