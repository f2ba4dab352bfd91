# cython: language_level=3, boundscheck=False, wraparound=False
"""The reading of Debezium's messages, and of those that are rows in JSON or CSV; see messages.pxd.

The references are formats/debezium/options.py, formats/json and formats/csv. A row in CSV is written anew, as an
object, and then it is like any other row.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from ingest.native.change cimport (
    ID_PARTS, MAX_SOURCE, MAX_TEXT, Change, Workspace, read_part, room_for, text_of_bytes,
)
from ingest.native.message_schemas cimport SchemaCache
from ingest.native.codes cimport CSV_BOOLEAN, CSV_KINDS, CSV_NUMBER, CSV_TEXT
from ingest.native.scan cimport (
    HAS_ESCAPES, JSON_ARRAY, JSON_NULL, JSON_OBJECT, JSON_STRING, MAX_ESCAPE, MAX_FIELDS, Field, Row, Text, is_named,
    is_same, next_field, open_object, put_escaped, put_quoted_text, scan_field, scan_name, scan_number, scan_row,
    skip_space,
)


# -- Debezium ------------------------------------------------------------------------------------------------------------


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


cdef enum:
    MAX_NESTED = 32           # objects within objects that are flattened
    MAX_PREFIX = 2048         # bytes of their names


# -- Rows in JSON ------------------------------------------------------------------------------------------------------


cdef class RowForm:
    """The options that rows are read by: whether they are flattened, and the fields that say which table they are of."""

    def __cinit__(self, bint flatten, tuple names):
        if len(names) > ID_PARTS:
            raise ValueError("a table's id has more parts than there are")
        self.flatten, self.spec = flatten, names
        for name in names:
            text_of_bytes(name, &self.names[self.fields])
            self.fields += 1


cdef struct Flattening:       # a flat row that is being written
    Row *row
    char *to
    const char *limit
    char prefix[MAX_PREFIX]
    size_t prefix_size
    Text names[MAX_FIELDS]    # of members that were passed in the objects that are open
    int open


cdef bint is_nested(const char *p, const char *end) noexcept nogil:
    """Return whether there is an object with members: an empty one is a value."""
    if p >= end or p[0] != b'{':
        return False
    p = skip_space(p + 1, end)
    return p < end and p[0] != b'}'


cdef bint pass_name(Flattening *flat, const Field *field, int first, bint compare) noexcept nogil:
    """Note a member's name; False for a fallback: too many, or with `compare` one that the object has already."""
    cdef int i
    if flat.open == MAX_FIELDS:
        return False
    if compare:
        for i in range(first, flat.open):
            if is_named(field, flat.names[i].text, <uint32_t> flat.names[i].size):
                return False
    flat.names[flat.open].text, flat.names[flat.open].size = field.name, field.name_size
    flat.open += 1
    return True


cdef bint put_column(Flattening *flat, Field *field) noexcept nogil:
    """Put a value behind those that are there, with its object's name before its own; False for a fallback."""
    cdef Row *row = flat.row
    cdef char *to = flat.to
    cdef size_t size = flat.prefix_size + field.name_size
    if row.count == MAX_FIELDS or size + field.size + 8 > <size_t> (flat.limit - to):
        return False
    to[0], to[1] = b',' if row.count else b'{', b'"'
    to += 2
    memcpy(to, flat.prefix, flat.prefix_size)
    memcpy(to + flat.prefix_size, field.name, field.name_size)
    field.name, field.name_size = to, <uint32_t> size
    to += size
    to[0], to[1] = b'"', b':'
    to += 2
    memcpy(to, field.text, field.size)
    field.text = to
    flat.to = to + field.size
    row.fields[row.count] = field[0]
    row.count += 1
    return True


cdef bint put_prefix(Flattening *flat, const Field *field) noexcept nogil:
    """Put an object's name before those of its members; False for a fallback."""
    if flat.prefix_size + field.name_size + 1 > MAX_PREFIX:
        return False
    memcpy(flat.prefix + flat.prefix_size, field.name, field.name_size)
    flat.prefix_size += field.name_size + 1
    flat.prefix[flat.prefix_size - 1] = b'.'
    return True


cdef const char *flatten(Flattening *flat, const char *p, const char *end, int depth) noexcept nogil:
    """Put an object's members in the flat row, those of objects within it as `a.b`. NULL for a fallback.

    Two values of one column are a fallback where the row is checked. But the reference takes only the last one of
    members that have the same name, so none of them may be an object.
    """
    cdef Field field
    cdef size_t prefix_size = flat.prefix_size
    cdef int first = flat.open
    cdef bint last = False, nested, compare = False
    if depth > MAX_NESTED:
        return NULL
    p = open_object(p, end, &last)
    while p != NULL and not last:
        p = scan_name(p, end, &field)
        if p == NULL:
            return NULL
        nested = is_nested(p, end)
        compare |= nested
        if not pass_name(flat, &field, first, compare):
            return NULL
        if nested:
            if not put_prefix(flat, &field):
                return NULL
            p = flatten(flat, p, end, depth + 1)
            flat.prefix_size = prefix_size
        else:
            p = scan_field(p, end, &field)
            if p == NULL or not put_column(flat, &field):
                return NULL
        if p == NULL:
            return NULL
        p = next_field(p, end, &last)
    flat.open = first
    return p


cdef const char *flatten_row(Row *row, const char *p, const char *end, char *to, size_t room) noexcept nogil:
    """Scan an object and write it as a flat row in `room` bytes. Returns where it ends; NULL for a fallback."""
    cdef Flattening flat
    flat.row, flat.to, flat.limit = row, to, to + room
    flat.prefix_size, flat.open = 0, 0
    row.text, row.count, row.alike = to, 0, 0
    p = flatten(&flat, p, end, 0)
    if p == NULL:
        return NULL
    if not row.count:
        flat.to[0] = b'{'
        flat.to += 1
    flat.to[0] = b'}'
    row.end = flat.to + 1
    row.size = row.end - row.text
    return p


cdef bint read_table_fields(RowForm form, const Row *row, Change *change) noexcept nogil:
    """Read which table a row is of from its fields; False for a fallback: one of them is not there, or twice."""
    cdef const Field *field
    cdef Text *part
    cdef bint text
    cdef int i, k
    for i in range(row.count):
        field = &row.fields[i]
        for k in range(form.fields):
            if not is_named(field, form.names[k].text, <uint32_t> form.names[k].size):
                continue
            part = &change.parts[k]
            if part.text != NULL or field.flags & HAS_ESCAPES:
                return False
            if field.kind == JSON_NULL or field.kind == JSON_OBJECT or field.kind == JSON_ARRAY:
                return False
            text = field.kind == JSON_STRING
            part.text, part.size = field.text + text, field.size - 2 * text
    for k in range(form.fields):
        if not change.parts[k].size:
            return False
    return True


cdef bint read_row_message(Workspace *ws, RowForm form, const char *p, const char *end, Change *change) except -1:
    """Read a value that is a row, which is an insert, or none, which is a delete by its key; False for a fallback."""
    cdef size_t room
    cdef char *to
    change.op = b'd' if p == NULL else b'c'
    change.id_parts = form.fields
    ws.before.size = ws.after.size = 0
    if p == NULL:
        return True
    p = skip_space(p, end)
    if form.flatten:
        room = <size_t> (end - p) * 4 + 4096  # most names are longer then
        to = room_for(&ws.flattened, room)
        change.composed = True
        p = flatten_row(&ws.after, p, end, to, room)
    else:
        p = scan_row(p, end, &ws.after, NULL)
    if p == NULL or skip_space(p, end) != end:
        return False
    return read_table_fields(form, &ws.after, change)


# -- Rows in CSV -------------------------------------------------------------------------------------------------------


cdef const char *BOM = b"\xef\xbb\xbf"


cdef class CsvForm:
    """The fields of rows, from a `CsvSpec`; None: no message is read here."""

    def __cinit__(self, spec):
        self.count, self.kept = -1, []
        if spec is None:
            return
        if len(spec.columns) > MAX_FIELDS:
            raise ValueError("more columns than a row has")
        self.delimiter, self.quote, self.count = ord(spec.delimiter), ord(spec.quote), 0
        for name, kind in spec.columns:
            if not 0 <= kind < <int> CSV_KINDS:
                raise ValueError("no such kind of a field")
            begins = b'%b"%b":' % (b"," if self.count else b"{", name)
            self.kept.append(begins)
            text_of_bytes(begins, &self.begins[self.count])
            self.kinds[self.count] = kind
            self.room += self.begins[self.count].size + 4
            self.count += 1


cdef const char *put_quoted(CsvForm form, const char *p, const char *end, char **to) noexcept nogil:
    """Write a field that stands in quotes as a text, and return where it ends; NULL for a fallback."""
    cdef char *out = to[0]
    out[0] = b'"'
    out += 1
    p += 1
    while True:
        if p >= end:
            return NULL
        if p[0] == form.quote:
            if end - p < 2 or p[1] != form.quote:
                break
            p += 1
        out = put_escaped(out, <uint8_t> p[0])
        p += 1
    out[0] = b'"'
    to[0] = out + 1
    return p + 1


cdef const char *end_of_plain(CsvForm form, const char *p, const char *end) noexcept nogil:
    """Return where a field without quotes ends."""
    while p < end and p[0] != form.delimiter and p[0] != b'\n' and p[0] != b'\r':
        p += 1
    return p


cdef bint put_typed(int kind, const char *p, const char *end, char **to) noexcept nogil:
    """Write a number or a boolean as it is; False for a fallback."""
    cdef size_t size = <size_t> (end - p)
    cdef uint8_t found = 0, flags = 0
    if kind == CSV_NUMBER:
        if scan_number(p, end, &found, &flags) != end:
            return False
    elif kind != CSV_BOOLEAN or not ((size == 4 and is_same(p, b"true", 4)) or (size == 5 and is_same(p, b"false", 5))):
        return False
    memcpy(to[0], p, size)
    to[0] += size
    return True


cdef const char *put_field(CsvForm form, int kind, const char *p, const char *end, char **to) noexcept nogil:
    """Write a field as JSON has its value, and return where it ends; NULL for a fallback."""
    cdef const char *stop
    if p < end and form.quote and p[0] == form.quote:
        return put_quoted(form, p, end, to) if kind == CSV_TEXT else NULL
    stop = end_of_plain(form, p, end)
    if stop == p:
        memcpy(to[0], b"null", 4)
        to[0] += 4
        return stop
    if kind != CSV_TEXT:
        return stop if put_typed(kind, p, stop, to) else NULL
    to[0] = put_quoted_text(to[0], p, <size_t> (stop - p))
    return stop


cdef const char *pass_line_end(const char *p, const char *end) noexcept nogil:
    """Return the place behind one end of a line, if there is one."""
    if p < end and p[0] == b'\r':
        p += 1
    return p + 1 if p < end and p[0] == b'\n' else p


cdef bint read_csv_message(Workspace *ws, CsvForm form, const char *p, const char *end, Change *change) except -1:
    """Read a value that is a row, which is an insert, or none, which is a delete by its key; False for a fallback."""
    cdef char *start
    cdef char *to
    cdef int i
    change.op = b'd' if p == NULL else b'c'
    change.id_parts = 0
    ws.before.size = ws.after.size = 0
    if p == NULL:
        return True
    if form.count <= 0 or end - p > <Py_ssize_t> MAX_TEXT:
        return False
    if end - p >= 3 and is_same(p, BOM, 3):  # no part of a field: the reference takes it off
        return False
    start = to = room_for(&ws.flattened, <size_t> (end - p) * <size_t> MAX_ESCAPE + form.room + 2 * <size_t> form.count + 2)
    for i in range(form.count):
        if i:
            if p >= end or p[0] != form.delimiter:
                return False
            p += 1
        memcpy(to, form.begins[i].text, form.begins[i].size)
        to += form.begins[i].size
        p = put_field(form, form.kinds[i], p, end, &to)
        if p == NULL:
            return False
    if pass_line_end(p, end) != end:
        return False
    to[0] = b'}'
    change.composed = True
    return scan_row(start, to + 1, &ws.after, NULL) == to + 1
