# cython: language_level=3, boundscheck=False, wraparound=False
"""The reading of Maxwell's messages; see maxwell_messages.pxd. The reference is formats/maxwell.py."""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp

from ingest.native.messages cimport PART_AFTER, PART_BEFORE, PART_NAMES, Change, read_members, read_part
from ingest.native.scan cimport Field, Row, Text, is_named, is_utf8, scan_row, scan_value, skip_space
from ingest.native.table cimport MAX_KEYS
from ingest.native.workspace cimport Workspace


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


# -- The primary key, by a record's key --------------------------------------------------------------------------------


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


# -- Messages ----------------------------------------------------------------------------------------------------------


cdef bint read_maxwell(Workspace *ws, const char *p, const char *end, const Text *key, Change *change) noexcept nogil:
    """Read a message; `key` is the record's. False for a fallback."""
    if not read_members(ws, p, end, change, part_of_maxwell, read_maxwell_field) or not ws.after.size:
        return False
    return change.named > 0 or read_key(ws, key, change)
