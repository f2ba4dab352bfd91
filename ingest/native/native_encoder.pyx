# cython: language_level=3, boundscheck=False, wraparound=False
"""Messages of one topic: to encoded records, or to rows for expressions.

A message goes through here only if it is plainly right: JSON without doubt, a known table, values that fit their columns.
Whatever is not -- drift, dirt, a shape that is rare -- is left to the reference: `encode` stops before such a message. So
what is here may always fall back, and must never be more lenient than the reference. tests/property/test_native*.py
compare the two.

One call at a time: a worker has one thread that does this. The GIL is held throughout, but while an encoder of rows is
made; who comes in then is refused (`enter`). Nothing is kept between calls but what the objects hold, and counters until
`settle`.
"""

cimport cython

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.pyport cimport PY_SSIZE_T_MAX
from cpython.ref cimport PyObject, Py_DECREF, Py_INCREF
from libc.stdint cimport UINT32_MAX, int64_t, uint64_t
from libc.string cimport memcmp, memcpy

from ingest.native.canal_messages cimport read_canal, read_maxwell, read_next_row, read_ogg
from ingest.native.change cimport ID_PARTS, Change, Workspace, enter, leave
from ingest.native.codes cimport FORM_CANAL, FORM_CSV, FORM_DEBEZIUM, FORM_MAXWELL, FORM_OGG, FORM_ROWS
from ingest.native.extra_columns cimport RowExtender
from ingest.native.message_schemas cimport AvroTexts, RowCodec, SchemaCache
from ingest.native.messages cimport CsvForm, RowForm, read_csv_message, read_debezium, read_row_message
from ingest.native.records cimport BATCH_MESSAGES, CapsuleMessages, EncodedBatch, Messages, ObjectRecord, RawRecord
from ingest.native.row_encoder cimport RowEncoder, encode_change, feed_change
from ingest.native.scan cimport Row, Text, is_named, is_utf8, scan_object
from ingest.native.table cimport count_touched, touch
from ingest.native.transform_rows cimport TransformRows

from ingest.model.change import TOMBSTONE


cdef enum:
    HEAD = 5                  # a zero and the id of a schema
    MAX_CODECS = 10_000       # schemas of a topic's messages: as many tables may come in turn
    MAX_CODED = 200_000       # columns of all of them
    MAX_ID = 1024             # bytes of a table's id
    MAX_BITS = 12             # of the place of a table among the recent ones
    MAX_REASONS = 10_000      # of tables that are skipped: messages may name any


# -- Tables ------------------------------------------------------------------------------------------------------------


cdef struct RecentTable:      # `tables` keeps what was found
    PyObject *id
    PyObject *found


@cython.final
cdef class TableCache:
    """The answers of `find` for ids: a `RowEncoder`, or a text, which is why messages of a table are skipped."""

    cdef object find
    cdef dict tables
    cdef Py_ssize_t reasons   # so many of them are no encoders
    cdef RecentTable *recent  # 2 to the power of `bits`, or NULL
    cdef int bits

    def __cinit__(self, find):
        self.find, self.tables = find, {}

    def __dealloc__(self):
        self.forget_recent()

    cdef void forget_recent(self) noexcept:
        cdef Py_ssize_t i
        if self.recent != NULL:
            for i in range(1 << self.bits):
                if self.recent[i].id != NULL:
                    Py_DECREF(<object> self.recent[i].id)
        PyMem_Free(self.recent)
        self.recent = NULL

    cdef void forget(self) noexcept:
        """Let `find` be asked for every table again."""
        self.forget_recent()
        self.tables.clear()
        self.reasons = 0

    cdef RecentTable *place_of(self, const char *id, size_t size) except NULL:
        """Return where a table of this id was kept, or is to be. There is room for as many as there are."""
        cdef uint64_t end = 0
        cdef Py_ssize_t count = len(self.tables)
        if self.recent == NULL or (self.bits < MAX_BITS and count > <Py_ssize_t> 1 << self.bits):
            self.forget_recent()
            self.bits = 2
            while self.bits < MAX_BITS and count > <Py_ssize_t> 1 << self.bits:
                self.bits += 1
            self.recent = <RecentTable *> PyMem_Calloc(<size_t> 1 << self.bits, sizeof(RecentTable))
            if self.recent == NULL:
                raise MemoryError
        # Ids mostly differ at their ends, before the last zero byte
        memcpy(&end, id + size - 9 if size > 8 else id, 8 if size > 8 else size)
        return &self.recent[((end ^ size) * <uint64_t> 0x9E3779B97F4A7C15) >> (64 - self.bits)]

    cdef object of(self, const Text *parts, int count):
        """Return the encoder of a table, or the reason why its messages are skipped; None where there is neither.

        Raises what `find` raises.
        """
        cdef char id[MAX_ID]
        cdef size_t size = 0
        cdef RecentTable *recent
        cdef int i
        id[0] = 0  # there may be no parts
        for i in range(count):
            if size + parts[i].size + 1 > MAX_ID:
                return None
            if parts[i].size:
                memcpy(id + size, parts[i].text, parts[i].size)
            size += parts[i].size
            id[size] = 0  # no string of JSON has one
            size += 1
        recent = self.place_of(id, size)
        if recent.id != NULL and <size_t> PyBytes_GET_SIZE(<object> recent.id) == size:
            if not memcmp(PyBytes_AS_STRING(<object> recent.id), id, size):
                return <object> recent.found
        return self.keep(PyBytes_FromStringAndSize(id, <Py_ssize_t> size))

    cdef object keep(self, bytes id):
        """Return what there is of a table that is not among the recent ones, and put it there."""
        cdef RecentTable *recent
        found = self.tables.get(id)
        if found is None:
            found = self.find(id)
            if type(found) is str:
                if self.reasons == MAX_REASONS:
                    self.forget()
                self.reasons += 1
            elif type(found) is not RowEncoder:
                return None
            self.tables[id] = found
        recent = self.place_of(PyBytes_AS_STRING(id), <size_t> PyBytes_GET_SIZE(id))
        if recent.id != NULL:
            Py_DECREF(<object> recent.id)
        Py_INCREF(id)
        recent.id, recent.found = <PyObject *> id, <PyObject *> found
        return found


# -- Topics ------------------------------------------------------------------------------------------------------------


@cython.final
cdef class NativeEncoder:
    """Messages as a `MessageSpec` says: `find` returns the `RowEncoder` of an id, why it is skipped, or None.

    `read` returns the `RowCodec` of a text that says what columns' types are, or None. `extra`: the columns that
    rows have beside those of their values, or None.
    """

    cdef int form
    cdef TableCache tables
    cdef SchemaCache schemas
    cdef RowForm rows
    cdef CsvForm csv
    cdef AvroTexts values     # None: values are no Avro
    cdef AvroTexts keys       # None: keys are as they come
    cdef RowExtender extra
    cdef bint registered      # values stand behind the id of their schema
    cdef object read          # makes the codec of a head
    cdef dict codecs          # by heads
    cdef Py_ssize_t coded     # columns of all of them
    cdef object knows_key     # whether the schema of keys with a head is known; None: keys are as they come
    cdef set key_heads        # of which it is
    cdef bint keyed           # a message without a value is a delete
    cdef Py_ssize_t at        # index of the message in hand
    cdef list skips           # those that stand for no row: index and reason

    def __cinit__(self, spec, find, read, RowExtender extra=None):
        cdef int form = spec.form
        if not 0 <= form <= <int> FORM_CSV:
            raise ValueError("messages are of one of the forms")
        self.form, self.tables, self.skips = form, TableCache(find), []
        self.schemas = SchemaCache(spec.types_member, read)
        self.rows = RowForm(spec.flatten, spec.table_fields)
        self.csv = CsvForm(spec.csv)
        self.values = None if spec.avro is None else AvroTexts(spec.avro)
        self.keys = None if spec.key_avro is None else AvroTexts(spec.key_avro)
        self.extra = extra
        if spec.registered and form != FORM_ROWS and form != FORM_DEBEZIUM:
            raise ValueError("only rows, and Debezium's messages, stand behind the id of their schema")
        self.knows_key, self.key_heads = spec.knows_key, set()
        self.registered, self.read, self.codecs = spec.registered, read, {}
        of_rows = form == FORM_CSV or (form == FORM_ROWS and not self.rows.fields)
        self.keyed = of_rows and extra is not None and extra.key

    # -- One message ---------------------------------------------------------------------------------------------------

    cdef bint read_texts(self, Workspace *ws, Text *value, Text *key) except -1:
        """Let a value and a key be their JSON texts, where they are Avro; False for a fallback."""
        if self.values is not None and value.text != NULL and not self.values.read(value, &ws.value_text):
            return False
        if self.keys is None or not key.size or key.text[0]:
            return True
        return self.keys.read(key, &ws.key_text)

    cdef bint read_head(self, Text *value) except -1:
        """Let a value be the JSON behind the id of its schema, and take the codec of this; False for a fallback."""
        cdef bytes head
        if value.text == NULL:
            return True
        if value.size <= HEAD or value.text[0]:
            return False
        head = PyBytes_FromStringAndSize(value.text, HEAD)
        found = self.codecs.get(head)
        if found is None:
            found = self.read(head)
            if type(found) is not RowCodec:  # it is not known yet, or says nothing: the reference finds out
                return False
            self.coded += (<RowCodec> found).count
            if len(self.codecs) == MAX_CODECS or self.coded > MAX_CODED:
                self.codecs.clear()
                self.coded = (<RowCodec> found).count
            self.codecs[head] = found
        self.schemas.codec = <RowCodec> found
        value.text += HEAD
        value.size -= HEAD
        return True

    cdef bint read_key_head(self, Workspace *ws, Text *key) except -1:
        """Let a key be the JSON behind the id of its schema, where it has one; False for a fallback."""
        cdef Row *row = &ws.message_key  # not in use yet
        cdef bytes head
        cdef int i
        if self.knows_key is None or not key.size or key.text[0]:
            return True
        if key.size <= HEAD:
            return False
        head = PyBytes_FromStringAndSize(key.text, HEAD)
        if head not in self.key_heads:
            if not self.knows_key(head):  # the reference asks for it
                return False
            if len(self.key_heads) == MAX_CODECS:
                self.key_heads.clear()
            self.key_heads.add(head)
        key.text += HEAD
        key.size -= HEAD
        if not scan_object(key.text, key.size, row, NULL):
            return False
        for i in range(row.count):
            if is_named(&row.fields[i], b"payload", 7):  # it is a column, and no envelope
                return False
        return True

    cdef bint read_heads(self, Workspace *ws, Text *value, Text *key) except -1:
        """Do both for a message with ids of schemas; False for a fallback."""
        return self.read_head(value) and self.read_key_head(ws, key)

    cdef object read_change(self, Workspace *ws, const RawRecord *record, Change *change):
        """Read a message that stands for a change: the encoder of its table, why it is skipped, or None for a fallback."""
        cdef Text value, key
        cdef const char *end
        cdef bint read
        cdef int i
        change.form, change.op, change.named = self.form, 0, 0
        change.sparse = change.typed = change.declared = change.composed = change.extended = change.numbers = False
        change.message_key.text, change.message_key.size = NULL, 0
        change.id_parts = ID_PARTS
        for i in range(ID_PARTS):
            change.parts[i].text, change.parts[i].size = NULL, 0
        change.data.count = change.old.count = 0
        change.data.next = change.old.next = NULL
        self.schemas.codec = None
        value.text, value.size = record.value, record.value_size
        key.text, key.size = record.key, record.key_size
        if not self.read_texts(ws, &value, &key) or (self.registered and not self.read_heads(ws, &value, &key)):
            return None
        end = value.text
        if value.text != NULL:
            end += value.size
        change.end = end
        if value.size > UINT32_MAX or not is_utf8(value.text, value.size):
            return None
        if self.values is not None:
            change.composed = change.declared = True  # Avro has types, and the text is ours
        if self.form == FORM_DEBEZIUM:
            change.message_key = key
            read = read_debezium(ws, self.schemas, value.text, end, change)
        elif self.form == FORM_CANAL:
            read = read_canal(ws, self.schemas, value.text, end, change)
        elif self.form == FORM_OGG:
            change.form = FORM_ROWS
            read = read_ogg(ws, value.text, end, change)
        elif self.form == FORM_MAXWELL:
            change.form = FORM_CANAL  # the row of a delete in the place of the row after, an old row of what changed
            read = read_maxwell(ws, value.text, end, &key, change)
        elif self.form == FORM_CSV:
            change.form = FORM_ROWS
            read = read_csv_message(ws, self.csv, value.text, end, change)
        else:
            read = read_row_message(ws, self.rows, value.text, end, change)
        if self.schemas.codec is not None:
            change.numbers = self.schemas.codec.numbers
        elif self.values is not None and value.text != NULL:
            change.numbers = self.values.last.numbers
        return self.tables.of(change.parts, change.id_parts) if read else None

    cdef int skip(self, reason) except -1:
        """Note that the message in hand stands for no row: returns 1, or 0 for a fallback, where there is no reason."""
        if reason is None:
            return 0
        self.skips.append((self.at, reason))
        return 1

    cdef int add_row(
        self, Workspace *ws, RowEncoder encoder, const RawRecord *record, Change *change, EncodedBatch batch,
        TransformRows rows
    ) except -1:
        """Add the records of the row in hand, or its rows for expressions, all or none: 1, or 0 for a fallback."""
        cdef Change extended
        cdef RowCodec codec = self.schemas.codec
        if self.extra is not None:
            extended = change[0]
            if not self.extra.extend(ws, codec, record, &extended):
                return 0
            change, codec = &extended, None
        if rows is None:
            return encode_change(ws, encoder, codec, change, batch)
        return feed_change(ws, encoder, codec, change, rows)

    cdef int add_rows(
        self, Workspace *ws, RowEncoder encoder, const RawRecord *record, Change *change, EncodedBatch batch,
        TransformRows rows
    ) except -1:
        """Do the same for a message of several rows, of which the first is in hand; `take_one` takes rows back."""
        cdef Py_ssize_t count = 0 if batch is None else batch.count, i
        cdef long inserted = encoder.inserted, updated = encoder.updated, deleted = encoder.deleted
        cdef int64_t bytes_out = encoder.bytes_out
        for i in range(change.data.count):
            if (i and not read_next_row(ws, change)) or not self.add_row(ws, encoder, record, change, batch, rows):
                if batch is not None:
                    batch.count = count
                encoder.inserted, encoder.updated, encoder.deleted = inserted, updated, deleted
                encoder.bytes_out = bytes_out
                return 0
        return 1

    cdef int add_message(
        self, Workspace *ws, const RawRecord *record, EncodedBatch batch, TransformRows rows
    ) except -1:
        """Add the records of a message to `batch`, or its rows to `rows` if that is not None.

        Returns 1, or 0 for a fallback: then nothing is in `batch`, but some of the rows may be in `rows`.
        """
        cdef Change change
        cdef RowEncoder encoder
        cdef int taken
        if record.value == NULL and not self.keyed:
            return self.skip(TOMBSTONE.reason)
        found = self.read_change(ws, record, &change)
        if type(found) is not RowEncoder:
            return self.skip(found)
        encoder = <RowEncoder> found
        if change.data.count > 1:
            taken = self.add_rows(ws, encoder, record, &change, batch, rows)
        else:
            taken = self.add_row(ws, encoder, record, &change, batch, rows)
        if taken:
            touch(encoder)
            encoder.bytes_in += <int64_t> (record.key_size + record.value_size)
        return taken

    # -- Many messages -------------------------------------------------------------------------------------------------

    cdef int take_one(self, Workspace *ws, const RawRecord *record, EncodedBatch batch, TransformRows rows) except -1:
        """Add a message as `add_message` does, all of it or nothing: returns 1, or 0 for a fallback."""
        cdef Py_ssize_t count, sent
        cdef int taken = 0
        if rows is None:
            return self.add_message(ws, record, batch, None)
        rows.offset = record.offset
        count, sent = rows.count, rows.sent
        try:
            taken = self.add_message(ws, record, None, rows)
        finally:
            if not taken:
                rows.count, rows.sent = count, sent
        return taken

    cdef Py_ssize_t take_raw(
        self, Workspace *ws, Messages messages, Py_ssize_t at, Py_ssize_t end, EncodedBatch batch, TransformRows rows
    ) except -1:
        """Take messages until one is a fallback, and return where that is."""
        while at < end and at < messages.count:
            self.at = at
            if not self.take_one(ws, &messages.records[at], batch, rows):
                break
            at += 1
        return at

    cdef Py_ssize_t take_objects(
        self, Workspace *ws, list messages, Py_ssize_t at, Py_ssize_t end, EncodedBatch batch, TransformRows rows
    ) except -1:
        """Do the same for messages that are objects; the list may change while they are asked."""
        cdef ObjectRecord record = ObjectRecord()
        cdef int wanted = 0 if self.extra is None else self.extra.metadata.wanted
        while at < end and at < len(messages):
            message = messages[at]
            if not record.read(message, wanted):
                break
            if rows is not None:
                record.raw.offset = message.offset()
            else:
                batch.hold(record.value)
            self.at = at
            if not self.take_one(ws, &record.raw, batch, rows):
                break
            at += 1
        return at

    cdef Py_ssize_t take(
        self, messages, Py_ssize_t start, Py_ssize_t most, EncodedBatch batch, TransformRows rows
    ) except -1:
        cdef Workspace *ws
        cdef Py_ssize_t end
        if start < 0:
            raise ValueError("start is negative")
        end = start + most if 0 <= most <= PY_SSIZE_T_MAX - start else PY_SSIZE_T_MAX
        if type(messages) is not list and not isinstance(messages, Messages):
            messages = CapsuleMessages(messages)
        ws = enter()
        try:
            if type(messages) is list:
                return self.take_objects(ws, <list> messages, start, end, batch, rows)
            if batch is not None:
                batch.messages = messages
            return self.take_raw(ws, <Messages> messages, start, end, batch, rows)
        except:
            self.skips = []
            raise
        finally:
            leave()

    def encode(self, messages, Py_ssize_t start):
        cdef EncodedBatch batch = EncodedBatch()
        stop = self.take(messages, start, BATCH_MESSAGES, batch, None)
        batch.full = stop - start == BATCH_MESSAGES and stop < len(messages)
        return batch, stop

    def feed(self, messages, Py_ssize_t start, TransformRows rows not None):
        rows.begin()
        try:
            return self.take(messages, start, -1, None, rows)
        finally:
            rows.busy = False

    def skipped(self):
        found, self.skips = self.skips, []
        return found

    def forget(self):
        enter()  # a message's table is not held while it is taken
        self.tables.forget()
        leave()


def settle():
    """Tell the tables' encoders what was counted since the last time."""
    enter()
    try:
        count_touched(True)
    finally:
        leave()
