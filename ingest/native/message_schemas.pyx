# cython: language_level=3, boundscheck=False, wraparound=False
"""What schemas of messages say; see message_schemas.pxd."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.ref cimport PyObject
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy, memmove

from ingest.formats.avro.native.reader cimport AvroReader
from ingest.native.change cimport Room, Typing, room_for, text_of_bytes
from ingest.native.codes cimport (
    CODEC_ANY, CODEC_BASE64, CODEC_BIT, CODEC_BITS, CODEC_BOOL, CODEC_DATE_TEXT, CODEC_DAYS, CODEC_DECIMAL, CODEC_INT,
    CODEC_LATIN, CODEC_MOMENT, CODEC_MOMENT_TEXT, CODEC_NUMBER, CODEC_QUOTED_DECIMAL, CODEC_QUOTED_INT,
    CODEC_QUOTED_NUMBER, CODEC_SHORT_NUMBER, CODEC_TEXT, CODEC_TIME, CODEC_TIME_TEXT, CODEC_UNSCALED,
    CODEC_UNSCALED_TEXT, CODEC_UTC_TEXT, CODEC_VARIABLE, CODEC_ZONED,
)
from ingest.native.scan cimport (
    JSON_BOOL, JSON_INT, JSON_NULL, JSON_STRING, MAX_MADE, Field, Row, Text, fits_date, fits_decimal, fits_double,
    fits_int, fits_length, fits_time, fits_timestamp, is_named, is_number, read_base64, read_bit, read_bits, read_days,
    read_latin, read_moment, read_time, read_unquoted, read_unscaled, read_unscaled_text, read_utc, read_variable,
    read_zoned, scan_value,
)

from weakref import WeakSet


cdef enum:
    MAX_READERS = 64          # of Avro; the process keeps more, by their weight
    MAX_UNSAID = 8            # columns of a row of which nothing is said: each is looked for among all
    MAX_SCHEMAS = 10_000      # of all caches together
    MAX_WEIGHT = 128 << 20    # bytes of their texts and of what they say
    OBJECT_WEIGHT = 32        # what an allocation adds, about
    MAX_WIDTH = 8             # bytes of a BIT(n)
    MAX_DIGITS = 15           # every number of so many digits is what the nearest double prints


# -- Values ------------------------------------------------------------------------------------------------------------


cdef bint read_counted(const ColumnCodec *column, Field *field, char **to) noexcept nogil:
    """Read days, or microseconds of the day or since 1970."""
    if column.codec == CODEC_DAYS:
        return read_days(field, to)
    if column.codec == CODEC_TIME:
        return read_time(field, column.first, to)
    return read_moment(field, column.first, to)


cdef bint read_quoted(const ColumnCodec *column, Field *field) noexcept nogil:
    """Read a number that may be in a text."""
    if not read_unquoted(field):
        return False
    if column.codec == CODEC_QUOTED_INT:
        return field.kind == JSON_INT and fits_int(field, column.first)
    if column.codec == CODEC_QUOTED_NUMBER:
        return fits_double(field)
    return fits_decimal(field, column.first, column.second)


cdef bint read_bytes(const ColumnCodec *column, Field *field, char **to) noexcept nogil:
    """Read a decimal by its bytes, or bytes by what stands for them."""
    if column.codec == CODEC_UNSCALED:
        return read_unscaled(field, column.first, column.second, to)
    if column.codec == CODEC_UNSCALED_TEXT:
        return read_unscaled_text(field, column.second, to)
    if column.codec == CODEC_VARIABLE:
        return read_variable(field, to)
    if column.codec == CODEC_BITS:
        return read_bits(field, column.first, to)
    return read_latin(field, to)


cdef bint is_text_of(const ColumnCodec *column, const Field *field) noexcept nogil:
    """Return whether a value is a text of its type."""
    if field.kind != JSON_STRING:
        return False
    if column.codec == CODEC_TEXT:
        return fits_length(field, column.first)
    if column.codec == CODEC_DATE_TEXT:
        return fits_date(field)
    if column.codec == CODEC_TIME_TEXT:
        return fits_time(field)
    if column.codec == CODEC_MOMENT_TEXT:
        return fits_timestamp(field, b' ', column.first != 0)  # with the `Z` of UTC, or without
    return read_base64(field.text + 1, field.size - 2, NULL, 0) >= 0


cdef bint is_short_number(const Field *field) noexcept nogil:
    """Return whether a value is a number of few digits, without an exponent."""
    return (
        is_number(field) and field.size <= MAX_DIGITS
        and memchr(field.text, b'e', field.size) == NULL and memchr(field.text, b'E', field.size) == NULL
    )


cdef bint read_value(const ColumnCodec *column, Field *field, char **to) noexcept nogil:
    """Check a value against what is said of it, and put in its place what it is; False for a fallback.

    That may be at `to`, which goes on behind it then.
    """
    cdef int codec = column.codec
    if codec == CODEC_INT:
        return field.kind == JSON_INT and fits_int(field, column.first)
    if codec == CODEC_NUMBER:
        return fits_double(field)
    if codec == CODEC_SHORT_NUMBER:
        return is_short_number(field)
    if codec == CODEC_DECIMAL:
        return is_number(field) and fits_decimal(field, column.first, column.second)
    if codec == CODEC_BOOL:
        return field.kind == JSON_BOOL
    if codec == CODEC_ANY:
        return True
    if codec == CODEC_DAYS or codec == CODEC_TIME or codec == CODEC_MOMENT:
        return read_counted(column, field, to)
    if codec == CODEC_ZONED:
        return read_zoned(field, to)
    if (
        codec == CODEC_UNSCALED or codec == CODEC_UNSCALED_TEXT or codec == CODEC_VARIABLE or codec == CODEC_BITS
        or codec == CODEC_LATIN
    ):
        return read_bytes(column, field, to)
    if codec == CODEC_QUOTED_INT or codec == CODEC_QUOTED_NUMBER or codec == CODEC_QUOTED_DECIMAL:
        return read_quoted(column, field)
    if codec == CODEC_BIT:
        return read_bit(field)
    if codec == CODEC_UTC_TEXT:
        return read_utc(field, to)
    if (
        codec == CODEC_TEXT or codec == CODEC_DATE_TEXT or codec == CODEC_TIME_TEXT or codec == CODEC_MOMENT_TEXT
        or codec == CODEC_BASE64
    ):
        return is_text_of(column, field)
    return False


# -- One schema --------------------------------------------------------------------------------------------------------


cdef class RowCodec:
    """The codecs of a row's columns, as its message declares their types: from a tuple of `ColumnCodecSpec`."""

    def __cinit__(self, tuple columns):
        cdef Text name
        cdef ColumnCodec *column
        self.columns = <ColumnCodec *> PyMem_Calloc(<size_t> len(columns) + 1, sizeof(ColumnCodec))
        if not self.columns:
            raise MemoryError
        for spec in columns:
            column = &self.columns[self.count]
            text_of_bytes(spec.name, &name)
            column.name, column.name_size = name.text, <uint32_t> name.size
            column.codec, column.type = spec.codec, spec.type_number
            column.first, column.second = spec.first, spec.second
            self.numbers |= bool(spec.is_number)
            counts = column.codec == CODEC_TIME or column.codec == CODEC_MOMENT
            bits = column.codec == CODEC_INT or column.codec == CODEC_QUOTED_INT
            wide = column.codec == CODEC_BITS and not 1 <= column.first <= MAX_WIDTH
            if wide or (counts and column.first < 1) or (bits and not 1 <= column.first <= 64):
                raise ValueError("a column with numbers that its way of reading does not have")
            self.weight += name.size + sizeof(ColumnCodec) + OBJECT_WEIGHT * 4
            self.count += 1
        self.spec = columns

    def __dealloc__(self):
        PyMem_Free(self.columns)

    cdef bint read_row(self, Row *row, Typing *typing, char **to) noexcept nogil:
        """Put the values of a row in the form that is written, as far as something is said of them.

        Returns False for a fallback. `to` has room for all that may be made.
        """
        cdef int next = 0, unsaid = 0, i
        cdef Field *field
        cdef Text came
        cdef const ColumnCodec *column
        for i in range(row.count):
            field = &row.fields[i]
            came.text, came.size = field.text, field.size
            typing.came[i].text = NULL
            typing.types[i] = 0
            column = column_of(self, field, &next)
            if column == NULL:
                unsaid += 1
                if unsaid > MAX_UNSAID:
                    return False
            if column == NULL or field.kind == JSON_NULL:
                continue
            if not read_value(column, field, to):
                return False
            if field.text != came.text:
                typing.came[i] = came
            # What is no text where any value may be is not of its type yet
            if column.codec != CODEC_ANY or field.kind == JSON_STRING:
                typing.types[i] = column.type
        return True


cdef const ColumnCodec *column_of(RowCodec schema, const Field *field, int *next) noexcept nogil:
    """Return what is said of a field, or NULL; what is behind the last one is looked at first."""
    cdef const ColumnCodec *column
    cdef int _
    for _ in range(schema.count):
        if next[0] >= schema.count:
            next[0] = 0
        column = &schema.columns[next[0]]
        next[0] += 1
        if is_named(field, column.name, column.name_size):
            return column
    return NULL


# -- Those that were read ----------------------------------------------------------------------------------------------

caches = WeakSet()
cdef size_t all_weight = 0
cdef size_t all_count = 0


cdef class SchemaCache:
    """Schemas by their texts: `read` makes a codec of one, or None. All caches together have one limit."""

    def __cinit__(self, bytes member, read):
        self.member, self.read, self.schemas = member, read, {}
        caches.add(self)

    def __dealloc__(self):
        self.forget()

    cdef void forget(self) noexcept:
        global all_weight, all_count
        cdef int i
        for i in range(RECENT_SCHEMAS):
            self.recent[i].text = NULL
        all_weight -= self.weight
        all_count -= self.count
        self.weight = self.count = 0
        if self.schemas is not None:
            self.schemas.clear()

    cdef bint keep(self, bytes text, object made) except -1:
        """Keep what a text says, if there is room; where there is none for it beside others, they are forgotten.

        Returns False for what is larger than all that may be kept.
        """
        global all_weight, all_count
        cdef size_t weight = <size_t> PyBytes_GET_SIZE(text) + MAX_MADE * 4  # and the objects' own
        if type(made) is RowCodec:
            weight += (<RowCodec> made).weight
        if weight > MAX_WEIGHT / 4:
            return False
        if all_weight + weight > MAX_WEIGHT or all_count >= MAX_SCHEMAS:
            for cache in list(caches):
                (<SchemaCache> cache).forget()
        self.schemas[text] = (text, made)
        self.weight += weight
        self.count += 1
        all_weight += weight
        all_count += 1
        return True

    cdef RowCodec find(self, const char **at, const char *end):
        """Return what a text says, from its brace on, and put where it ends in `at`; None for a fallback.

        Raises what `read` raises.
        """
        cdef const char *text = at[0]
        cdef const char *p
        cdef uint8_t kind, flags = 0
        cdef size_t size
        cdef RecentSchema found
        cdef int i
        for i in range(RECENT_SCHEMAS):
            found = self.recent[i]
            if found.text == NULL:
                break
            size = <size_t> PyBytes_GET_SIZE(<object> found.text)
            if size > <size_t> (end - text) or memcmp(text, PyBytes_AS_STRING(<object> found.text), size):
                continue
            memmove(&self.recent[1], &self.recent[0], <size_t> i * sizeof(RecentSchema))
            self.recent[0] = found
            at[0] = text + size
            return <RowCodec> found.schema
        if self.read is None or text >= end or text[0] != b'{':
            return None
        p = scan_value(text, end, 1, &kind, &flags)
        if p == NULL:
            return None
        schema = self.find_text(PyBytes_FromStringAndSize(text, p - text))
        if schema is not None:
            at[0] = p
        return schema

    cdef RowCodec find_text(self, bytes text):
        """Return what a text says that is not one of the last; None for a fallback."""
        cdef tuple kept = self.schemas.get(text)
        if kept is None:
            if not self.keep(text, self.read(text)):
                return None
            kept = self.schemas[text]
        made = kept[1]
        if type(made) is not RowCodec:
            return None
        memmove(&self.recent[1], &self.recent[0], (RECENT_SCHEMAS - 1) * sizeof(RecentSchema))
        self.recent[0].text = <PyObject *> kept[0]
        self.recent[0].schema = <PyObject *> made
        return <RowCodec> made


# -- Messages in Avro --------------------------------------------------------------------------------------------------


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
