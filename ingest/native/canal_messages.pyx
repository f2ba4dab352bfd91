# cython: language_level=3, boundscheck=False, wraparound=False
"""The reading of Canal's messages, Maxwell's and GoldenGate's; see canal_messages.pxd.

The references are formats/canal, formats/maxwell.py and formats/ogg.py.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp

from ingest.native.change cimport MAX_KEYS, Change, RowList, Workspace, read_part
from ingest.native.message_schemas cimport SchemaCache
from ingest.native.scan cimport (
    JSON_BOOL, JSON_NULL, JSON_STRING, Field, Row, Text, is_named, is_utf8, next_field, open_object, scan_field,
    scan_name, scan_row, scan_string, scan_value, skip_space,
)


# -- Members -----------------------------------------------------------------------------------------------------------


cdef enum:                    # members of a message that are no values: each may be there once
    PART_BEFORE = 1
    PART_AFTER = 2
    PART_NAMES = 4            # of the primary key's columns

ctypedef int (*PartOf)(const Field *) noexcept nogil
ctypedef bint (*ReadMember)(const Field *, Change *) noexcept nogil


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


# -- Canal's messages --------------------------------------------------------------------------------------------------


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


cdef bint read_canal(Workspace *ws, SchemaCache schemas, const char *p, const char *end, Change *change) except -1:
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
            schemas.codec = schemas.find(&p, end)
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


# -- Maxwell's messages ------------------------------------------------------------------------------------------------


cdef enum:
    PREFIX = 3                # characters of `pk.`


cdef inline int part_of_maxwell(const Field *field) noexcept nogil:
    if is_named(field, b"data", 4):
        return PART_AFTER
    if is_named(field, b"old", 3):
        return PART_BEFORE
    return PART_NAMES if is_named(field, b"primary_key_columns", 19) else 0


cdef bint is_text(const Field *field, const char *text, uint32_t size) noexcept nogil:
    """Return whether a field's value is this text, which has its quotes."""
    return field.size == size and not memcmp(field.text, text, size)


cdef inline bint read_maxwell_field(const Field *field, Change *change) noexcept nogil:
    """Read what a member says that is neither a row nor a list; False for a fallback."""
    if is_named(field, b"database", 8):
        return read_part(field, &change.parts[0])
    if is_named(field, b"table", 5):
        return read_part(field, &change.parts[2])
    if is_named(field, b"type", 4):
        if change.op:
            return False
        if is_text(field, b'"insert"', 8) or is_text(field, b'"bootstrap-insert"', 18):
            change.op = b'c'
        elif is_text(field, b'"update"', 8):
            change.op = b'u'
        elif is_text(field, b'"delete"', 8):
            change.op = b'd'
        return change.op != 0
    return True


cdef bint read_key_object(const char *p, const char *end, Row *row, Change *change) noexcept nogil:
    """Read the names of `{"database":"shop","table":"orders","pk.id":1}`; False for a fallback."""
    cdef const Field *field
    cdef bint database = False, table = False
    cdef int i
    p = scan_row(p, end, row, NULL)
    if p == NULL or skip_space(p, end) != end:
        return False
    for i in range(row.count):
        field = &row.fields[i]
        database |= is_named(field, b"database", 8)
        table |= is_named(field, b"table", 5)
        if field.name_size < PREFIX or memcmp(field.name, b"pk.", PREFIX):
            continue
        if change.named == MAX_KEYS:
            return False
        change.names[change.named].text = field.name + PREFIX
        change.names[change.named].size = field.name_size - PREFIX
        change.named += 1
    if not database or not table:
        change.named = 0
    return True


cdef const char *scan_part(const char *p, const char *end) noexcept nogil:
    """Scan a text of an array and the comma behind it, to where the next value begins; NULL for a fallback."""
    cdef uint8_t kind, flags = 0
    if p >= end or p[0] != b'"':
        return NULL
    p = scan_value(p, end, 1, &kind, &flags)
    if p == NULL:
        return NULL
    p = skip_space(p, end)
    return skip_space(p + 1, end) if p < end and p[0] == b',' else NULL


cdef bint read_key_array(const char *p, const char *end, Row *row, Change *change) noexcept nogil:
    """Read the names of `["shop","orders",[{"id":1}]]`; False for a fallback."""
    p = scan_part(skip_space(p + 1, end), end)
    if p != NULL:
        p = scan_part(p, end)
    if p == NULL or p >= end or p[0] != b'[':
        return False
    p = skip_space(p + 1, end)
    while p < end and p[0] == b'{':
        p = scan_row(p, end, row, NULL)
        if p == NULL or row.count != 1 or change.named == MAX_KEYS:
            return False
        change.names[change.named].text = row.fields[0].name
        change.names[change.named].size = row.fields[0].name_size
        change.named += 1
        p = skip_space(p, end)
        if p >= end or p[0] != b',':
            break
        p = skip_space(p + 1, end)
        if p >= end or p[0] != b'{':
            return False
    if not change.named or p >= end or p[0] != b']':
        return False
    p = skip_space(p + 1, end)
    return p < end and p[0] == b']' and skip_space(p + 1, end) == end


cdef int small(int character) noexcept nogil:
    return character | 32 if b'A' <= character <= b'Z' else character


cdef bint is_in_small(const Text *name, const Field *field) noexcept nogil:
    """Return whether a name is that of a field in small letters."""
    cdef size_t i
    if name.size != field.name_size:
        return False
    for i in range(name.size):
        if name.text[i] != small(field.name[i]):
            return False
    return True


cdef bint is_ascii(const char *text, size_t size) noexcept nogil:
    cdef size_t i
    for i in range(size):
        if <uint8_t> text[i] >= 128:
            return False
    return True


cdef bint find_column(Text *name, const Row *row) noexcept nogil:
    """Put in the name of the one column that a name means; False for a fallback."""
    cdef const Field *field
    cdef const Field *found = NULL
    cdef int i
    for i in range(row.count):
        if is_named(&row.fields[i], name.text, <uint32_t> name.size):
            return True
    for i in range(row.count):
        field = &row.fields[i]
        # Letters that are not in ASCII may be small letters of it in the reference's eyes
        if not is_ascii(field.name, field.name_size):
            return False
        if is_in_small(name, field):
            if found != NULL:
                return False
            found = field
    if found == NULL:
        return False
    name.text, name.size = found.name, found.name_size
    return True


cdef bint read_key(Workspace *ws, const Text *key, Change *change) noexcept nogil:
    """Read the columns of the primary key that a record's key tells; False for a fallback."""
    cdef const char *end = key.text + key.size
    cdef const char *p
    cdef Row *row = &ws.message_key  # not in use yet
    cdef int i
    if key.text == NULL:
        return True
    p = skip_space(key.text, end)
    if p >= end or not is_utf8(key.text, key.size):
        return False
    if p[0] == b'{':
        if not read_key_object(p, end, row, change):
            return False
    elif p[0] != b'[' or not read_key_array(p, end, row, change):
        return False
    for i in range(change.named):
        if not find_column(&change.names[i], &ws.after):
            return False
    return True


cdef bint read_maxwell(Workspace *ws, const char *p, const char *end, const Text *key, Change *change) noexcept nogil:
    """Read a message; `key` is the record's. False for a fallback."""
    if not read_members(ws, p, end, change, part_of_maxwell, read_maxwell_field) or not ws.after.size:
        return False
    return change.named > 0 or read_key(ws, key, change)


# -- GoldenGate's messages ---------------------------------------------------------------------------------------------


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
