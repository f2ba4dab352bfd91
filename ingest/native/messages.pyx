# cython: language_level=3, boundscheck=False, wraparound=False
"""The reading of a message; see messages.pxd. What is not plainly right is for the reference (formats/)."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from ingest.native.inline_schema cimport SchemaCache
from ingest.native.scan cimport (
    JSON_BOOL, JSON_NULL, JSON_STRING, Field, Row, Text, is_named, next_field, open_object, scan_field, scan_name,
    scan_row, scan_string, scan_value, skip_space,
)
from ingest.native.table cimport MAX_KEYS
from ingest.native.workspace cimport MAX_SOURCE, Workspace


cdef class Said:
    """The place where messages declare their columns' types: in a member of this name, by schemas that `read` makes."""

    def __cinit__(self, bytes member, read):
        self.member = member
        self.schemas = SchemaCache(read)


cdef bint read_part(const Field *field, Text *part) noexcept nogil:
    """Read a part of a table's id: null and empty are the same, and a text with escapes is a fallback."""
    if part.text != NULL or (field.kind != JSON_STRING and field.kind != JSON_NULL) or field.flags:
        return False
    if field.kind == JSON_NULL:
        part.text, part.size = b"", 0
    else:
        part.text, part.size = field.text + 1, field.size - 2
    return True


# -- Debezium ----------------------------------------------------------------------------------------------------------


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


cdef bint read_debezium(Workspace *ws, Said said, const char *p, const char *end, Change *change) except -1:
    """Read a message with a schema envelope, whose schema says what the types are, or without; False for a fallback."""
    cdef Field field
    cdef int seen = 0, part
    cdef bint last = False
    cdef const char *name
    p = skip_space(p, end)
    name = open_object(p, end, &last)
    if name == NULL or last:
        return False
    if end - name < 9 or (memcmp(name, b'"schema"', 8) and memcmp(name, b'"payload"', 9)):
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
            said.found = said.schemas.find(&p, end)
            if said.found is None:
                return False
        if p == NULL:
            return False
        p = next_field(p, end, &last)
        if p == NULL:
            return False
    return seen & SEEN_PAYLOAD and skip_space(p, end) == end


# -- Canal -------------------------------------------------------------------------------------------------------------


cdef int read_names(const char **at, const char *end, Text *names) noexcept nogil:
    """Read an array of strings without escapes, or null; return how many, or -1 for a fallback."""
    cdef const char *p = at[0]
    cdef int count = 0
    cdef uint8_t kind, flags = 0
    if p < end and p[0] == b'n':
        at[0] = scan_value(p, end, 1, &kind, &flags)
        return 0 if at[0] != NULL else -1
    if p >= end or p[0] != b'[':
        return -1
    p = skip_space(p + 1, end)
    while p < end and p[0] == b'"':
        if count == MAX_KEYS:
            return -1
        p += 1
        names[count].text = p
        p = scan_string(p, end, &flags)
        if p == NULL or flags:
            return -1
        names[count].size = <size_t> (p - names[count].text)
        count += 1
        p = skip_space(p + 1, end)
        if p >= end or p[0] != b',':
            break
        p = skip_space(p + 1, end)
        if p >= end or p[0] != b'"':
            return -1
    if p >= end or p[0] != b']':
        return -1
    at[0] = p + 1
    return count


cdef const char *scan_only_row(const char *p, const char *end, Row *row) noexcept nogil:
    """Scan one row in an array, or null, or an array of null: more rows are a fallback."""
    cdef uint8_t kind, flags = 0
    row.size = 0
    if p < end and p[0] == b'[':
        p = skip_space(p + 1, end)
        p = scan_value(p, end, 1, &kind, &flags) if p < end and p[0] == b'n' else scan_row(p, end, row, NULL)
        if p == NULL:
            return NULL
        p = skip_space(p, end)
        return p + 1 if p < end and p[0] == b']' else NULL
    return scan_value(p, end, 1, &kind, &flags) if p < end and p[0] == b'n' else NULL


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


cdef enum:
    SEEN_DATA = 1
    SEEN_OLD = 2
    SEEN_NAMES = 4


cdef int part_of_canal(const Field *field) noexcept nogil:
    if is_named(field, b"data", 4):
        return SEEN_DATA
    if is_named(field, b"old", 3):
        return SEEN_OLD
    return SEEN_NAMES if is_named(field, b"pkNames", 7) else 0


cdef bint read_canal(Workspace *ws, Said said, const char *p, const char *end, Change *change) except -1:
    """Read a message of one row; False for a fallback."""
    cdef Field field
    cdef const char *member = NULL
    cdef uint32_t member_size = 0
    cdef int seen = 0, part
    cdef bint last = False
    if said.member is not None:
        member, member_size = PyBytes_AS_STRING(said.member), <uint32_t> PyBytes_GET_SIZE(said.member)
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
        if part == SEEN_NAMES:
            change.named = read_names(&p, end, change.names)
            if change.named < 0:
                return False
        elif part:
            p = scan_only_row(p, end, &ws.after if part == SEEN_DATA else &ws.before)
        elif member != NULL and is_named(&field, member, member_size):
            if said.found is not None:
                return False
            said.found = said.schemas.find(&p, end)
            if said.found is None:
                return False
        else:
            p = scan_field(p, end, &field)
            if p == NULL or not read_canal_field(&field, change):
                return False
        if p == NULL:
            return False
        p = next_field(p, end, &last)
    if p == NULL or skip_space(p, end) != end or not change.parts[2].size:
        return False
    return (member == NULL) == (said.found is None)


# -- Rows --------------------------------------------------------------------------------------------------------------


cdef bint read_plain(Workspace *ws, const char *p, const char *end, Change *change) noexcept nogil:
    """Read a value that is a row, which is an insert; False for a fallback."""
    change.op = b'c'
    ws.before.size = 0
    p = scan_row(skip_space(p, end), end, &ws.after, NULL)
    return p != NULL and skip_space(p, end) == end
