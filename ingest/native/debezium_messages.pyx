# cython: language_level=3, boundscheck=False, wraparound=False
"""The reading of Debezium's messages; see debezium_messages.pxd. The reference is formats/debezium/options.py."""

from libc.string cimport memcmp, memcpy

from ingest.native.change cimport MAX_SOURCE, Change, Workspace, read_part
from ingest.native.scan cimport (
    JSON_STRING, Field, Row, is_named, next_field, open_object, scan_field, scan_name, scan_row, skip_space,
)


cdef void keep_source(Workspace *ws, const Row *row) noexcept nogil:
    """Keep a source, for those that follow."""
    cdef Field *field
    cdef int i
    if row.size > MAX_SOURCE:
        return
    memcpy(ws.source_text, row.text, <size_t> row.size)
    ws.source.end = ws.source_text + row.size
    ws.source.count = row.count
    for i in range(row.count):
        field = &ws.source.fields[i]
        field[0] = row.fields[i]
        field.name = ws.source_text + (field.name - row.text)
        field.text = ws.source_text + (field.text - row.text)


cdef const char *read_source(Workspace *ws, const char *p, const char *end, Change *change) noexcept nogil:
    """Read which table a change is of, and return where that ends; NULL for a fallback."""
    cdef Row *row = &ws.message_key  # not in use yet
    cdef const Field *field
    cdef int i, part
    p = scan_row(p, end, row, &ws.source)
    if p == NULL:
        return NULL
    if row.alike * 2 < row.count:
        keep_source(ws, row)
    for i in range(row.count):
        field = &row.fields[i]
        if is_named(field, b"db", 2):
            part = 0
        elif is_named(field, b"schema", 6):
            part = 1
        elif is_named(field, b"table", 5):
            part = 2
        else:
            continue
        if not read_part(field, &change.parts[part]):
            return NULL
    return p


cdef enum:
    SEEN_BEFORE = 1
    SEEN_AFTER = 2
    SEEN_SOURCE = 4


cdef int part_of_payload(const Field *field) noexcept nogil:
    if is_named(field, b"before", 6):
        return SEEN_BEFORE
    if is_named(field, b"after", 5):
        return SEEN_AFTER
    return SEEN_SOURCE if is_named(field, b"source", 6) else 0


cdef const char *read_op(const char *p, const char *end, Field *field, char *op) noexcept nogil:
    """Scan a field of a payload that is no image, which may be what happened."""
    p = scan_field(p, end, field)
    if is_named(field, b"op", 2):
        if p == NULL or op[0] or field.kind != JSON_STRING or field.size != 3:
            return NULL
        op[0] = field.text[1]
    return p


cdef const char *read_payload(Workspace *ws, const char *p, const char *end, Change *change) noexcept nogil:
    """Read an envelope: what happened, the images, the table. Returns where it ends, or NULL for a fallback."""
    cdef Field field
    cdef int seen = 0, part
    cdef bint last = False
    ws.before.size = ws.after.size = 0
    p = open_object(p, end, &last)
    while p != NULL and not last:
        p = scan_name(p, end, &field)
        if p == NULL or p >= end or is_named(&field, b"payload", 7):
            return NULL
        part = part_of_payload(&field)
        if seen & part:
            return NULL
        seen |= part
        if part == SEEN_SOURCE:
            p = read_source(ws, p, end, change)
        elif part and p[0] != b'n':
            if part == SEEN_BEFORE:
                p = scan_row(p, end, &ws.before, NULL)
            else:
                p = scan_row(p, end, &ws.after, &ws.before if ws.before.size else NULL)
        else:
            p = read_op(p, end, &field, &change.op)
        if p == NULL:
            return NULL
        p = next_field(p, end, &last)
    return p if seen & SEEN_SOURCE and change.parts[2].size else NULL


cdef enum:
    SEEN_SCHEMA = 1
    SEEN_PAYLOAD = 2


cdef bint read_debezium(Workspace *ws, SchemaCache schemas, const char *p, const char *end, Change *change) except -1:
    """Read a message with a schema envelope, whose schema says what the types are, or without; False for a fallback.

    Where the schema is known already, there is no envelope.
    """
    cdef Field field
    cdef int seen = 0, part
    cdef bint last = False
    cdef const char *name
    p = skip_space(p, end)
    name = open_object(p, end, &last)
    if name == NULL or last:
        return False
    if schemas.codec is not None or end - name < 9 or (memcmp(name, b'"schema"', 8) and memcmp(name, b'"payload"', 9)):
        p = read_payload(ws, p, end, change)
        return p != NULL and skip_space(p, end) == end
    p = name
    while not last:
        p = scan_name(p, end, &field)
        if p == NULL:
            return False
        part = SEEN_SCHEMA if is_named(&field, b"schema", 6) else SEEN_PAYLOAD if is_named(&field, b"payload", 7) else 0
        if not part or seen & part or p >= end:
            return False
        seen |= part
        if part == SEEN_PAYLOAD:
            p = read_payload(ws, p, end, change)
        elif p[0] == b'n':
            p = scan_field(p, end, &field)
        else:
            schemas.codec = schemas.find(&p, end)
            if schemas.codec is None:
                return False
        if p == NULL:
            return False
        p = next_field(p, end, &last)
        if p == NULL:
            return False
    return seen & SEEN_PAYLOAD and skip_space(p, end) == end
