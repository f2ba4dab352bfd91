# cython: language_level=3, boundscheck=False, wraparound=False
"""The reading of messages that are rows in CSV; see csv_messages.pxd. The reference is formats/csv/options.py.

A row is written anew, as an object, and then it is like any other row.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from ingest.native.codes cimport CSV_BOOLEAN, CSV_KINDS, CSV_NUMBER, CSV_TEXT
from ingest.native.messages cimport Change
from ingest.native.metadata cimport MAX_TEXT
from ingest.native.scan cimport MAX_ESCAPE, MAX_FIELDS, is_same, put_escaped, put_quoted_text, scan_number, scan_row
from ingest.native.table cimport text_of_bytes
from ingest.native.workspace cimport Workspace, room_for


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


# -- Fields ------------------------------------------------------------------------------------------------------------


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


# -- Messages ----------------------------------------------------------------------------------------------------------


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
