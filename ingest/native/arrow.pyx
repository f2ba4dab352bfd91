# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Columns that come in, as Arrow has them; see arrow.pxd."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport INT32_MAX, int32_t
from libc.string cimport memcpy


cdef bint is_whole(const ArrowColumn *column, Py_ssize_t size) noexcept nogil:
    """Return whether a column has the bytes of so many values."""
    cdef Py_ssize_t end, bits
    if not 0 <= column.first <= INT32_MAX or size > INT32_MAX:
        return False
    if not size:
        return True
    end = column.first + size
    bits = (end + 7) // 8
    if column.valid.there and column.valid.size < bits:
        return False
    if column.kind == b's':
        return column.ends.size >= (end + 1) * 4
    if column.ends.there:
        return False
    if column.kind == b'b':
        return column.data.size >= bits
    return column.data.size >= end * (4 if column.kind == b'i' else 8)


cdef class ArrowColumns:
    """So many columns, which keep their buffers as they are while this lives."""

    def __cinit__(self, Py_ssize_t count):
        self.columns = <ArrowColumn *> PyMem_Calloc(<size_t> count + 1, sizeof(ArrowColumn))
        self.held = <Py_buffer *> PyMem_Calloc(<size_t> count * 3 + 1, sizeof(Py_buffer))
        if not self.columns or not self.held:
            raise MemoryError
        self.count = count

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.held_count):
            PyBuffer_Release(&self.held[i])
        PyMem_Free(self.held)
        PyMem_Free(self.columns)

    cdef int hold(self, object given, ArrowBuffer *buffer) except -1:
        """Take a buffer, or None for none; raises TypeError."""
        cdef Py_buffer *held = &self.held[self.held_count]
        if given is None:
            return 0
        PyObject_GetBuffer(given, held, PyBUF_SIMPLE)
        self.held_count += 1
        buffer.there, buffer.bytes, buffer.size = True, <const char *> held.buf, held.len
        return 0

    cdef int open(self, Py_ssize_t at, char kind, object given, Py_ssize_t size) except -1:
        """Take a column of `size` values: (first, validity, ends, data), each of the last three bytes-like or None.

        Raises TypeError, and ValueError for one that is shorter than it says.
        """
        cdef ArrowColumn *column = &self.columns[at]
        if type(given) is not tuple or len(given) != 4:
            raise TypeError("a column is (first, validity, ends, data)")
        column.kind = kind
        column.first, valid, ends, data = given
        self.hold(valid, &column.valid)
        self.hold(ends, &column.ends)
        self.hold(data, &column.data)
        if not is_whole(column, size):
            raise ValueError("a column that is shorter than it says, or of another kind")
        return 0


cdef int text_at(const ArrowColumn *column, Py_ssize_t at, Text *text) except -1:
    """Put in a text of a column; raises ValueError for one that is not among its bytes."""
    cdef int32_t ends[2]
    memcpy(ends, column.ends.bytes + (column.first + at) * 4, sizeof(ends))
    if not 0 <= ends[0] <= ends[1] or ends[1] > column.data.size:
        raise ValueError("a column with a text that is not among its bytes")
    text.text, text.size = b"", 0
    if column.data.bytes != NULL:
        text.text, text.size = column.data.bytes + ends[0], <size_t> (ends[1] - ends[0])
    return 0
