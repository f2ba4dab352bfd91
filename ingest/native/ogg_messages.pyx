# cython: language_level=3, boundscheck=False, wraparound=False
"""The reading of Oracle GoldenGate's messages; see ogg_messages.pxd. The reference is formats/ogg.py."""

from libc.string cimport memcmp

from ingest.native.messages cimport PART_AFTER, PART_BEFORE, PART_NAMES, Change, read_members, read_part
from ingest.native.scan cimport JSON_STRING, Field, Row, is_named
from ingest.native.workspace cimport Workspace


cdef enum:
    MARK = 10                 # characters of `_isMissing`


cdef inline int part_of_ogg(const Field *field) noexcept nogil:
    if is_named(field, b"before", 6):
        return PART_BEFORE
    if is_named(field, b"after", 5):
        return PART_AFTER
    return PART_NAMES if is_named(field, b"primary_keys", 12) else 0


cdef inline bint read_ogg_field(const Field *field, Change *change) noexcept nogil:
    """Read what a member says that is neither a row nor a list; False for a fallback."""
    if is_named(field, b"table", 5):
        return read_part(field, &change.parts[2])
    if not is_named(field, b"op_type", 7):
        return True
    if change.op or field.kind != JSON_STRING or field.size != 3:
        return False
    if field.text[1] == b'I':
        change.op = b'c'
    elif field.text[1] == b'U':
        change.op = b'u'
    elif field.text[1] == b'D':
        change.op = b'd'
    return change.op != 0


cdef bint has_marks(const Row *row) noexcept nogil:
    """Return whether a row has columns that may be marks of columns that were not sent."""
    cdef const Field *field
    cdef int i
    for i in range(row.count):
        field = &row.fields[i]
        if field.name_size > MARK and not memcmp(field.name + field.name_size - MARK, b"_isMissing", MARK):
            return True
    return False


cdef bint has_all(const Row *row, const Row *old) noexcept nogil:
    """Return whether a row has all columns of the row before it."""
    cdef const Field *field
    cdef int next = 0, i, _
    for i in range(old.count):
        field = &old.fields[i]
        for _ in range(row.count):
            if next >= row.count:
                next = 0
            if is_named(&row.fields[next], field.name, field.name_size):
                break
            next += 1
        else:
            return False
        next += 1
    return True


cdef bint choose_images(Workspace *ws, Change *change) noexcept nogil:
    """Leave the images that a change has; False for a fallback."""
    if change.op == b'c':
        ws.before.size = 0
    elif change.op == b'd':
        ws.after.size = 0
    if ws.before.size and has_marks(&ws.before):
        return False
    if not ws.after.size:
        return change.op == b'd' and ws.before.size != 0
    if has_marks(&ws.after):
        return False
    change.sparse = change.op == b'u'
    return not ws.before.size or has_all(&ws.after, &ws.before)


cdef bint read_ogg(Workspace *ws, const char *p, const char *end, Change *change) noexcept nogil:
    """Read a message; False for a fallback. The whole id of the table is in the part of its name."""
    return read_members(ws, p, end, change, part_of_ogg, read_ogg_field) and choose_images(ws, change)
