# cython: language_level=3, boundscheck=False, wraparound=False
"""Changes that become keyed rows and tombstones; see upserts.pxd."""

from libc.stdint cimport int64_t
from libc.string cimport memcmp, memcpy

from ingest.native.codes cimport FORM_CANAL, FORM_DEBEZIUM, TARGET_DELETE, TARGET_INSERT, TARGET_UPDATE
from ingest.native.messages cimport Change
from ingest.native.records cimport EncodedBatch, add_record, keep, reserve
from ingest.native.rows cimport (
    MAX_KEY, check_row, find_key, has_key_columns, key_fields, lacks_values, write_key, write_partial_key, write_row,
    written_size,
)
from ingest.native.scan cimport Field, Row, Text
from ingest.native.table cimport MAX_KEYS, Table, target_in, touch
from ingest.native.workspace cimport Workspace


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


cdef int count_change(Table table, int use, size_t size) except -1:
    """Count a change that was written, in so many bytes of keys and values."""
    touch(table)
    table.bytes_out += <int64_t> size
    if use == TARGET_UPDATE:
        table.updated += 1
    elif use == TARGET_INSERT:
        table.inserted += 1
    else:
        table.deleted += 1
    return 0


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
