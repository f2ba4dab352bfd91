# cython: language_level=3, boundscheck=False, wraparound=False
"""The native encoder of one table's rows: checks and writes them; see row_encoder.pxd.

Encoding begins here: whatever has decoded a change, it is encoded by `encode_change` or `feed_change`. The reference of
keyed rows and tombstones is `UpsertEncoder` in encode/upsert_encoder.py.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memcmp, memcpy, memset

from ingest.native.change cimport MAX_KEYS, Change, Typing, Workspace, room_for
from ingest.native.codes cimport (
    FORM_CANAL, FORM_DEBEZIUM, TARGET_DELETE, TARGET_INSERT, TARGET_OLD_KEY, TARGET_UPDATE, TARGET_USES, WRITE_AS_IS,
    WRITE_AS_TEXT, WRITE_FALLBACK, WRITE_QUOTED,
)
from ingest.native.images cimport read_images
from ingest.native.message_schemas cimport RowCodec
from ingest.native.records cimport EncodedBatch, add_record, keep, reserve
from ingest.native.results cimport ResultRows
from ingest.native.scan cimport JSON_STRING, Field, Row, Text, key_text, put_json_text, scan_number
from ingest.native.table cimport (
    Table, TableColumn, check_row, count_change, find_key, has_key_columns, is_key, key_fields, lacks_values, mode_of,
    target_in,
)
from ingest.native.template cimport RecordAssembler
from ingest.native.transform_rows cimport TransformInput, TransformRows

cdef enum:
    MAX_KEY = 4096            # most bytes of a key


# -- Keys and rows that are written ------------------------------------------------------------------------------------


cdef char *put(char *to, const char *text, size_t size) noexcept nogil:
    memcpy(to, text, size)
    return to + size


cdef size_t write_key(Table table, const Field **fields, char *to) noexcept nogil:
    """Write the key of these fields, one for each key column; return its size, or 0 for a fallback.

    `to` has room for MAX_KEY bytes.
    """
    cdef char *start = to
    cdef const TableColumn *column
    cdef Text value
    cdef bint quote
    cdef int i
    to[0] = b'{'
    to += 1
    for i in range(table.keys):
        column = &table.columns[table.key_columns[i]]
        if not key_text(fields[i], &value):
            return 0
        if column.coarse and mode_of(column, fields[i]) == WRITE_FALLBACK:
            return 0
        if <size_t> (to - start) + column.name_size + value.size + 8 > MAX_KEY:
            return 0
        quote = table.key_as_text and fields[i].kind != JSON_STRING
        if i:
            to[0] = b','
            to += 1
        to[0] = b'"'
        to = put(to + 1, column.name, column.name_size)
        to[0], to[1] = b'"', b':'
        to += 2
        if quote:
            to[0] = b'"'
            to += 1
        to = put(to, value.text, value.size)
        if quote:
            to[0] = b'"'
            to += 1
    to[0] = b'}'
    return <size_t> (to + 1 - start)


cdef size_t write_partial_key(Table table, const Row *row, char *to) noexcept nogil:
    """Write the key of an image that may lack other columns; return its size, or 0."""
    cdef const Field *fields[MAX_KEYS]
    return write_key(table, fields, to) if find_key(table, row, fields) == table.keys else 0


cdef bint is_plain(const Field *field) noexcept nogil:
    """Return whether a text surely is the same in a key if the number in it counts."""
    cdef const char *p = field.text + 1
    cdef Field number
    cdef Text text
    number.text, number.size, number.kind, number.flags = p, field.size - 2, 0, 0
    if field.kind != JSON_STRING or not number.size or not (p[0] == b'-' or b'0' <= p[0] <= b'9'):
        return True
    if scan_number(p, p + number.size, &number.kind, &number.flags) != p + number.size:
        # Zeros in front are none of JSON's
        return p[0] != b'0' and not (p[0] == b'-' and number.size > 1 and p[1] == b'0')
    return key_text(&number, &text) and text.size == number.size


cdef bint has_plain_key(Table table, const Row *row) noexcept nogil:
    """Return whether the key's columns of an image, if there is one, surely are the same if numbers in texts count."""
    cdef const Field *fields[MAX_KEYS]
    cdef int k
    memset(fields, 0, sizeof(fields))
    if row.size and find_key(table, row, fields) < 0:
        return False
    for k in range(table.keys):
        if fields[k] != NULL and not is_plain(fields[k]):
            return False
    return True


cdef size_t written_size(Table table, const Row *row, Py_ssize_t rewritten) noexcept nogil:
    """Return how many bytes the row that was checked last needs to be written; 0: it is written as it came."""
    cdef size_t size = <size_t> (row.size + rewritten)
    cdef int i
    if row.count == table.count:
        return size if rewritten else 0
    for i in range(table.count):
        if table.columns[i].seen != table.row:
            size += table.columns[i].fill_size
    return size


cdef char *write_fields(const Row *row, const Typing *typing, const uint8_t *modes, char *to) noexcept nogil:
    """Write a row without its last brace, with the values that are written otherwise than they came."""
    cdef const char *done = row.text
    cdef const Field *field
    cdef Text came
    cdef int i
    for i in range(row.count):
        field = &row.fields[i]
        came.text, came.size = field.text, field.size
        if typing != NULL and typing.came[i].text != NULL:
            came = typing.came[i]
        elif modes[i] == WRITE_AS_IS:
            continue
        to = put(to, done, <size_t> (came.text - done))
        done = came.text + came.size
        if modes[i] == WRITE_AS_TEXT:
            to = put_json_text(to, field.text, field.size)
            continue
        if modes[i] == WRITE_QUOTED:
            to[0] = b'"'
            to += 1
        to = put(to, field.text, field.size)
        if modes[i] == WRITE_QUOTED:
            to[0] = b'"'
            to += 1
    return put(to, done, <size_t> (row.text + row.size - 1 - done))


cdef size_t write_row(
    Table table, const Row *row, const Typing *typing, const uint8_t *modes, Py_ssize_t rewritten, char *to
) noexcept nogil:
    """Write the row that was checked last, of which `written_size` is no zero, and return its size."""
    cdef char *start = to
    cdef const TableColumn *column
    cdef int i
    to = write_fields(row, typing, modes, to) if rewritten else put(to, row.text, <size_t> row.size - 1)
    if row.count < table.count:
        for i in range(table.count):
            column = &table.columns[table.order[i]]
            if column.seen != table.row:
                to = put(to, column.fill, column.fill_size)
    to[0] = b'}'
    return <size_t> (to + 1 - start)


# -- Keyed rows and tombstones -----------------------------------------------------------------------------------------


cdef struct Upsert:
    Text key
    Text old_key              # of the row before an update; a size of 0: that is not known
    const Row *row            # NULL: the record is a tombstone
    const Typing *typing
    Py_ssize_t rewritten
    int use                   # TargetUse: what happened
    bint moved                # the old key is another one


cdef bint check_upsert(Workspace *ws, Table table, const Change *change, char *keys, Upsert *made) noexcept nogil:
    """Check the row of an insert or an update, and write its key, and behind it that of the row before."""
    cdef const Row *row = &ws.after
    cdef const Field *fields[MAX_KEYS]
    cdef int found
    made.typing = &ws.typing if change.typed else NULL
    if not row.size or not check_row(table, row, made.typing, ws.modes, &made.rewritten):
        return False
    if change.form == FORM_DEBEZIUM and lacks_values(row):
        return False
    if not key_fields(table, row, fields):
        return False
    made.key.size = write_key(table, fields, keys)
    if not made.key.size:
        return False
    if change.op == b'u' and ws.before.size:
        # Debezium's is the row as it was; Canal's has only what changed
        found = find_key(table, &ws.before, fields)
        if found < 0 or (change.form != FORM_CANAL and found != table.keys):
            return False
        if found:
            made.old_key.size = write_key(table, fields, keys + made.key.size)
            if not made.old_key.size:
                return False
    made.row = row
    return True


cdef bint check_change(Workspace *ws, Table table, const Change *change, char *keys, Upsert *made) noexcept nogil:
    """Check a change, and write its keys where there is room for two of them; False for a fallback."""
    cdef const Row *row
    made.key.text, made.key.size = keys, 0
    made.old_key.size = 0
    made.row, made.typing, made.rewritten, made.moved = NULL, NULL, 0, False
    if change.op == b'c' or change.op == b'r' or change.op == b'u':
        made.use = TARGET_UPDATE if change.op == b'u' else TARGET_INSERT
        if not check_upsert(ws, table, change, keys, made):
            return False
    elif change.op == b'd':
        if table.deletes_are_rows:
            return False
        made.use = TARGET_DELETE
        row = &ws.after if change.form == FORM_CANAL else &ws.before
        if row.size:
            made.key.size = write_partial_key(table, row, keys)
        if not made.key.size:
            return False
    else:
        return False
    if made.old_key.size:
        made.old_key.text = keys + made.key.size
        made.moved = made.old_key.size != made.key.size or memcmp(made.old_key.text, keys, made.key.size) != 0
        if made.moved and table.deletes_are_rows:
            return False
    if table.key_from_message and change.message_key.text != NULL:
        if change.message_key.size == made.key.size and not memcmp(change.message_key.text, keys, made.key.size):
            return True
        return has_key_columns(table, change.message_key, &ws.message_key)
    return True


cdef int add_upsert(Workspace *ws, Table table, const Change *change, EncodedBatch batch) except -1:
    """Add the records of a change, all or none: returns 1, or 0 for a fallback."""
    cdef Upsert made
    cdef Text value
    cdef size_t size
    cdef char *to = reserve(batch, 2 * MAX_KEY)
    if not check_change(ws, table, change, to, &made):
        return 0
    keep(batch, made.key.size + (made.old_key.size if made.moved else 0))
    value.text, value.size = NULL, 0
    if made.row != NULL:
        size = written_size(table, made.row, made.rewritten)
        if size:
            to = reserve(batch, size)
            value.size = write_row(table, made.row, made.typing, ws.modes, made.rewritten, to)
            value.text = to
            keep(batch, value.size)
        else:
            value.text, value.size = made.row.text, <size_t> made.row.size
            if change.composed:  # the batch lives on
                to = reserve(batch, value.size)
                memcpy(to, value.text, value.size)
                value.text = to
                keep(batch, value.size)
    count_change(table, made.use, made.key.size + (made.old_key.size if made.moved else 0) + value.size)
    target = target_in(table, batch)
    if made.moved:
        add_record(batch, target, made.old_key.text, made.old_key.size, NULL, 0)
    add_record(batch, target, made.key.text, made.key.size, value.text, value.size)
    return 1


# -- Tables ------------------------------------------------------------------------------------------------------------


cdef class RowEncoder(Table):
    """Checks and writes rows as a `RowEncoderSpec` says. `reference`: the encoder that keeps the counters."""

    def __cinit__(self, spec, reference, destination):
        cdef int use
        if spec.template is not None:
            self.template = RecordAssembler(self, spec.template)
        if spec.transform is not None:
            self.transform = TransformInput(self, spec.transform)
        if spec.results is not None:
            self.results = ResultRows(spec.results)
        if spec.targets is not None:
            if len(spec.targets) != <int> TARGET_USES:
                raise ValueError("not one target for each use")
            for use in range(<int> TARGET_USES):
                if spec.targets[use] < 0:
                    raise ValueError("no such target")
                self.targets[use] = spec.targets[use]
            self.has_targets = True


cdef bint is_for(Workspace *ws, RowEncoder encoder, RowCodec codec, Change *change) except -1:
    """Return whether a change can be encoded as far as its key's columns and its values' forms go.

    `codec`: what its message says of the types of values that are as they came, or None.
    """
    if encoder.key_from_message and change.named and not is_key(encoder, change.names, change.named):
        return False
    if change.sparse and ws.after.count < encoder.own:
        return False  # the reference says what it lacks
    if (codec is not None or encoder.declares or encoder.transform is not None) and not read_images(
        ws, encoder, codec, change, encoder.transform is not None
    ):
        return False
    return not change.numbers or (has_plain_key(encoder, &ws.before) and has_plain_key(encoder, &ws.after))


cdef int encode_change(
    Workspace *ws, RowEncoder encoder, RowCodec codec, Change *change, EncodedBatch batch
) except -1:
    """Add the records of a change, all or none: returns 1, or 0 for a fallback. `codec`: see `is_for`."""
    if encoder.transform is not None or not is_for(ws, encoder, codec, change):
        return 0
    if encoder.template is not None:
        return encoder.template.add(ws, encoder, change, batch)
    return add_upsert(ws, encoder, change, batch)


cdef int feed_change(
    Workspace *ws, RowEncoder encoder, RowCodec codec, Change *change, TransformRows rows
) except -1:
    """Add the rows of a change for expressions, all or none: returns 1, or 0 for a fallback. `codec`: see `is_for`."""
    if encoder.transform is None and not encoder.has_targets:
        return 0
    if not is_for(ws, encoder, codec, change):
        return 0
    if encoder.transform is not None:
        return encoder.transform.add(ws, encoder, change, rows)
    if encoder.template is not None:
        return encoder.template.add_ready(ws, encoder, change, encoder.targets, rows)
    return add_ready(ws, encoder, change, rows)


cdef int add_ready(Workspace *ws, RowEncoder encoder, const Change *change, TransformRows rows) except -1:
    """Add the records of a change whose table's rows go to no expression: returns 1, or 0 for a fallback."""
    cdef char keys[2 * MAX_KEY]
    cdef Upsert made
    cdef Text value
    cdef size_t size
    cdef char *to
    if not check_change(ws, encoder, change, keys, &made):
        return 0
    if made.moved:
        rows.add_ready(encoder.targets[<int> TARGET_OLD_KEY], made.old_key.text, made.old_key.size, NULL, 0)
    value.text, value.size = NULL, 0
    if made.row != NULL:
        value.text, value.size = made.row.text, <size_t> made.row.size
        size = written_size(encoder, made.row, made.rewritten)
        if size:
            to = room_for(&ws.row, size)
            value.text, value.size = to, write_row(encoder, made.row, made.typing, ws.modes, made.rewritten, to)
    rows.add_ready(encoder.targets[made.use], made.key.text, made.key.size, value.text, value.size)
    return 1
