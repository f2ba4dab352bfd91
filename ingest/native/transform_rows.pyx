# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows on their way to expressions; see transform_rows.pxd."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.conversion cimport PyOS_string_to_double
from cpython.long cimport PyLong_AsLongLong
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Realloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset, strlen

from ingest.native.change cimport Change, Workspace
from ingest.native.codes cimport COLUMN_BOOL, COLUMN_DOUBLE, COLUMN_EXACT_FLOAT, COLUMN_INT, FORM_CANAL, FORM_DEBEZIUM
from ingest.native.images cimport begins_with
from ingest.native.scan cimport (
    HAS_ESCAPES, JSON_NULL, JSON_STRING, MAX_FIELDS, Field, Row, Text, int_of, read_short_double,
)
from ingest.native.table cimport (
    Table, TableColumn, check_row, has_key_columns, is_compact, lacks_values, places_of, scan_message_key,
)
from ingest.encode import compiled_transform


cdef enum:
    MAX_ROWS = 1 << 28        # what is computed of their number stays in range

cdef const char *META_KINDS = b"iilissi"
cdef uint64_t rows_made = 0


cdef size_t width_of(char kind) noexcept nogil:
    return 4 if kind == b'i' else 1 if kind == b'b' else 0 if kind == b's' else 8


# -- Values of a row that is there only when `count` says so: what was put for another try is written over --------------


cdef int put_text(TransformRows rows, int column, Py_ssize_t row, const char *text, size_t size) except -1:
    cdef RowColumn *col = &rows.cols[column]
    cdef size_t start = <size_t> col.ends[row - 1] if row else 0
    cdef size_t room
    if start + size > INT32_MAX:
        raise OverflowError("a chunk of more than 2 GiB")
    if start + size > col.room:
        room = (start + size) * 2 + 4096
        more = <char *> PyMem_Realloc(col.data, room)
        if not more:
            raise MemoryError
        col.data, col.room = more, room
    if size:
        memcpy(col.data + start, text, size)
    col.ends[row] = <int32_t> (start + size)
    col.valid[row] = True
    return 0


cdef void put_null(TransformRows rows, int column, Py_ssize_t row) noexcept nogil:
    cdef RowColumn *col = &rows.cols[column]
    if col.kind == b's':
        col.ends[row] = col.ends[row - 1] if row else 0
    else:
        memset(col.data + <size_t> row * width_of(col.kind), 0, width_of(col.kind))
    col.valid[row] = False


cdef int put_object(TransformRows rows, int column, Py_ssize_t row, value) except -1:
    """Put a value of Python's; raises TypeError or OverflowError."""
    cdef char kind = rows.cols[column].kind
    cdef Py_ssize_t size
    cdef const char *text
    cdef int64_t whole
    if value is None:
        put_null(rows, column, row)
    elif kind == b's':
        if type(value) is bytes:
            return put_text(rows, column, row, PyBytes_AS_STRING(value), <size_t> PyBytes_GET_SIZE(value))
        text = PyUnicode_AsUTF8AndSize(value, &size)
        return put_text(rows, column, row, text, <size_t> size)
    elif kind == b'd':
        put_double(rows, column, row, value)
    elif kind == b'b':
        put_truth(rows, column, row, value is True)
    else:
        whole = PyLong_AsLongLong(value)
        if kind == b'l':
            put_long(rows, column, row, whole)
            return 0
        if not INT32_MIN <= whole <= INT32_MAX:
            raise OverflowError("more than 32 bits")
        put_small(rows, column, row, <int32_t> whole)
    return 0


# -- Columns that are taken --------------------------------------------------------------------------------------------


cdef bytes bits_of(const uint8_t *flags, Py_ssize_t count):
    """Return bits, the first row's the lowest of the first byte, as Arrow has them."""
    cdef bytes bits = PyBytes_FromStringAndSize(NULL, (count + 7) // 8)
    to = <uint8_t *> PyBytes_AS_STRING(bits)
    cdef Py_ssize_t i
    memset(to, 0, <size_t> (count + 7) // 8)
    for i in range(count):
        to[i // 8] |= flags[i] << (i % 8)
    return bits


cdef tuple parts_of(const RowColumn *col, Py_ssize_t count):
    """Return a column's first `count` values, as Arrow has them: validity, ends, data."""
    cdef Py_ssize_t nulls = 0, i
    cdef bytes ends
    for i in range(count):
        nulls += not col.valid[i]
    valid = bits_of(col.valid, count) if nulls else None
    if col.kind == b'b':
        return valid, None, bits_of(<const uint8_t *> col.data, count)
    if col.kind != b's':
        return valid, None, PyBytes_FromStringAndSize(col.data, count * <Py_ssize_t> width_of(col.kind))
    ends = PyBytes_FromStringAndSize(NULL, (count + 1) * 4)
    memset(PyBytes_AS_STRING(ends), 0, 4)
    if count:
        memcpy(PyBytes_AS_STRING(ends) + 4, col.ends, <size_t> count * 4)
    return valid, ends, PyBytes_FromStringAndSize(col.data, col.ends[count - 1] if count else 0)


cdef class TransformRows:
    """Rows on their way to expressions, with slots of these kinds: `s`, `l`, `d` or `b` for each."""

    def __cinit__(self, bytes kinds):
        global rows_made
        cdef Py_ssize_t c, size = len(kinds)
        if size > MAX_ROWS:
            raise ValueError("too many slots")
        rows_made += 1
        self.number = rows_made
        self.cols = <RowColumn *> PyMem_Calloc(<size_t> size + SLOTS, sizeof(RowColumn))
        if not self.cols:
            raise MemoryError
        for c in range(SLOTS):
            self.cols[c].kind = META_KINDS[c]
        for c in range(size):
            if kinds[c] not in b"sldb":
                raise ValueError("a slot is of s, l, d or b")
            self.cols[SLOTS + c].kind = kinds[c]
        self.columns = SLOTS + <int> size

    def __dealloc__(self):
        cdef int c
        for c in range(self.columns):
            PyMem_Free(self.cols[c].valid)
            PyMem_Free(self.cols[c].ends)
            PyMem_Free(self.cols[c].data)
        PyMem_Free(self.cols)

    cdef int begin(self) except -1:
        """Begin a call: rows are of one at a time. Raises RuntimeError."""
        if self.busy:
            raise RuntimeError("these rows are in use: by a call that is not done yet, or in another thread")
        self.busy = True
        return 0

    cdef int make_room(self, Py_ssize_t more) except -1:
        """Make room for so many more rows of either kind; raises OverflowError."""
        cdef Py_ssize_t count = self.count if self.count > self.sent else self.sent
        cdef size_t room
        cdef RowColumn *col
        cdef void *made
        cdef int c
        if more > MAX_ROWS - count:
            raise OverflowError(f"a chunk of more than {MAX_ROWS} rows")
        count += more
        if count <= self.room:
            return 0
        room = <size_t> count * 2 + 1024
        for c in range(self.columns):
            col = &self.cols[c]
            made = PyMem_Realloc(col.valid, room)
            if not made:
                raise MemoryError
            col.valid = <uint8_t *> made
            if col.kind == b's':
                made = PyMem_Realloc(col.ends, room * sizeof(int32_t))
                col.ends = <int32_t *> made if made else col.ends
            else:
                made = PyMem_Realloc(col.data, room * width_of(col.kind))
                col.data = <char *> made if made else col.data
            if not made:
                raise MemoryError
        self.room = <Py_ssize_t> room
        return 0

    cdef int add_ready(self, int32_t target, const char *key, size_t key_size, const char *text, size_t size) except -1:
        """Add a record that is ready to be written; a key or a text of NULL is none."""
        cdef Py_ssize_t row = self.count
        self.make_room(1)
        put_meta(self, row, -1, target, self.offset, 0)
        if key == NULL:
            put_null(self, AT_KEY, row)
        else:
            put_text(self, AT_KEY, row, key, key_size)
        if text == NULL:
            put_null(self, AT_TEXT, row)
        else:
            put_text(self, AT_TEXT, row, text, size)
        self.count += 1
        return 0

    def add(self, tuple meta not None, tuple values not None):
        self.begin()
        try:
            self.add_row(meta, values)
        finally:
            self.busy = False

    def add_row(self, tuple meta, tuple values):
        cdef int c
        cdef int32_t transform
        if len(meta) != AT_SENT or (values and len(values) != self.columns - SLOTS):
            raise ValueError("one value for each column, or none for all slots")
        self.make_room(1)
        for c in range(AT_SENT):
            put_object(self, c, self.count, meta[c])
        transform = (<int32_t *> self.cols[AT_TRANSFORM].data)[self.count]
        if transform >= 0:
            put_small(self, AT_SENT, self.sent, transform)
            for c in range(SLOTS, self.columns):
                put_object(self, c, self.sent, values[c - SLOTS] if values else None)
            self.sent += 1
        self.count += 1

    def mark(self, int code, Py_ssize_t count):
        cdef int32_t transform = code
        cdef int c
        if self.busy:
            self.begin()
        if code >= 0 or count < 0:
            raise ValueError("a mark is no transform")
        self.make_room(count)
        for _ in range(count):
            put_small(self, AT_SENT, self.sent, transform)
            for c in range(SLOTS, self.columns):
                put_null(self, c, self.sent)
            self.sent += 1

    def size(self):
        if self.busy:
            self.begin()
        return self.sent, self.cols[AT_TEXT].ends[self.count - 1] if self.count else 0

    def take(self):
        self.begin()
        try:
            kept = [parts_of(&self.cols[c], self.count) for c in range(<int> AT_SENT)]
            going = [parts_of(&self.cols[c], self.sent) for c in range(<int> AT_SENT, self.columns)]
            count, sent = self.count, self.sent
            self.count = self.sent = 0
        finally:
            self.busy = False
        return count, kept, sent, going


# -- What of a table's rows goes to expressions -------------------------------------------------------------------------


# What a row is that goes to an expression: the numbers are the reference's
cdef int32_t INSERT = compiled_transform.INSERT
cdef int32_t UPDATE = compiled_transform.UPDATE
cdef int32_t UPDATE_ALONE = compiled_transform.UPDATE_ALONE
cdef int32_t DELETE = compiled_transform.DELETE
cdef int32_t BEFORE = compiled_transform.BEFORE
cdef int32_t BOTH = compiled_transform.BOTH


cdef bint is_kind(const TableColumn *column, char kind) noexcept nogil:
    """Return whether a column's values are what goes in slots of a kind."""
    return (
        kind == b's' or (kind == b'l' and column.kind == COLUMN_INT)
        or (kind == b'd' and COLUMN_DOUBLE <= column.kind <= COLUMN_EXACT_FLOAT)
        or (kind == b'b' and column.kind == COLUMN_BOOL)
    )


cdef int read_slots(Table table, tuple given, Py_ssize_t slots, Slots *made) except -1:
    """Take slots; raises ValueError for one of no such column or slot, or of another kind than its column."""
    cdef Slot *slot
    if len(given) > MAX_FIELDS:
        raise ValueError("more slots than a row has fields")
    made.slots = <Slot *> PyMem_Calloc(<size_t> len(given) + 1, sizeof(Slot))
    if not made.slots:
        raise MemoryError
    for spec in given:
        slot = &made.slots[made.count]
        slot.column, slot.slot, slot.kind = spec.column, spec.slot, ord(spec.kind)
        if not 0 <= slot.column < table.own or not 0 <= slot.slot < slots:
            raise ValueError("no such column or place")
        if not is_kind(&table.columns[slot.column], slot.kind):
            raise ValueError("a slot of another kind than its column")
        made.count += 1
    return 0


cdef int put_slot(TransformRows rows, int column, Py_ssize_t at, const Field *field, char kind) except -1:
    """Put a column's value in its slot: returns 1, or 0 for a fallback."""
    cdef const char *text = field.text
    cdef char *end
    cdef double number
    if field.kind == JSON_NULL:
        put_null(rows, column, at)
    elif kind == b'b':
        put_truth(rows, column, at, text[0] == b't')
    elif kind == b'd':
        if not read_short_double(field, &number):
            number = PyOS_string_to_double(text, &end, NULL)
            if end != text + field.size:
                return 0
        put_double(rows, column, at, number)
    elif kind == b'l':
        put_long(rows, column, at, int_of(field))  # it fits: that was checked
    elif field.kind != JSON_STRING:
        put_text(rows, column, at, text, field.size)
    elif field.flags & HAS_ESCAPES:
        return 0
    else:
        put_text(rows, column, at, text + 1, field.size - 2)
    return 1


cdef class TransformInput:
    """The way of a table's rows to expressions, from a `TransformInputSpec`."""

    def __cinit__(self, Table table, spec):
        cdef tuple constants = spec.constants
        cdef Py_ssize_t size
        cdef int *moving
        cdef int i
        if spec.transform < 0 or not -1 <= spec.event < len(constants) or len(spec.decisive) > MAX_FIELDS:
            raise ValueError("no such transform or slot, or too many columns")
        self.transform, self.event, self.always_before = spec.transform, spec.event, spec.always_before
        self.insert = UPDATE_ALONE if spec.inserts_alone else INSERT
        self.slots, self.spec = <int> len(constants), constants
        self.constants = <Text *> PyMem_Calloc(<size_t> self.slots + 1, sizeof(Text))
        if not self.constants:
            raise MemoryError
        for i, text in enumerate(constants):
            if text is None:
                continue
            if type(text) is not str:
                raise TypeError("what is the same for all rows is a text or None")
            self.constants[i].text = PyUnicode_AsUTF8AndSize(text, &size)
            self.constants[i].size = <size_t> size
        read_slots(table, spec.inputs, self.slots, &self.inputs)
        read_slots(table, spec.before, self.slots, &self.before)
        self.decisive = places_of(spec.decisive, table.own)
        self.decisive_count = <int> len(spec.decisive)
        self.find_unfed()
        moving = places_of(spec.key, table.own)
        for i in range(<int> len(spec.key)):
            table.columns[moving[i]].moves = True
        PyMem_Free(moving)

    def __dealloc__(self):
        PyMem_Free(self.constants)
        PyMem_Free(self.inputs.slots)
        PyMem_Free(self.before.slots)
        PyMem_Free(self.decisive)
        PyMem_Free(self.unfed)

    cdef int find_unfed(self) except -1:
        """Find the slots that no image fills in all rows: they have their constant, or null."""
        cdef int i
        fed = {self.inputs.slots[i].slot for i in range(self.inputs.count)}
        unfed = tuple(i for i in range(self.slots) if i not in fed and i != self.event)
        self.unfed = places_of(unfed, self.slots)
        self.unfed_count = <int> len(unfed)
        return 0

    cdef int fits(self, TransformRows rows) except -1:
        """See that rows have the slots that values go in: as many, of these kinds. Raises ValueError."""
        cdef int i
        if self.checked == rows.number:
            return 0
        slots = rows.cols + SLOTS
        good = self.slots == rows.columns - SLOTS
        good = good and (self.event < 0 or slots[self.event].kind == b's')
        for i in range(self.slots):
            good = good and (self.constants[i].text == NULL or slots[i].kind == b's')
        for i in range(self.inputs.count):
            good = good and slots[self.inputs.slots[i].slot].kind == self.inputs.slots[i].kind
        for i in range(self.before.count):
            good = good and slots[self.before.slots[i].slot].kind == self.before.slots[i].kind
        if not good:
            raise ValueError("the rows have other slots than the table's values go in")
        self.checked = rows.number
        return 0

    cdef int add(self, Workspace *ws, Table table, const Change *change, TransformRows rows) except -1:
        """Add the rows of a change, all or none: returns 1, or 0 for a fallback."""
        cdef Fed fed
        cdef bint inserted = change.op == b'c' or change.op == b'r', updated = change.op == b'u'
        cdef Py_ssize_t rewritten
        cdef int32_t what
        cdef const char *event = b"+I" if inserted else b"+U" if updated else b"-D"
        cdef int i
        if not inserted and not updated and change.op != b'd':
            return 0
        self.fits(rows)
        rows.make_room(2)
        if not self.check(ws, table, change, &fed):
            return 0
        if fed.alone:
            # Places of columns are of the row that was checked last
            if not check_row(table, fed.old, fed.old_typing, ws.modes, &rewritten):
                return 0
            if not self.put_row(table, rows, 0, fed.old, BEFORE, b"-U"):
                return 0
            if not check_row(table, fed.row, fed.typing, ws.modes, &rewritten):
                return 0
        what = self.insert if inserted else DELETE if change.op == b'd' else UPDATE if fed.old != NULL else UPDATE_ALONE
        if not self.put_row(table, rows, fed.alone, fed.row, what | BOTH if fed.together else what, event):
            return 0
        if fed.together:
            for i in range(self.before.count):
                slot = &self.before.slots[i]
                if not put_slot(rows, SLOTS + slot.slot, rows.sent, fed.before[i], slot.kind):
                    return 0
        rows.count += fed.alone + 1
        rows.sent += fed.alone + 1
        return 1

    cdef bint check_old(self, Workspace *ws, Table table, const Change *change, Fed *fed) noexcept nogil:
        """Check the row before an update, and put in the fields of it that decide or go; False for a fallback."""
        cdef Py_ssize_t rewritten
        cdef int i
        if fed.old.count != table.own or not check_row(table, fed.old, fed.old_typing, ws.modes, &rewritten):
            return False
        if rewritten or (change.form == FORM_DEBEZIUM and lacks_values(fed.old)):
            return False
        for i in range(self.decisive_count):
            fed.decisive[i] = &fed.old.fields[table.columns[self.decisive[i]].at]
        for i in range(self.before.count):
            fed.before[i] = &fed.old.fields[table.columns[self.before.slots[i].column].at]
        return True

    cdef bint check_key(self, Workspace *ws, Table table, const Change *change, const Row *row) noexcept nogil:
        """Return whether the message's key is that of the table, and that of a delete begins its row."""
        if table.key_from_message:
            if not has_key_columns(table, change.message_key, &ws.message_key):
                return False
        elif change.op != b'd':
            return True
        elif not scan_message_key(change.message_key, &ws.message_key):
            return False
        return change.op != b'd' or begins_with(row, &ws.message_key)

    cdef bint check(self, Workspace *ws, Table table, const Change *change, Fed *fed) noexcept nogil:
        """Check a change, and put in what of it goes; False for a fallback."""
        cdef bint canal = change.form == FORM_CANAL, differ = self.always_before, moved = False, other
        # Where the message says something of rows, the reference takes them apart, and lets them go one by one
        cdef bint apart = change.typed or change.declared or canal
        cdef Py_ssize_t rewritten
        cdef const Field *field
        cdef const TableColumn *column
        cdef int i
        fed.row = &ws.before if change.op == b'd' and not canal else &ws.after
        fed.old_typing = &ws.before_typing if change.typed else NULL
        fed.typing = fed.old_typing
        if change.typed and fed.row != &ws.before:
            fed.typing = &ws.typing
        fed.old = &ws.before if change.op == b'u' and ws.before.size else NULL
        fed.together = fed.alone = False
        if apart and ((fed.row.size and not is_compact(fed.row)) or (fed.old != NULL and not is_compact(fed.old))):
            return False
        if fed.old != NULL and not self.check_old(ws, table, change, fed):
            return False
        if not fed.row.size or fed.row.count != table.own:
            return False
        if not check_row(table, fed.row, fed.typing, ws.modes, &rewritten) or rewritten:
            return False
        if change.form == FORM_DEBEZIUM and lacks_values(fed.row):
            return False
        if change.message_key.text != NULL and not self.check_key(ws, table, change, fed.row):
            return False
        if fed.old == NULL:
            return True
        for i in range(self.decisive_count):
            column = &table.columns[self.decisive[i]]
            field = &fed.row.fields[column.at]
            other = field.size != fed.decisive[i].size or memcmp(field.text, fed.decisive[i].text, field.size) != 0
            differ |= other
            if other and column.moves:
                moved = True
                break
        fed.together = differ and not moved and self.before.count != 0 and not apart
        fed.alone = differ and not fed.together
        return True

    cdef int put_row(
        self, Table table, TransformRows rows, Py_ssize_t next, const Row *row, int32_t what, const char *event
    ) except -1:
        """Put an image that was checked last in a row that does not count yet, `next` after those that do.

        Returns 1, or 0 for a fallback. There is room.
        """
        cdef Py_ssize_t at = rows.sent + next
        cdef const Text *constant
        cdef const Field *field
        cdef const Slot *slot
        cdef int i
        put_meta(rows, rows.count + next, self.transform, -1, rows.offset, what)
        put_text(rows, AT_TEXT, rows.count + next, row.text, <size_t> row.size)
        put_null(rows, AT_KEY, rows.count + next)
        put_small(rows, AT_SENT, at, self.transform)
        for i in range(self.unfed_count):
            constant = &self.constants[self.unfed[i]]
            if constant.text == NULL:
                put_null(rows, SLOTS + self.unfed[i], at)
            else:
                put_text(rows, SLOTS + self.unfed[i], at, constant.text, constant.size)
        for i in range(self.inputs.count):
            slot = &self.inputs.slots[i]
            # The image has all columns: it has as many as the table, and each of them once
            field = &row.fields[table.columns[slot.column].at]
            if not put_slot(rows, SLOTS + slot.slot, at, field, slot.kind):
                return 0
        if self.event >= 0:
            put_text(rows, SLOTS + self.event, at, event, strlen(event))
        return 1
