# cython: language_level=3, boundscheck=False, wraparound=False
"""Columns about the record that a row came in; see metadata.pxd."""

from libc.stdint cimport INT64_MAX, int32_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from ingest.native.change cimport MAX_TEXT, text_of_bytes
from ingest.native.codes cimport (
    METADATA_HEADERS, METADATA_KEY_TEXT, METADATA_KINDS, METADATA_OFFSET, METADATA_PARTITION, METADATA_RAW_KEY,
    METADATA_RAW_VALUE, METADATA_TIMESTAMP, METADATA_TIMESTAMP_TYPE, METADATA_TOPIC, METADATA_VALUE_TEXT,
)
from ingest.native.records cimport MAX_HEADERS, WANTED_HEADERS, WANTED_METADATA, Header, RawMetadata, RawRecord
from ingest.native.scan cimport (
    BASE64_SIZE, HAS_ESCAPES, JSON_INT, JSON_NULL, JSON_OBJECT, JSON_STRING, MAX_ESCAPE, Field, Row, Text, has_text,
    is_named, is_utf8, put_base64, put_int, put_quoted_text, put_timestamp, scan_plain,
)


cdef enum:
    MAX_SHORT = 64            # most bytes of a number, a time and its type


# -- Values ------------------------------------------------------------------------------------------------------------


cdef char *put_text(char *to, const char *text, size_t size) noexcept nogil:
    """Write a text with its quotes, and return where that ends; NULL for one that JSON has with escapes."""
    if scan_plain(text, text + size) != text + size or not is_utf8(text, size):
        return NULL
    to[0] = b'"'
    memcpy(to + 1, text, size)
    to[size + 1] = b'"'
    return to + size + 2


cdef char *put_any_text(char *to, const char *text, size_t size) noexcept nogil:
    """Write a text with its quotes, or null, and return where that ends; NULL for what is no UTF-8."""
    if text == NULL:
        return put_null(to)
    if size > <size_t> MAX_TEXT or not is_utf8(text, size):
        return NULL
    return put_quoted_text(to, text, size)


cdef char *put_null(char *to) noexcept nogil:
    memcpy(to, b"null", 4)
    return to + 4


cdef char *put_bytes(char *to, const char *text, size_t size) noexcept nogil:
    """Write bytes as base64, or null, and return where that ends."""
    if text == NULL:
        return put_null(to)
    to[0] = b'"'
    to = put_base64(to + 1, text, size)
    to[0] = b'"'
    return to + 1


cdef char *put_time_of(char *to, const RawMetadata *metadata, char separator) noexcept nogil:
    """Write when a record was made or appended, or null, and return where that ends."""
    cdef char *end
    if metadata.time_type == 0 or metadata.millis < 0 or metadata.millis > INT64_MAX / 1000:
        return put_null(to)
    to[0] = b'"'
    end = put_timestamp(to + 1, metadata.millis * 1000, separator)
    if end == NULL:
        return put_null(to)
    end[0], end[1] = b'Z', b'"'
    return end + 2


cdef char *put_headers(char *to, const RawMetadata *metadata) noexcept nogil:
    """Write headers as an object, and return where that ends; NULL for what the reference has to look at."""
    cdef const Header *header
    cdef const Header *other
    cdef int i, j
    if not 0 <= metadata.header_count <= MAX_HEADERS:
        return NULL
    to[0] = b'{'
    to += 1
    for i in range(metadata.header_count):
        header = &metadata.headers[i]
        for j in range(i):  # of two with one name, the last one counts
            other = &metadata.headers[j]
            if other.name_size == header.name_size and not memcmp(other.name, header.name, header.name_size):
                return NULL
        if i:
            to[0] = b','
            to += 1
        to = put_text(to, header.name, header.name_size)
        if to == NULL:
            return NULL
        to[0] = b':'
        to = put_bytes(to + 1, header.value, header.value_size)
    to[0] = b'}'
    return to + 1


cdef char *put_time_type(char *to, int time_type) noexcept nogil:
    if time_type == 0:
        return put_text(to, b"NoTimestampType", 15)
    if time_type == 1:
        return put_text(to, b"CreateTime", 10)
    return put_text(to, b"LogAppendTime", 13) if time_type == 2 else NULL


# -- Columns -----------------------------------------------------------------------------------------------------------


cdef size_t room_of(const MetadataColumn *column, const RawRecord *record) noexcept nogil:
    """Return how many bytes a column of a record has at most, with its name and what is around it."""
    cdef const RawMetadata *metadata = record.metadata
    cdef size_t size = column.quoted.size + MAX_SHORT
    cdef int i
    if column.kind == METADATA_RAW_KEY:
        size += BASE64_SIZE(record.key_size)
    elif column.kind == METADATA_RAW_VALUE:
        size += BASE64_SIZE(record.value_size)
    elif column.kind == METADATA_KEY_TEXT and record.key_size <= <size_t> MAX_TEXT:
        size += MAX_ESCAPE * record.key_size
    elif column.kind == METADATA_VALUE_TEXT and record.value_size <= <size_t> MAX_TEXT:
        size += MAX_ESCAPE * record.value_size
    elif metadata != NULL and column.kind == METADATA_TOPIC:
        size += metadata.topic_size
    elif metadata != NULL and column.kind == METADATA_HEADERS:
        for i in range(metadata.header_count):
            size += metadata.headers[i].name_size + BASE64_SIZE(metadata.headers[i].value_size) + MAX_SHORT
    return size


cdef char *put_value(int kind, char separator, const RawRecord *record, char *to) noexcept nogil:
    """Write the value of a column, and return where that ends; NULL for what the reference has to look at."""
    cdef const RawMetadata *metadata = record.metadata
    if kind == METADATA_RAW_KEY:
        return put_bytes(to, record.key, record.key_size)
    if kind == METADATA_RAW_VALUE:
        return put_bytes(to, record.value, record.value_size)
    if kind == METADATA_KEY_TEXT:
        return put_any_text(to, record.key, record.key_size)
    if kind == METADATA_VALUE_TEXT:
        return put_any_text(to, record.value, record.value_size)
    if metadata == NULL:
        return NULL
    if kind == METADATA_TOPIC:
        return put_text(to, metadata.topic, metadata.topic_size)
    if kind == METADATA_PARTITION:
        return put_int(to, metadata.partition)
    if kind == METADATA_OFFSET:
        return put_int(to, metadata.offset)
    if kind == METADATA_TIMESTAMP:
        return put_time_of(to, metadata, separator)
    if kind == METADATA_TIMESTAMP_TYPE:
        return put_time_type(to, metadata.time_type)
    if kind == METADATA_HEADERS:
        return put_headers(to, metadata)
    return put_null(to) if metadata.leader_epoch < 0 else put_int(to, metadata.leader_epoch)


cdef int kind_of(char first) noexcept nogil:
    """Return the kind of a column's value, by its first character."""
    if first == b'"':
        return JSON_STRING
    if first == b'n':
        return JSON_NULL
    return JSON_OBJECT if first == b'{' else JSON_INT


cdef class MetadataWriter:
    """Writes the columns about records, from specs of them."""

    def __cinit__(self, tuple specs, separator):
        cdef MetadataColumn *column
        if len(specs) > MAX_COLUMNS:
            raise ValueError("more columns about records than there are")
        self.separator, self.kept = ord(separator), []
        for spec in specs:
            column = &self.columns[self.count]
            quoted = b'"%b"' % spec.name
            self.kept.append(quoted)
            text_of_bytes(quoted, &column.quoted)
            column.kind, column.type = spec.kind, spec.type_number
            if not 0 <= column.kind < <int> METADATA_KINDS:
                raise ValueError("a column about records that there is not")
            if column.kind == METADATA_HEADERS:
                self.wanted = WANTED_HEADERS
            elif column.kind < METADATA_RAW_KEY and not self.wanted:
                self.wanted = WANTED_METADATA
            self.count += 1

    cdef size_t room(self, const RawRecord *record) noexcept nogil:
        """Return how many bytes the columns of a record have at most."""
        cdef size_t size = 0
        cdef int i
        for i in range(self.count):
            size += room_of(&self.columns[i], record)
        return size

    cdef char *put(self, const RawRecord *record, RecordColumns *made, char *to) noexcept nogil:
        """Write the columns of a record, and return where they end; NULL for what the reference has to look at."""
        cdef const MetadataColumn *column
        cdef Field *field
        cdef char *end
        cdef int i
        made.text.text, made.count = to, self.count
        for i in range(self.count):
            column = &self.columns[i]
            field = &made.fields[i]
            to[0] = b','
            field.name, field.name_size = to + 2, <uint32_t> column.quoted.size - 2
            memcpy(to + 1, column.quoted.text, column.quoted.size)
            to += column.quoted.size + 1
            to[0] = b':'
            to += 1
            end = put_value(column.kind, self.separator, record, to)
            if end == NULL:
                return NULL
            field.text, field.size, field.flags = to, <uint32_t> (end - to), 0
            if column.kind >= METADATA_KEY_TEXT:
                field.flags = HAS_ESCAPES  # there may be some
            field.kind = <uint8_t> kind_of(to[0])
            made.types[i] = 0 if field.kind == JSON_NULL else column.type
            to = end
        made.text.size = <size_t> (to - made.text.text)
        return to

    cdef bint is_in(self, const Row *row) noexcept nogil:
        """Return whether the name of a column is anywhere in a row's text, as a text."""
        cdef int i
        for i in range(self.count):
            if has_text(row.text, <size_t> row.size, self.columns[i].quoted.text, self.columns[i].quoted.size):
                return True
        return False

    cdef bint clashes(self, const Row *row) noexcept nogil:
        """Return whether a field of a row has the name of a column."""
        cdef const Text *name
        cdef int i, j
        for j in range(self.count):
            name = &self.columns[j].quoted
            for i in range(row.count):
                if is_named(&row.fields[i], name.text + 1, <uint32_t> name.size - 2):
                    return True
        return False


cdef char *add_columns(const RecordColumns *about, Row *row, int32_t *types, char *to) noexcept nogil:
    """Write columns behind the fields of a row, to which they are added, and return where they end.

    `types`: by field, the number of its value's type.
    """
    cdef const char *text = about.text.text
    cdef size_t size = about.text.size
    cdef int i
    if not about.count:
        return to
    if not row.count:  # the first one has no comma before it
        text += 1
        size -= 1
    for i in range(about.count):
        row.fields[row.count] = about.fields[i]
        row.fields[row.count].name = to + (about.fields[i].name - text)
        row.fields[row.count].text = to + (about.fields[i].text - text)
        types[row.count] = about.types[i]
        row.count += 1
    memcpy(to, text, size)
    return to + size
