# cython: language_level=3, boundscheck=False, wraparound=False
"""The reading of messages that are rows; see row_messages.pxd. The reference is formats/json.py."""

from ingest.native.messages cimport Change
from ingest.native.scan cimport scan_row, skip_space
from ingest.native.workspace cimport Workspace


cdef bint read_row_message(Workspace *ws, const char *p, const char *end, Change *change) noexcept nogil:
    """Read a value that is a row, which is an insert; False for a fallback."""
    change.op = b'c'
    change.id_parts = 0
    ws.before.size = 0
    p = scan_row(skip_space(p, end), end, &ws.after, NULL)
    return p != NULL and skip_space(p, end) == end
