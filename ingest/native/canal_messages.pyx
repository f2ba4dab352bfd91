# cython: language_level=3, boundscheck=False, wraparound=False
"""The reading of Canal's messages; see canal_messages.pxd. The reference is formats/canal/options.py."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp

from ingest.native.messages cimport (
    PART_AFTER, PART_BEFORE, PART_NAMES, Change, InlineSchemas, RowList, read_names, read_part,
)
from ingest.native.scan cimport (
    JSON_BOOL, JSON_NULL, JSON_STRING, Field, Row, is_named, next_field, open_object, scan_field, scan_name, scan_row,
    scan_value, skip_space,
)
from ingest.native.workspace cimport Workspace


cdef const char *scan_element(const char *p, const char *end, Row *row) noexcept nogil:
    """Scan a row that is in an array, or null, which has a size of 0."""
    cdef uint8_t kind, flags = 0
    row.size = 0
    return scan_value(p, end, 1, &kind, &flags) if p < end and p[0] == b'n' else scan_row(p, end, row, NULL)


cdef const char *scan_rows(const char *p, const char *end, Row *row, RowList *rows) noexcept nogil:
    """Scan an array of rows, or null: the first row with its fields, the others only to where they end."""
    cdef uint8_t kind, flags = 0
    row.size = 0
    if p < end and p[0] == b'n':
        return scan_value(p, end, 1, &kind, &flags)
    if p >= end or p[0] != b'[':
        return NULL
    p = scan_element(skip_space(p + 1, end), end, row)
    while p != NULL:
        rows.count += 1
        p = skip_space(p, end)
        if p < end and p[0] == b']':
            return p + 1
        if p >= end or p[0] != b',':
            return NULL
        p = skip_space(p + 1, end)
        if rows.count == 1:
            rows.next = p
        p = scan_value(p, end, 1, &kind, &flags)
    return NULL


cdef bint scan_next(RowList *rows, const char *end, Row *row) noexcept nogil:
    """Scan the next row of a list, which is well-formed: `scan_rows` saw to that. False for what is no row."""
    cdef const char *p = scan_element(rows.next, end, row)
    if p == NULL:
        return False
    p = skip_space(p, end)
    if p < end and p[0] == b',':
        rows.next = skip_space(p + 1, end)
    return True


cdef bint read_next_row(Workspace *ws, Change *change) noexcept nogil:
    """Read the next row of a message that has more, and the image before it; False for a fallback."""
    if not scan_next(&change.data, change.end, &ws.after):
        return False
    return not change.old.count or scan_next(&change.old, change.end, &ws.before)


cdef bint read_canal_field(const Field *field, Change *change) noexcept nogil:
    """Read what a member says that is neither a row nor a list; False for a fallback."""
    if is_named(field, b"database", 8):
        return read_part(field, &change.parts[0])
    if is_named(field, b"table", 5):
        return read_part(field, &change.parts[2])
    if is_named(field, b"isDdl", 5):
        return field.kind == JSON_NULL or (field.kind == JSON_BOOL and field.text[0] == b'f')
    if is_named(field, b"type", 4):
        if change.op or field.kind != JSON_STRING or field.size != 8:
            return False
        if not memcmp(field.text, b'"INSERT"', 8):
            change.op = b'c'
        elif not memcmp(field.text, b'"UPDATE"', 8):
            change.op = b'u'
        elif not memcmp(field.text, b'"DELETE"', 8):
            change.op = b'd'
        return change.op != 0
    return True


cdef int part_of_canal(const Field *field) noexcept nogil:
    if is_named(field, b"data", 4):
        return PART_AFTER
    if is_named(field, b"old", 3):
        return PART_BEFORE
    return PART_NAMES if is_named(field, b"pkNames", 7) else 0


cdef bint read_canal(Workspace *ws, InlineSchemas schemas, const char *p, const char *end, Change *change) except -1:
    """Read a message with its first row; False for a fallback."""
    cdef Field field
    cdef const char *member = NULL
    cdef uint32_t member_size = 0
    cdef int seen = 0, part
    cdef bint last = False
    if schemas.member is not None:
        member, member_size = PyBytes_AS_STRING(schemas.member), <uint32_t> PyBytes_GET_SIZE(schemas.member)
    ws.before.size = ws.after.size = 0
    p = open_object(skip_space(p, end), end, &last)
    while p != NULL and not last:
        p = scan_name(p, end, &field)
        if p == NULL:
            return False
        part = part_of_canal(&field)
        if seen & part:
            return False
        seen |= part
        if part == PART_NAMES:
            change.named = read_names(&p, end, change.names)
            if change.named < 0:
                return False
        elif part:
            if part == PART_AFTER:
                p = scan_rows(p, end, &ws.after, &change.data)
            else:
                p = scan_rows(p, end, &ws.before, &change.old)
        elif member != NULL and is_named(&field, member, member_size):
            if schemas.codec is not None:
                return False
            schemas.codec = schemas.cache.find(&p, end)
            if schemas.codec is None:
                return False
        else:
            p = scan_field(p, end, &field)
            if p == NULL or not read_canal_field(&field, change):
                return False
        if p == NULL:
            return False
        p = next_field(p, end, &last)
    if p == NULL or skip_space(p, end) != end or not change.parts[2].size or not change.data.count:
        return False
    if change.old.count and change.old.count != change.data.count:
        return False
    return (member == NULL) == (schemas.codec is None)
