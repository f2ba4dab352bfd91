# cython: language_level=3, boundscheck=False, wraparound=False
"""Records that are put together; see template.pxd."""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcmp, memcpy

from ingest.native.change cimport Change, Room, Workspace, room_for, text_of_bytes
from ingest.native.codes cimport (
    FORM_CANAL, SEGMENT_BEFORE, SEGMENT_CSV, SEGMENT_JSON, SEGMENT_TEXT, TARGET_DELETE, TARGET_INSERT, TARGET_OLD_KEY,
    TARGET_UPDATE, WRITE_AS_IS, WRITE_AS_TEXT, WRITE_QUOTED,
)
from ingest.native.images cimport Images, check_images
from ingest.native.records cimport EncodedBatch, add_record, keep, reserve
from ingest.native.scan cimport (
    HAS_ESCAPES, JSON_ARRAY, JSON_NULL, JSON_OBJECT, JSON_STRING, Field, Text, key_text, put_json_text,
)
from ingest.native.table cimport Table, TableColumn, count_change, target_in
from ingest.native.transform_rows cimport TransformRows


cdef struct Assembled:        # a record that was put together: its key, an old key, its value
    size_t key_end
    size_t old_end
    size_t end
    int use                   # TargetUse: what happened
    bint moved                # the old key is another one
    bint valued               # it has a value


# -- Bytes behind others -----------------------------------------------------------------------------------------------


cdef int put(Room *room, size_t *size, const char *text, size_t more) except -1:
    """Put bytes behind those that are there."""
    cdef char *to = room_for(room, size[0] + more)
    if more:
        memcpy(to + size[0], text, more)
    size[0] += more
    return 0


cdef int put_value(Room *room, size_t *size, const Field *field, uint8_t mode) except -1:
    cdef char *to
    if mode == WRITE_AS_TEXT:
        to = room_for(room, size[0] + <size_t> field.size * 2 + 2)
        size[0] = <size_t> (put_json_text(to + size[0], field.text, field.size) - to)
        return 0
    if mode == WRITE_QUOTED:
        put(room, size, b'"', 1)
    put(room, size, field.text, field.size)
    if mode == WRITE_QUOTED:
        put(room, size, b'"', 1)
    return 0


cdef bint put_csv(Room *room, size_t *size, const Field *field, uint8_t mode) except -1:
    """Put a value as a field of a line; False for a fallback. What has no escapes has no quotes."""
    if field.kind == JSON_NULL:
        return True
    if mode == WRITE_AS_TEXT or field.flags & HAS_ESCAPES or field.kind == JSON_OBJECT or field.kind == JSON_ARRAY:
        return False
    put_value(room, size, field, mode)
    return True


# -- Templates ---------------------------------------------------------------------------------------------------------


cdef int read_segments(given, Segments *made, int columns, bint before) except -1:
    """Take segments; `columns`: how many places there are. `before`: whether there is a row before. Raises ValueError."""
    cdef Text text
    cdef Segment *segment
    cdef tuple segments = given
    made.segments = <Segment *> PyMem_Calloc(<size_t> len(segments) + 1, sizeof(Segment))
    if not made.segments:
        raise MemoryError
    for spec in segments:
        segment = &made.segments[made.count]
        text_of_bytes(spec.text, &text)
        segment.text, segment.size = text.text, text.size
        segment.kind, segment.column = spec.kind, spec.column
        if segment.kind == SEGMENT_JSON or segment.kind == SEGMENT_CSV:
            good = 0 <= segment.column < columns
        else:
            good = segment.kind == SEGMENT_TEXT or (segment.kind == SEGMENT_BEFORE and before)
        if not good:
            raise ValueError("a segment of no such column, or of no such kind")
        made.count += 1
    return 0


cdef class RecordAssembler:
    """Puts the records of a table together, of the segments that a `TemplateSpec` has."""

    def __cinit__(self, Table table, spec):
        self.spec = (spec.key, spec.insert, spec.update, spec.update_alone, spec.delete)
        self.keyed = spec.key is not None
        self.writes_deletes = spec.delete is not None
        self.clears_old_key, self.splits = spec.clears_old_key, spec.splits
        if self.keyed:
            read_segments(spec.key, &self.key, table.keys, False)
        # The row before is known of an update and of a delete
        read_segments(spec.insert, &self.insert, table.count, False)
        read_segments(spec.update, &self.update, table.count, True)
        read_segments(spec.update_alone, &self.update_alone, table.count, False)
        if self.writes_deletes:
            read_segments(spec.delete, &self.delete, table.count, True)

    def __dealloc__(self):
        PyMem_Free(self.key.segments)
        PyMem_Free(self.insert.segments)
        PyMem_Free(self.update.segments)
        PyMem_Free(self.update_alone.segments)
        PyMem_Free(self.delete.segments)

    cdef int add(self, Workspace *ws, Table table, const Change *change, EncodedBatch batch) except -1:
        """Add the records of a change, all or none: returns 1, or 0 for a fallback."""
        cdef Assembled made
        if not assemble(self, ws, table, change, &made):
            return 0
        cdef char *text = reserve(batch, made.end)
        if made.end:
            memcpy(text, ws.row.bytes, made.end)
        keep(batch, made.end)
        count_change(table, made.use, made.end if made.moved else made.end - (made.old_end - made.key_end))
        target = target_in(table, batch)
        if made.moved:
            add_record(batch, target, text + made.key_end, made.old_end - made.key_end, NULL, 0)
        add_record(
            batch, target, text if self.keyed else NULL, made.key_end, text + made.old_end if made.valued else NULL,
            made.end - made.old_end,
        )
        return 1

    cdef int add_ready(
        self, Workspace *ws, Table table, const Change *change, const int32_t *targets, TransformRows rows
    ) except -1:
        """Add the records of a change to rows that go to no expression: returns 1, or 0 for a fallback.

        `targets`: the table's, for each TargetUse.
        """
        cdef Assembled made
        if not assemble(self, ws, table, change, &made):
            return 0
        cdef const char *text = ws.row.bytes
        cdef size_t size = made.end - made.old_end
        if made.moved:
            rows.add_ready(
                targets[<int> TARGET_OLD_KEY], text + made.key_end, made.old_end - made.key_end, NULL, 0
            )
        rows.add_ready(
            targets[made.use], text if self.keyed else NULL, made.key_end, text + made.old_end if made.valued else NULL,
            size,
        )
        return 1


cdef bint assemble(
    RecordAssembler template, Workspace *ws, Table table, const Change *change, Assembled *made
) except -1:
    """Put the records of a change together in `ws.row`; False for a fallback."""
    cdef Images images
    cdef bint both = change.op == b'u' and ws.before.size != 0
    cdef int old_columns = 0
    cdef const Segments *body
    if change.op == b'd' and not template.writes_deletes and not template.keyed:
        return False
    if not check_images(ws, table, change, &images, &old_columns):
        return False
    if template.splits and both and old_columns > 0 and is_moved(table, &images):
        return False
    cdef bint moves = template.clears_old_key and template.keyed and both
    moves = moves and (old_columns > 0 if change.form == FORM_CANAL else old_columns == table.keys)
    made.key_end = 0
    if template.keyed and not put_key(template, ws, table, images.fields, &made.key_end):
        return False
    made.old_end = made.key_end
    if moves and not put_key(template, ws, table, images.old_fields, &made.old_end):
        return False
    made.end = made.old_end
    if change.op == b'd':
        made.use, body = TARGET_DELETE, &template.delete if template.writes_deletes else NULL
    elif change.op == b'u':
        made.use, body = TARGET_UPDATE, &template.update if both else &template.update_alone
    else:
        made.use, body = TARGET_INSERT, &template.insert
    made.valued = body != NULL
    if made.valued and not put_body(ws, table, body, &images, &made.end):
        return False
    cdef const char *text = room_for(&ws.row, made.end + 1)  # there may have been nothing to put
    made.moved = moves and (
        made.old_end - made.key_end != made.key_end or memcmp(text + made.key_end, text, made.key_end) != 0
    )
    return True


cdef bint is_moved(Table table, const Images *images) noexcept nogil:
    """Return whether the row before has another key, or one of which only the reference can say that."""
    cdef Text new, old
    cdef int i
    for i in range(table.keys):
        if not key_text(images.fields[i], &new) or not key_text(images.old_fields[i], &old):
            return True
        if new.size != old.size or memcmp(new.text, old.text, new.size) != 0:
            return True
    return False


# -- Records -----------------------------------------------------------------------------------------------------------


cdef bint put_key(RecordAssembler template, Workspace *ws, Table table, const Field **fields, size_t *size) except -1:
    """Put a key together behind what is there, of these fields; False for a fallback."""
    cdef Segment *segment
    cdef const Field *field
    cdef Text value
    cdef bint quote
    cdef int i
    for i in range(template.key.count):
        segment = &template.key.segments[i]
        if segment.kind == SEGMENT_TEXT:
            put(&ws.row, size, segment.text, segment.size)
            continue
        field = fields[segment.column]
        if not key_text(field, &value):
            return False
        quote = table.key_as_text and field.kind != JSON_STRING
        if quote:
            put(&ws.row, size, b'"', 1)
        put(&ws.row, size, value.text, value.size)
        if quote:
            put(&ws.row, size, b'"', 1)
    return True


cdef int put_image(Workspace *ws, Table table, const Images *images, size_t *size) except -1:
    """Put an image, by its columns' order; or by the sink's where it is laid over the row."""
    cdef int count = table.count if images.over else images.image.count
    cdef const Field *field
    cdef const TableColumn *column
    cdef uint8_t mode
    cdef int i
    for i in range(count):
        mode = WRITE_AS_IS
        if not images.over:
            field = &images.image.fields[i]
            mode = ws.before_modes[i]
            put(&ws.row, size, b',"' if i else b'{"', 2)
            put(&ws.row, size, field.name, field.name_size)
        else:
            field = NULL
            column = &table.columns[table.order[i]]
            if column.had == images.mark:
                field = &images.image.fields[column.was]
                mode = ws.before_modes[column.was]
            elif column.seen == table.row:
                field = &images.row.fields[column.at]
                mode = ws.modes[column.at]
            put(&ws.row, size, b',"' if i else b'{"', 2)
            put(&ws.row, size, column.name, column.name_size)
        put(&ws.row, size, b'":', 2)
        if field != NULL:
            put_value(&ws.row, size, field, mode)
        else:
            put(&ws.row, size, b"null", 4)
    return put(&ws.row, size, b"}" if count else b"{}", 1 if count else 2)


cdef bint put_body(Workspace *ws, Table table, const Segments *body, const Images *images, size_t *size) except -1:
    """Put a value together behind what is there; False for a fallback."""
    cdef Segment *segment
    cdef const TableColumn *column
    cdef const Field *field
    cdef int i
    for i in range(body.count):
        segment = &body.segments[i]
        if segment.kind == SEGMENT_TEXT:
            put(&ws.row, size, segment.text, segment.size)
            continue
        if segment.kind == SEGMENT_BEFORE:
            put_image(ws, table, images, size)
            continue
        column = &table.columns[segment.column]
        if column.seen != table.row:
            if segment.kind == SEGMENT_JSON:
                put(&ws.row, size, b"null", 4)
            continue
        field = &images.row.fields[column.at]
        if segment.kind == SEGMENT_JSON:
            put_value(&ws.row, size, field, ws.modes[column.at])
        elif not put_csv(&ws.row, size, field, ws.modes[column.at]):
            return False
    return True
