# cython: language_level=3, boundscheck=False, wraparound=False
"""Images of a change, checked before its records are put together; see change_images.pxd."""

from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from ingest.native.codes cimport FORM_CANAL, FORM_DEBEZIUM, WRITE_FALLBACK
from ingest.native.messages cimport Change
from ingest.native.rows cimport (
    check_row, column_of, find_key, has_key_columns, key_fields, lacks_values, mode_in_row,
)
from ingest.native.scan cimport Field, Row, is_named
from ingest.native.table cimport TableColumn, Table
from ingest.native.workspace cimport Typing, Workspace


cdef bint check_image(Table table, const Row *row, const Typing *typing, uint8_t *modes) noexcept nogil:
    """Check an image, which may lack columns, and note where they are; False for a fallback.

    Its columns are those that `had` the number that table.row has then.
    """
    cdef int next = 0, i
    cdef TableColumn *column
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


cdef bint begins_with(const Row *row, const Row *key) noexcept nogil:
    """Return whether a deleted row's first columns are those of its message's key: the reference has them first."""
    cdef const Field *column
    cdef int i
    for i in range(key.count):
        column = &key.fields[i]
        if i >= row.count or not is_named(&row.fields[i], column.name, column.name_size):
            return False
    return True


cdef bint check_delete(
    Workspace *ws, Table table, const Change *change, const Typing *typing, Images *images
) noexcept nogil:
    """Check the image of a delete, which has the key."""
    cdef const Row *row = images.image
    if change.form == FORM_DEBEZIUM and lacks_values(row):
        return False
    if not row.count or not check_image(table, row, typing, ws.before_modes):
        return False
    if find_key(table, row, images.fields) != table.keys:
        return False
    if change.message_key.text == NULL:
        return True
    return has_key_columns(table, change.message_key, &ws.message_key) and begins_with(row, &ws.message_key)


cdef bint check_images(
    Workspace *ws, Table table, const Change *change, Images *images, int *old_columns
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
        return check_delete(ws, table, change, typing, images)
    images.row, images.image = row, &ws.before if both else NULL
    if both and not check_image(table, &ws.before, old_typing, ws.before_modes):
        return False
    if both and change.form == FORM_DEBEZIUM and lacks_values(&ws.before):
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
