# cython: language_level=3, boundscheck=False, wraparound=False
"""Messages in Avro, as JSON texts; see avro_texts.pxd."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcmp, memcpy

from ingest.formats.avro.native.reader cimport AvroReader
from ingest.native.scan cimport Text
from ingest.native.workspace cimport Room, room_for

cdef enum:
    MAX_READERS = 64          # the process keeps more, by their weight


cdef class AvroTexts:
    """The readers of messages by their heads, from an `AvroSpec`."""

    def __cinit__(self, spec):
        if not 0 <= spec.head <= <int> MAX_HEAD:
            raise ValueError("a head that is too long")
        self.head_size, self.find, self.readers = spec.head, spec.find, {}

    cdef AvroReader reader_of(self, const Text *message):
        """Return the reader of a message's schema; None for a fallback. Raises what `find` raises."""
        if <Py_ssize_t> message.size < self.head_size:
            return None
        if self.last is not None and not memcmp(self.head, message.text, <size_t> self.head_size):
            return self.last
        head = PyBytes_FromStringAndSize(message.text, self.head_size)
        found = self.readers.get(head)
        if found is None:
            found = self.find(head)
            if type(found) is not AvroReader:  # it is not known yet, or there is none: the reference finds out
                return None
            if len(self.readers) == MAX_READERS:
                self.readers.clear()
            self.readers[head] = found
        memcpy(self.head, message.text, <size_t> self.head_size)
        self.last = <AvroReader> found
        return self.last

    cdef bint read(self, Text *message, Room *room) except -1:
        """Let a message be its JSON text, which is written in `room`; False for a fallback."""
        cdef AvroReader reader = self.reader_of(message)
        cdef Text made
        cdef char *to
        if reader is None:
            return False
        if not reader.read_text(message.text, <Py_ssize_t> message.size, self.head_size, &made):
            return False
        try:
            to = room_for(room, made.size)
            memcpy(to, made.text, made.size)
        finally:
            reader.leave()
        message.text, message.size = to, made.size
        return True
