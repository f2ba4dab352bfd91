# cython: language_level=3, boundscheck=False, wraparound=False
"""Records that are put together; see template.pxd."""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from ingest.native.codes cimport (
    FORM_CANAL, FORM_DEBEZIUM, SEGMENT_BEFORE, SEGMENT_CSV, SEGMENT_JSON, SEGMENT_TEXT, TARGET_DELETE, TARGET_INSERT,
    TARGET_UPDATE, WRITE_AS_IS, WRITE_AS_TEXT, WRITE_FALLBACK, WRITE_QUOTED,
)
from ingest.native.messages cimport Change
from ingest.native.records cimport EncodedBatch, add_record, keep, reserve
from ingest.native.rows cimport (
    check_row, column_of, find_key, has_key_columns, key_fields, lacks_values, mode_in_row,
)
from ingest.native.scan cimport (
    HAS_ESCAPES, JSON_ARRAY, JSON_NULL, JSON_OBJECT, JSON_STRING, Field, Row, Text, is_named, key_text, put_json_text,
)
from ingest.native.table cimport MAX_KEYS, Column, Table, target_in, text_of_bytes
from ingest.native.upserts cimport count_change
from ingest.native.workspace cimport Room, Typing, Workspace, room_for


cdef struct Images:           # what there is to put records together of
    const Row *row            # the row after, or NULL
    const Row *image          # the row before, or NULL
    uint64_t mark             # of the columns that the image has
    bint over                 # what the image lacks is as in the row
    const Field *fields[MAX_KEYS]      # of the key
    const Field *old_fields[MAX_KEYS]  # of the key before an update


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


cdef class RecordTemplate:
    """The pieces that records of a table are put together of, from a `TemplateSpec`."""

    def __cinit__(self, Table table, spec):
        self.spec = (spec.key, spec.insert, spec.update, spec.update_alone, spec.delete)
        self.keyed = spec.key is not None
        self.writes_deletes = spec.delete is not None
        self.clears_old_key = spec.clears_old_key
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
        cdef Images images
        cdef bint deleted = change.op == b'd', both = change.op == b'u' and ws.before.size != 0
        cdef size_t key_end = 0, old_end, end
        cdef const Segments *body
        cdef int old_columns = 0
        if not check(self, ws, table, change, &images, &old_columns):
            return 0
        cdef bint moves = self.clears_old_key and self.keyed and both
        moves = moves and (old_columns > 0 if change.form == FORM_CANAL else old_columns == table.keys)
        if self.keyed and not put_key(self, ws, table, images.fields, &key_end):
            return 0
        old_end = key_end
        if moves and not put_key(self, ws, table, images.old_fields, &old_end):
            return 0
        end = old_end
        if deleted:
            body = &self.delete if self.writes_deletes else NULL
        elif change.op != b'u':
            body = &self.insert
        else:
            body = &self.update if both else &self.update_alone
        if body != NULL and not put_body(ws, table, body, &images, &end):
            return 0
        cdef char *text = reserve(batch, end)
        if end:
            memcpy(text, ws.row.bytes, end)
        keep(batch, end)
        count_change(table, TARGET_DELETE if deleted else TARGET_UPDATE if change.op == b'u' else TARGET_INSERT)
        target = target_in(table, batch)
        if moves and (old_end - key_end != key_end or memcmp(text + key_end, text, key_end)):
            add_record(batch, target, text + key_end, old_end - key_end, NULL, 0)
        add_record(
            batch, target, text if self.keyed else NULL, key_end, text + old_end if body != NULL else NULL, end - old_end
        )
        return 1


# -- Changes -----------------------------------------------------------------------------------------------------------


cdef bint check_image(Table table, const Row *row, const Typing *typing, uint8_t *modes) noexcept nogil:
    """Check an image, which may lack columns, and note where they are; False for a fallback.

    Its columns are those that `had` the number that table.row has then.
    """
    cdef int next = 0, i
    cdef Column *column
    table.row += 1
    for i in range(row.count):
        column = column_of(table, &row.fields[i], &next)
        if column == NULL or column.had == table.row:
            return False
        column.had = table.row
        column.was = i
        modes[i] = mode_in_row(column, row, i, typing)
        if modes[i] == WRITE_FALLBACK:
            return False
    return True


cdef bint check_delete(
    Workspace *ws, Table table, const Change *change, const Typing *typing, Images *images
) noexcept nogil:
    """Check the image of a delete, which has the key."""
    cdef const Row *row = images.image
    cdef const Field *other
    cdef int i
    if not check_image(table, row, typing, ws.before_modes) or find_key(table, row, images.fields) != table.keys:
        return False
    if change.message_key.text == NULL:
        return True
    # The reference has the key's columns first then
    if not has_key_columns(table, change.message_key, &ws.message_key):
        return False
    for i in range(table.keys):
        other = &ws.message_key.fields[i]
        if not is_named(&row.fields[i], other.name, other.name_size):
            return False
    return True


cdef bint check(
    RecordTemplate template, Workspace *ws, Table table, const Change *change, Images *images, int *old_columns
) noexcept nogil:
    """Check a change, and put in its images; False for a fallback. `old_columns`: those of the old key that are known."""
    cdef bint updated = change.op == b'u', deleted = change.op == b'd', canal = change.form == FORM_CANAL
    cdef bint both = updated and ws.before.size != 0
    cdef const Row *row = &ws.before if deleted and not canal else &ws.after
    cdef const Typing *old_typing = &ws.before_typing if change.typed else NULL
    cdef const Typing *typing = old_typing
    cdef Py_ssize_t rewritten
    if not (updated or deleted or change.op == b'c' or change.op == b'r') or not row.size:
        return False
    if change.typed and row != &ws.before:
        typing = &ws.typing
    images.mark, images.over = 0, both and canal
    if deleted:
        images.row, images.image = NULL, row
        if not template.writes_deletes and not template.keyed:
            return False
        return check_delete(ws, table, change, typing, images)
    images.row, images.image = row, &ws.before if both else NULL
    if both and not check_image(table, &ws.before, old_typing, ws.before_modes):
        return False
    images.mark = table.row
    if not check_row(table, row, typing, ws.modes, &rewritten):
        return False
    if (change.form == FORM_DEBEZIUM and lacks_values(row)) or not key_fields(table, row, images.fields):
        return False
    memcpy(images.old_fields, images.fields, <size_t> table.keys * sizeof(const Field *))
    if table.key_from_message and change.message_key.text != NULL:
        if not has_key_columns(table, change.message_key, &ws.message_key):
            return False
    if both:
        old_columns[0] = find_key(table, &ws.before, images.old_fields)
    return old_columns[0] >= 0


cdef bint put_key(RecordTemplate template, Workspace *ws, Table table, const Field **fields, size_t *size) except -1:
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
    cdef const Column *column
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
    cdef const Column *column
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
