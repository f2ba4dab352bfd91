# cython: language_level=3
"""A message that was read: its table, what happened, and its images. Each form has a module that reads it."""

cimport cython

from ingest.native.inline_schema cimport RowCodec, SchemaCache
from ingest.native.scan cimport (
    JSON_NULL, JSON_STRING, Field, Text, next_field, open_object, scan_field, scan_name, scan_row, skip_space,
)
from ingest.native.table cimport MAX_KEYS
from ingest.native.workspace cimport Workspace

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
    bint numbers              # some of its texts may hold numbers, which is what a key has of them
    bint typed                # something is known of the rows beside their texts
    bint declared             # its message says something of the rows, which have the form of it already
    bint composed             # the row's text is in the workspace, not in the message
    bint extended             # so are its images, and what is known of them: they have columns of other places, too
    RowList data              # rows of which this is the change, one after the other
    RowList old               # the images before them, as many or none
    const char *end           # of the message


@cython.final
cdef class InlineSchemas:
    cdef bytes member         # the name of the member that has them in Canal's messages, or None: they have none
    cdef SchemaCache cache
    cdef RowCodec codec       # by the schema of the message that was read last, or None


cdef enum:                    # members of a message that are no values: each may be there once
    PART_BEFORE = 1
    PART_AFTER = 2
    PART_NAMES = 4            # of the primary key's columns

ctypedef int (*PartOf)(const Field *) noexcept nogil
ctypedef bint (*ReadMember)(const Field *, Change *) noexcept nogil


cdef int read_names(const char **at, const char *end, Text *names) noexcept nogil


cdef inline bint read_part(const Field *field, Text *part) noexcept nogil:
    """Read a part of a table's id: null and empty are the same, and a text with escapes is a fallback."""
    if part.text != NULL or (field.kind != JSON_STRING and field.kind != JSON_NULL) or field.flags:
        return False
    if field.kind == JSON_NULL:
        part.text, part.size = b"", 0
    else:
        part.text, part.size = field.text + 1, field.size - 2
    return True


cdef inline bint read_members(
    Workspace *ws, const char *p, const char *end, Change *change, PartOf part_of, ReadMember read_member
) noexcept nogil:
    """Read a message of one row, whose images and names are members of it; False for a fallback.

    `part_of` returns which of them a member is, or 0; `read_member` reads one of the others, and returns False for a
    fallback. All of it is here, so that the C compiler puts these two into the loop of each form.
    """
    cdef Field field
    cdef int seen = 0, part
    cdef bint last = False
    ws.before.size = ws.after.size = 0
    p = open_object(skip_space(p, end), end, &last)
    while p != NULL and not last:
        p = scan_name(p, end, &field)
        if p == NULL or p >= end:
            return False
        part = part_of(&field)
        if seen & part:
            return False
        seen |= part
        if part == PART_NAMES:
            change.named = read_names(&p, end, change.names)
            if change.named < 0:
                return False
        elif part and p[0] != b'n':
            if part == PART_BEFORE:
                p = scan_row(p, end, &ws.before, NULL)
            else:
                p = scan_row(p, end, &ws.after, &ws.before if ws.before.size else NULL)
        else:
            p = scan_field(p, end, &field)
            if p == NULL or (not part and not read_member(&field, change)):
                return False
        if p == NULL:
            return False
        p = next_field(p, end, &last)
    return p != NULL and skip_space(p, end) == end and change.op != 0 and change.parts[2].size != 0
