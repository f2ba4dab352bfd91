# cython: language_level=3, boundscheck=False, wraparound=False
"""Images of a change: in the form of their types, and checked against their table; see images.pxd."""

from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy

from ingest.native.change cimport Change, Typing, Workspace, room_for
from ingest.native.codes cimport (
    COLUMN_BOOL, COLUMN_DECIMAL, COLUMN_DOUBLE, COLUMN_EXACT_FLOAT, COLUMN_INT, COLUMN_TIMESTAMP, FORM_CANAL,
    FORM_DEBEZIUM, WRITE_FALLBACK,
)
from ingest.native.message_schemas cimport RowCodec
from ingest.native.scan cimport (
    HAS_ESCAPES, MAX_FIELDS, MAX_MADE, Field, Row, Text, is_named, read_spelled_timestamp, read_trimmed_boolean,
    read_trimmed_integer, read_trimmed_number,
)
from ingest.native.table cimport (
    Table, TableColumn, check_row, column_of, find_key, has_key_columns, key_fields, lacks_values, mode_in_row,
)


# -- Spellings ---------------------------------------------------------------------------------------------------------


cdef bint respell(const TableColumn *column, Field *field, char **to) noexcept nogil:
    """Put a value that its column does not take in the text of the column's type; False for a fallback.

    Whether it is of the type then is to be seen.
    """
    if column.key >= 0 or field.flags & HAS_ESCAPES:
        return False
    if column.kind == COLUMN_BOOL:
        return read_trimmed_boolean(field)
    if column.kind == COLUMN_INT:
        return read_trimmed_integer(field)
    if COLUMN_DOUBLE <= column.kind <= COLUMN_EXACT_FLOAT or column.kind == COLUMN_DECIMAL:
        return read_trimmed_number(field)
    if column.kind == COLUMN_TIMESTAMP:
        return read_spelled_timestamp(field, column.separator, column.zoned, to)
    return False


cdef bint respell_row(Table table, Row *row, Typing *typing, bint declared, char **to, bint *any) noexcept nogil:
    """Put values that columns of declared types do not take as they came in their types' texts; False for a fallback.

    `declared`: whether the message says something of the row, which `typing` has. `any`: whether there are such values.
    """
    cdef int next = 0, i
    cdef Field *field
    cdef const TableColumn *column
    cdef Text came
    for i in range(row.count):
        field = &row.fields[i]
        if not declared:
            typing.came[i].text = NULL
            typing.types[i] = 0
        column = column_of(table, field, &next)
        if column == NULL or not column.spelling or mode_in_row(column, row, i, typing) != WRITE_FALLBACK:
            continue
        came.text, came.size = field.text, field.size
        if not respell(column, field, to):
            return False
        if typing.came[i].text == NULL:
            typing.came[i] = came
        typing.types[i] = 0
        any[0] = True
    return True


# -- Rows that are written anew ----------------------------------------------------------------------------------------


cdef size_t room_to_read(const Row *row) noexcept nogil:
    """Return how much room reading a row may need, and writing it anew once more, and the row's own size."""
    return <size_t> row.size * 2 + <size_t> row.count * MAX_MADE * 2


cdef char *put_field(char *to, Field *field, bint last) noexcept nogil:
    """Write a field behind others, and let it be there; return where that ends."""
    memcpy(to, field.name - 1, field.name_size + 2)
    field.name = to + 1
    to += field.name_size + 2
    to[0] = b':'
    memcpy(to + 1, field.text, field.size)
    field.text = to + 1
    to += field.size + 1
    to[0] = b'}' if last else b','
    return to + 1


cdef bint restate_row(Row *row, Typing *typing, char **to) noexcept nogil:
    """Write a row with what its values are now, where any of them changed: then it is as if it had come so.

    Returns False for a fallback: rows that are written anew have no white space, and the reference sees to that.
    """
    cdef Py_ssize_t compact = 1 + (not row.count)
    cdef bint changed = False
    cdef char *p = to[0]
    cdef int i
    for i in range(row.count):
        changed |= typing.came[i].text != NULL
        compact += row.fields[i].name_size + 4
        compact += <Py_ssize_t> typing.came[i].size if typing.came[i].text != NULL else row.fields[i].size
    if not changed:
        return True
    if row.size != compact:
        return False
    row.text = p
    p[0] = b'{'
    p += 1
    for i in range(row.count):
        p = put_field(p, &row.fields[i], i + 1 == row.count)
        typing.came[i].text = NULL
    row.size = p - row.text
    row.end = p
    to[0] = p
    return True


cdef bint match_fields(const Row *old, const Row *row, int *places) noexcept nogil:
    """Put in the places that a row's fields have in an image, or -1; False where it has others, or one twice."""
    cdef int next = 0, i, _
    for i in range(row.count):
        places[i] = -1
    for i in range(old.count):
        for _ in range(row.count):
            if next >= row.count:
                next = 0
            if is_named(&old.fields[i], row.fields[next].name, row.fields[next].name_size):
                break
            next += 1
        else:
            return False
        if places[next] >= 0:
            return False
        places[next] = i
    return True


cdef bint lay_over(
    Row *whole, Row *old, Typing *old_typing, const Row *row, const Typing *typing, char **to
) noexcept nogil:
    """Fill in an image that holds what changed: what it lacks is as in the row after. False for a fallback.

    `whole` is room for a row; `typing` and `old_typing`: what is known of them, or NULL.
    """
    cdef int places[MAX_FIELDS]
    cdef int32_t types[MAX_FIELDS]
    cdef char *p = to[0]
    cdef int i
    if not row.count or not match_fields(old, row, places):
        return False
    whole.text = p
    p[0] = b'{'
    p += 1
    for i in range(row.count):
        whole.fields[i] = row.fields[i] if places[i] < 0 else old.fields[places[i]]
        p = put_field(p, &whole.fields[i], i + 1 == row.count)
        if typing != NULL:
            types[i] = typing.types[i] if places[i] < 0 else old_typing.types[places[i]]
    old.text = whole.text
    old.size = p - whole.text
    old.end = p
    old.count = row.count
    memcpy(old.fields, whole.fields, <size_t> row.count * sizeof(Field))
    if typing != NULL:
        for i in range(row.count):
            old_typing.types[i] = types[i]
            old_typing.came[i].text = NULL
    to[0] = p
    return True


# -- Images ------------------------------------------------------------------------------------------------------------


cdef bint read_image(
    Table table, RowCodec codec, Row *row, Typing *typing, bint known, char **to, bint *typed
) noexcept nogil:
    """Put an image's values in the form of their types; False for a fallback. `known`: `typing` is filled then."""
    if codec is not None and not codec.read_row(row, typing, to):
        return False
    return not table.declares or respell_row(table, row, typing, known, to, typed)


cdef bint read_images(Workspace *ws, Table table, RowCodec codec, Change *change, bint fed) except -1:
    """Put the values of the rows before and after in the form of their types, if the message or the pipeline tells them.

    Returns False for a fallback. `codec`: None also where that was read already, and the change is `typed`. `fed`: the
    rows go to expressions, as if they had come in that form.
    """
    cdef bint canal = change.form == FORM_CANAL
    # Canal's row before a change is looked at for updates only, and Debezium's row after a delete never
    cdef Row *old = &ws.before if ws.before.size and (not canal or change.op == b'u') else NULL
    cdef Row *row = &ws.after if ws.after.size and (canal or change.op != b'd') else NULL
    cdef bint over = fed and canal and old != NULL and row != NULL
    cdef size_t room = 0
    cdef char *to
    cdef Typing *old_typing = &ws.before_typing
    cdef Typing *typing = &ws.typing
    cdef bint known = change.extended or codec is not None
    change.typed = known
    if codec is None and not over and not table.declares:
        return True
    if old != NULL:
        room += room_to_read(old)
    if row != NULL:
        room += room_to_read(row)
    to = room_for(&ws.made, room * 4 if fed else room)
    if old != NULL and not read_image(table, codec, old, old_typing, known, &to, &change.typed):
        return False
    if row != NULL and not read_image(table, codec, row, typing, known, &to, &change.typed):
        return False
    if not change.typed:
        old_typing = typing = NULL
    if typing != NULL and fed:
        if old != NULL and not restate_row(old, old_typing, &to):
            return False
        if row != NULL and not restate_row(row, typing, &to):
            return False
    return not over or lay_over(&ws.composed, old, old_typing, row, typing, &to)


# -- Images that are checked -------------------------------------------------------------------------------------------


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
