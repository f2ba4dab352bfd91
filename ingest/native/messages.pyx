# cython: language_level=3, boundscheck=False, wraparound=False
"""The reading that messages of all forms share; see messages.pxd."""

from libc.stdint cimport uint8_t

from ingest.native.inline_schema cimport SchemaCache
from ingest.native.scan cimport Text, scan_string, scan_value, skip_space
from ingest.native.table cimport MAX_KEYS


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


cdef class InlineSchemas:
    """The schemas that messages have for their rows: in a member of this name, as `read` makes codecs of their texts."""

    def __cinit__(self, bytes member, read):
        self.member = member
        self.cache = SchemaCache(read)
