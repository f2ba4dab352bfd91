# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The last states of the keys of one table; see lake_keys.pxd."""

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t

from ingest.native.lake_rows cimport LakeRows, bits_of
from ingest.native.records cimport EncodedBatch, EncodedRecord


cdef class LakeKeys:
    """The last states of keys, with columns of these `LakeColumnSpec`s."""

    def __cinit__(self, tuple spec not None):
        self.rows, self.numbers, self.left = LakeRows(spec), {}, []

    cdef int begin(self) except -1:
        """Begin a call. Raises RuntimeError where another one is not done yet."""
        if self.busy:
            raise RuntimeError("these keys are in use: by a call that is not done yet, or in another thread")
        self.busy = True
        return 0

    cdef int keep(
        self, Py_ssize_t place, const char *key, size_t key_size, const char *row, size_t row_size
    ) except -1:
        """Keep a record as the last state of its key."""
        cdef bytes name = PyBytes_FromStringAndSize(key, <Py_ssize_t> key_size)
        if self.rows.add(key, key_size, row, row_size):
            self.numbers[name] = self.rows.count - 1
            return 0
        self.left_count += 1
        text = None if row == NULL else PyBytes_FromStringAndSize(row, <Py_ssize_t> row_size)
        self.left.append((place, name, text, self.numbers.get(name), self.rows.count))
        self.numbers[name] = -self.left_count
        return 0

    def keep_record(self, Py_ssize_t place, key_given, row_given):
        cdef bytes key = bytes(key_given)
        cdef bytes row = None if row_given is None else bytes(row_given)
        self.begin()
        try:
            self.keep(
                place, PyBytes_AS_STRING(key), <size_t> PyBytes_GET_SIZE(key),
                NULL if row is None else PyBytes_AS_STRING(row), 0 if row is None else <size_t> PyBytes_GET_SIZE(row),
            )
        finally:
            self.rows.alike, self.busy = False, False

    def take_left(self):
        if self.busy:
            self.begin()
        left, self.left = self.left, []
        return left

    def forget(self, bytes key not None, int64_t number, before):
        if self.numbers.get(key) != number:
            return
        if before is None:
            del self.numbers[key]
        else:
            self.numbers[key] = before

    def size(self):
        return self.rows.size()

    cdef tuple last_states(self):
        """Return bits of the rows that are a key's last state, or None: all are; and the numbers of others."""
        cdef Py_ssize_t number, count = 0, rows_count = self.rows.count
        cdef list others = []
        cdef bytearray marks = bytearray(rows_count)
        flags = <uint8_t *> PyByteArray_AS_STRING(marks)
        for number in self.numbers.values():
            if number < 0:
                others.append(number)
            elif number < rows_count:
                flags[number] = 1
                count += 1
        return None if count == rows_count else bits_of(flags, rows_count), others

    def take(self):
        self.begin()
        try:
            last, others = self.last_states()
            made = (*self.rows.take(), last, others)
            self.numbers, self.left, self.left_count = {}, [], 0
        finally:
            self.busy = False
        return made


def keep_batch(EncodedBatch batch not None, list tables not None):
    cdef Py_ssize_t i, count = len(tables)
    cdef const EncodedRecord *record
    cdef LakeKeys keys
    for keys in tables:
        if keys is None:
            raise TypeError("a target without a table")
        if keys.busy:
            keys.begin()
    for keys in tables:
        keys.busy = True
    try:
        for i in range(batch.count):
            record = &batch.records[i]
            if not 0 <= record.target < count:
                raise IndexError("a record of the batch has no destination")
            if record.key == NULL:
                raise ValueError("a row without a key")
            (<LakeKeys> tables[record.target]).keep(
                i, record.key, record.key_size, record.value, record.value_size
            )
    finally:
        for keys in tables:  # the batch may be gone soon
            keys.rows.alike, keys.busy = False, False
