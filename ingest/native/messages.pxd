# cython: language_level=3
"""A message that was read: its table, what happened, and its images. Each form has a module that reads it."""

cimport cython

from ingest.native.inline_schema cimport InlineSchema, SchemaCache
from ingest.native.scan cimport JSON_NULL, JSON_STRING, Field, Text
from ingest.native.table cimport MAX_KEYS

cdef enum:
    ID_PARTS = 3


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
    bint typed                # something is known of the rows beside their texts
    bint declared             # its message says something of the rows, which have the form of it already
    bint composed             # the row's text is in the workspace, not in the message
    bint extended             # so are its images, and what is known of them: they have columns of other places, too
    RowList data              # rows of which this is the change, one after the other
    RowList old               # the images before them, as many or none
    const char *end           # of the message


@cython.final
cdef class Said:              # where a message says what columns' types are
    cdef bytes member         # the name of what has it in Canal's messages, or None: they do not
    cdef SchemaCache schemas
    cdef InlineSchema found   # by the message that was read last, or None


cdef inline bint read_part(const Field *field, Text *part) noexcept nogil:
    """Read a part of a table's id: null and empty are the same, and a text with escapes is a fallback."""
    if part.text != NULL or (field.kind != JSON_STRING and field.kind != JSON_NULL) or field.flags:
        return False
    if field.kind == JSON_NULL:
        part.text, part.size = b"", 0
    else:
        part.text, part.size = field.text + 1, field.size - 2
    return True
