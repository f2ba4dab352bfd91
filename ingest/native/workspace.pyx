# cython: language_level=3
"""The memory that is needed while messages are read; see workspace.pxd."""

from cpython.mem cimport PyMem_Free, PyMem_Realloc

cdef enum:
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
