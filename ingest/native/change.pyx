# cython: language_level=3
"""A change that was read of a message, and the memory that is needed meanwhile; see change.pxd."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc

from ingest.native.scan cimport Text


cdef enum:
    MAX_NAME = 1 << 24        # bytes of a column's name
    MAX_ROOM = 16 << 20       # most bytes that are kept for what comes next

cdef Workspace shared
cdef bint busy = False


cdef Workspace *enter() except NULL:
    """Begin to use the workspace; raises RuntimeError where it is in use.

    What uses it may call Python, which may call back, or let another thread run.
    """
    global busy
    if busy:
        raise RuntimeError(
            "the native code is running already: it was entered again from what it calls, or from another thread"
        )
    busy = True
    return &shared


cdef void leave() noexcept:
    """Let others use it; room that one large message needed is given back."""
    global busy
    trim(&shared.value_text)
    trim(&shared.key_text)
    trim(&shared.columns_text)
    trim(&shared.made)
    trim(&shared.flattened)
    trim(&shared.extended)
    trim(&shared.results)
    trim(&shared.row)
    trim(&shared.after_text)
    trim(&shared.before_text)
    busy = False


cdef void trim(Room *room) noexcept:
    if room.size > MAX_ROOM:
        PyMem_Free(room.bytes)
        room.bytes = NULL
        room.size = 0


cdef char *room_for(Room *room, size_t size) except NULL:
    """Return room for so many bytes, which begins with what was in it; raises MemoryError."""
    if size <= room.size and room.bytes:
        return room.bytes
    more = <char *> PyMem_Realloc(room.bytes, size * 2 + 4096)
    if not more:
        raise MemoryError
    room.bytes = more
    room.size = size * 2 + 4096
    return more


cdef int text_of_bytes(object given, Text *text) except -1:
    """Put in `text` the bytes of an object, which has to be kept; raises TypeError, and ValueError for too many."""
    if type(given) is not bytes:
        raise TypeError(f"bytes are needed, not {type(given).__name__}")
    if PyBytes_GET_SIZE(given) > MAX_NAME:
        raise ValueError("a column with a name that is too long")
    text.text = PyBytes_AS_STRING(given)
    text.size = <size_t> PyBytes_GET_SIZE(given)
    return 0
