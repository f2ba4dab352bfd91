# cython: language_level=3, boundscheck=False, wraparound=False
"""A message's key whose fields are columns of its rows; see key_columns.pxd."""

from libc.string cimport memcmp

from ingest.native.rows cimport scan_message_key
from ingest.native.scan cimport Field, Row, Text, is_named, key_text
from ingest.native.table cimport MAX_KEYS


cdef bint read_key(Text text, Row *row) noexcept nogil:
    """Scan a message's key, which is a plain object in its schema envelope or without; False for a fallback."""
    cdef int i, j
    if not scan_message_key(text, row) or row.count > MAX_KEYS:
        return False
    for i in range(row.count):
        # It may be an envelope with more in it, or a part of one
        if is_named(&row.fields[i], b"schema", 6) or is_named(&row.fields[i], b"payload", 7):
            return False
        for j in range(i):
            if is_named(&row.fields[i], row.fields[j].name, row.fields[j].name_size):
                return False
    return True


cdef bint is_same_value(const Field *field, const Field *other) noexcept nogil:
    """Return whether two values surely are the same in a key."""
    cdef Text text, other_text
    if field.size == other.size and not memcmp(field.text, other.text, field.size):
        return True
    if not key_text(field, &text) or not key_text(other, &other_text):
        return False
    return text.size == other_text.size and not memcmp(text.text, other_text.text, text.size)


cdef bint match_key(const Row *key, const Row *row, bint is_old, int *places) noexcept nogil:
    """Put in the places that the key's fields have in a row, or -1; False where both do not surely agree.

    `is_old`: the row may have another key.
    """
    cdef int i, k
    for k in range(key.count):
        places[k] = -1
        for i in range(row.count):
            if not is_named(&row.fields[i], key.fields[k].name, key.fields[k].name_size):
                continue
            if places[k] >= 0 or not (is_old or is_same_value(&key.fields[k], &row.fields[i])):
                return False
            places[k] = i
    return True
