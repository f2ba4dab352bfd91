# cython: language_level=3, boundscheck=False, wraparound=False
"""A record that is an object of Python, as native code has records; see object_record.pxd."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from ingest.native.metadata cimport MAX_HEADERS, WANTED_HEADERS, WANTED_NOTHING
from ingest.native.records cimport Header

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL


cdef const char *text_of(object text, size_t *size) except NULL:
    """Return a text's bytes, which it owns; raises UnicodeEncodeError for half a surrogate pair."""
    cdef Py_ssize_t found = 0
    cdef const char *bytes_ = PyUnicode_AsUTF8AndSize(text, &found)
    size[0] = <size_t> found
    return bytes_


cdef const char *bytes_of(object given, size_t *size) noexcept:
    """Return where bytes are, or NULL for None."""
    size[0] = 0 if given is None else <size_t> PyBytes_GET_SIZE(given)
    return NULL if given is None else PyBytes_AS_STRING(given)


cdef bint is_bytes(object given) noexcept:
    return given is None or type(given) is bytes


cdef class ObjectRecord:
    """Takes one record after the other: `raw` is the last one, whose bytes are there until the next one is read."""

    cdef bint read(self, message, int wanted) except -1:
        """Read a record; False for a fallback. `wanted`: a WantedMetadata. Raises what the record's methods raise."""
        key, value = message.key(), message.value()
        if not is_bytes(key) or not is_bytes(value):
            return False
        self.value, self.kept = value, [key]
        self.raw.key = bytes_of(key, &self.raw.key_size)
        self.raw.value = bytes_of(value, &self.raw.value_size)
        self.raw.offset = -1
        self.raw.metadata = NULL
        return wanted == WANTED_NOTHING or self.read_metadata(message, wanted == WANTED_HEADERS)

    cdef bint read_metadata(self, message, bint with_headers) except -1:
        origin = getattr(message, "origin", message)  # a dead letter's position is not its own
        topic, epoch = message.topic(), message.leader_epoch()
        time_type, millis = message.timestamp()
        if type(topic) is not str or (epoch is not None and epoch < 0):
            return False
        self.kept.append(topic)
        try:
            self.metadata.topic = text_of(topic, &self.metadata.topic_size)
            self.metadata.partition = origin.partition() or 0
            self.metadata.offset = origin.offset() or 0
            self.metadata.millis, self.metadata.time_type = millis, time_type
            self.metadata.leader_epoch = -1 if epoch is None else epoch
            self.metadata.header_count = 0
            self.raw.metadata = &self.metadata
            return not with_headers or self.read_headers(message.headers() or [])
        except (OverflowError, UnicodeEncodeError):  # no number of a record that Kafka has
            return False

    cdef bint read_headers(self, given) except -1:
        cdef Header *header
        if len(given) > MAX_HEADERS:
            return False
        self.metadata.headers = self.headers
        for name, value in given:
            if type(name) is not str or not is_bytes(value) or self.metadata.header_count == MAX_HEADERS:
                return False
            self.kept += [name, value]
            header = &self.headers[self.metadata.header_count]
            header.name = text_of(name, &header.name_size)
            header.value = bytes_of(value, &header.value_size)
            self.metadata.header_count += 1
        return True
