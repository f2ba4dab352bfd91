# cython: language_level=3
"""A change that was read of a message, and the memory that is needed meanwhile: one of a kind, as one call at a time runs."""

from libc.stdint cimport int32_t, uint8_t

from ingest.native.scan cimport JSON_NULL, JSON_STRING, MAX_FIELDS, Field, Row, Text

cdef enum:
    ID_PARTS = 3
    MAX_KEYS = 16             # columns of a primary key
    MAX_SOURCE = 1024
    MAX_TEXT = 1 << 24        # bytes of a text that is written with escapes; there is room for six times as many


cdef struct RowList:          # rows of a message, of which the first one was scanned
    Py_ssize_t count
    const char *next          # the row behind that


cdef struct Change:           # its images are in the workspace: a size of 0 is none
    int form                  # MessageForm
    char op                   # c, r, u, d or what else there is
    int id_parts              # so many of them the table's id has
    Text parts[ID_PARTS]
    Text message_key
    Text names[MAX_KEYS]      # of the primary key's columns, where a message tells them
    int named
    bint sparse               # its row may lack columns of its table, whose values are not known then
    bint numbers              # some of its texts may hold numbers, which is what a key has of them
    bint typed                # something is known of the rows beside their texts
    bint declared             # its message says something of the rows, which have the form of it already
    bint composed             # the row's text is in the workspace, not in the message
    bint extended             # so are its images, and what is known of them: they have columns of other places, too
    RowList data              # rows of which this is the change, one after the other
    RowList old               # the images before them, as many or none
    const char *end           # of the message


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
cdef int text_of_bytes(object given, Text *text) except -1


cdef inline bint read_part(const Field *field, Text *part) noexcept nogil:
    """Read a part of a table's id: null and empty are the same, and a text with escapes is a fallback."""
    if part.text != NULL or (field.kind != JSON_STRING and field.kind != JSON_NULL) or field.flags:
        return False
    if field.kind == JSON_NULL:
        part.text, part.size = b"", 0
    else:
        part.text, part.size = field.text + 1, field.size - 2
    return True
