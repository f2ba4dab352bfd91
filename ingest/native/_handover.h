/* Rows on their way to expressions, in columns as Arrow has them. Part of the hot loop in C. */

#ifndef INGEST_FLOW_HANDOVER_H
#define INGEST_FLOW_HANDOVER_H

#include "_messages.h"

/* The codes are those of transform.py. */
enum { FED_INSERT, FED_UPDATE, FED_UPDATE_ALONE, FED_DELETE, FED_BEFORE, FED_BOTH = 16 };

/* A column of rows, as Arrow has it but for truth values, which have a byte each until they are taken. */
typedef struct {
    char kind; /* `i` 32 bits, `l` 64 bits, `d` double, `b` truth, `s` text or bytes */
    bool *valid;
    int32_t *ends; /* of texts */
    char *data;
    size_t size, room; /* of texts' bytes */
} Col;

/* What stays on this side of Spark, then what goes: the program once more, and slots. */
enum { C_PROGRAM, C_HEAD, C_AT, C_WHAT, C_TEXT, C_KEY, C_SENT, SLOTS };
static const char METAS[SLOTS + 1] = "iilissi";

typedef struct {
    PyObject_HEAD
    bool busy;       /* one of its methods runs, or messages are on their way here */
    uint64_t number; /* of those that were made */
    int columns;
    Col *cols;
    Py_ssize_t count, sent, room; /* rows, and how many of them go to expressions */
} Rows;

/* Most rows at once: what is computed of their number stays in range */
#define MAX_ROWS (1 << 28)

typedef struct {
    Rows *rows;
    long long offset; /* of the message in hand */
} Feed;

static size_t width_of(char kind)
{
    return kind == 'i' ? 4 : kind == 'b' ? 1 : kind == 's' ? 0 : 8;
}

/* Room for so many more rows of either kind; false with an error. */
static bool rows_room(Rows *rows, Py_ssize_t more_rows)
{
    Py_ssize_t count = rows->count > rows->sent ? rows->count : rows->sent;
    if (more_rows > MAX_ROWS - count) {
        PyErr_Format(PyExc_OverflowError, "a chunk of more than %d rows", MAX_ROWS);
        return false;
    }
    if ((count += more_rows) <= rows->room)
        return true;
    size_t room = (size_t)count * 2 + 1024;
    for (int c = 0; c < rows->columns; c++) {
        Col *col = &rows->cols[c];
        bool *valid = PyMem_Realloc(col->valid, room);
        if (valid)
            col->valid = valid;
        void *more = !valid ? NULL
                     : col->kind == 's' ? PyMem_Realloc(col->ends, room * sizeof(int32_t))
                                        : PyMem_Realloc(col->data, room * width_of(col->kind));
        if (!more) {
            PyErr_NoMemory();
            return false;
        }
        if (col->kind == 's')
            col->ends = more;
        else
            col->data = more;
    }
    rows->room = (Py_ssize_t)room;
    return true;
}

/* Values of a row that is there only when `count` says so: what was put for another try is written over. */
static bool put_text(Rows *rows, int column, Py_ssize_t row, const char *text, size_t size)
{
    Col *col = &rows->cols[column];
    size_t start = row ? (size_t)col->ends[row - 1] : 0;
    if (start + size > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a chunk of more than 2 GiB");
        return false;
    }
    if (start + size > col->room) {
        size_t room = (start + size) * 2 + 4096;
        char *more = PyMem_Realloc(col->data, room);
        if (!more) {
            PyErr_NoMemory();
            return false;
        }
        col->data = more;
        col->room = room;
    }
    if (size)
        memcpy(col->data + start, text, size);
    col->ends[row] = (int32_t)(start + size);
    col->valid[row] = true;
    return true;
}

static void put_null(Rows *rows, int column, Py_ssize_t row)
{
    Col *col = &rows->cols[column];
    if (col->kind == 's')
        col->ends[row] = row ? col->ends[row - 1] : 0;
    else
        memset(col->data + (size_t)row * width_of(col->kind), 0, width_of(col->kind));
    col->valid[row] = false;
}

static void put_value(Rows *rows, int column, Py_ssize_t row, const void *value)
{
    Col *col = &rows->cols[column];
    memcpy(col->data + (size_t)row * width_of(col->kind), value, width_of(col->kind));
    col->valid[row] = true;
}

/* What every row has, beside its text and its key. */
static void put_meta(Rows *rows, Py_ssize_t row, int32_t program, int32_t head, int64_t at, int32_t what)
{
    put_value(rows, C_PROGRAM, row, &program);
    put_value(rows, C_HEAD, row, &head);
    put_value(rows, C_AT, row, &at);
    put_value(rows, C_WHAT, row, &what);
}

/* A record that is ready to be written. */
static bool ready(const Feed *feed, const Table *table, int which, Text key, Text value)
{
    Rows *rows = feed->rows;
    Py_ssize_t row = rows->count;
    if (!rows_room(rows, 1) || !put_text(rows, C_KEY, row, key.text, key.size))
        return false;
    put_meta(rows, row, -1, table->heads[which], feed->offset, 0);
    if (!value.text)
        put_null(rows, C_TEXT, row);
    else if (!put_text(rows, C_TEXT, row, value.text, value.size))
        return false;
    rows->count++;
    return true;
}

/* Put a column's value in its slot: 1, 0 where it is not for us, -1 with an error. */
static int put_slot(Rows *rows, int column, Py_ssize_t at, const Field *field, char kind)
{
    const char *text = field->text;
    if (field->kind == NUL) {
        put_null(rows, column, at);
        return 1;
    }
    if (kind == 'b') {
        put_value(rows, column, at, &(bool){*text == 't'});
        return 1;
    }
    if (kind == 'd') {
        char *end;
        double value = PyOS_string_to_double(text, &end, NULL);
        if (value == -1.0 && PyErr_Occurred())
            return -1;
        put_value(rows, column, at, &value);
        return end == text + field->size;
    }
    if (kind == 'l') {
        uint64_t value = 0;
        bool minus = *text == '-';
        for (uint32_t i = minus; i < field->size; i++) /* it fits: that was checked */
            value = value * 10 + (uint64_t)(text[i] - '0');
        put_value(rows, column, at, &(int64_t){minus ? (int64_t)(0 - value) : (int64_t)value});
        return 1;
    }
    if (field->kind != STRING)
        return put_text(rows, column, at, text, field->size) ? 1 : -1;
    if (field->flags & ESCAPES)
        return 0;
    return put_text(rows, column, at, text + 1, field->size - 2) ? 1 : -1;
}

/* Put an image that was checked last in a row that does not count yet, `next` after those that do: 1, 0 or -1 as above.
   There is room. */
static int put_image(
    const Feed *feed, const Table *table, Py_ssize_t next, const Row *row, long what, const char *event)
{
    Rows *rows = feed->rows;
    Py_ssize_t at = rows->sent + next;
    put_meta(rows, rows->count + next, table->program, -1, feed->offset, (int32_t)what);
    if (!put_text(rows, C_TEXT, rows->count + next, row->text, row->size))
        return -1;
    put_null(rows, C_KEY, rows->count + next);
    put_value(rows, C_SENT, at, &table->program);
    for (int c = SLOTS; c < rows->columns; c++) {
        PyObject *base = PyTuple_GET_ITEM(table->base, c - SLOTS);
        Py_ssize_t size;
        const char *text = base == Py_None ? NULL : PyUnicode_AsUTF8AndSize(base, &size);
        if (base == Py_None)
            put_null(rows, c, at);
        else if (!text || !put_text(rows, c, at, text, (size_t)size))
            return -1;
    }
    for (int i = 0; i < table->inputs; i++) {
        const Column *column = &table->columns[table->input_columns[i]];
        if (column->seen != table->row)
            continue;
        int done = put_slot(rows, SLOTS + table->input_slots[i], at, &row->fields[column->at], table->input_kinds[i]);
        if (done != 1)
            return done;
    }
    return table->event < 0 || put_text(rows, SLOTS + table->event, at, event, strlen(event)) ? 1 : -1;
}

/* Whether a value is one that Debezium did not have. */
static bool lacks(const Lane *lane, const Row *row)
{
    if (lane->form != DEBEZIUM)
        return false;
    for (int i = 0; i < row->count; i++) {
        const Field *field = &row->fields[i];
        if (field->size >= sizeof UNAVAILABLE + 1 && unavailable(field->text, field->size))
            return true;
    }
    return false;
}

/* Whether rows have the slots that a table's values go in: as many, of these kinds; false with an error. */
static bool fits_rows(Table *table, const Rows *rows)
{
    if (table->checked == rows->number)
        return true;
    const Col *slots = rows->cols + SLOTS;
    Py_ssize_t count = PyTuple_GET_SIZE(table->base);
    bool good = count == rows->columns - SLOTS && (table->event < 0 || slots[table->event].kind == 's');
    for (Py_ssize_t c = 0; good && c < count; c++)
        good = PyTuple_GET_ITEM(table->base, c) == Py_None || slots[c].kind == 's';
    for (int i = 0; good && i < table->inputs; i++)
        good = slots[table->input_slots[i]].kind == table->input_kinds[i];
    for (int i = 0; good && i < table->were; i++)
        good = slots[table->were_slots[i]].kind == table->were_kinds[i];
    if (!good)
        PyErr_SetString(PyExc_ValueError, "the rows have other slots than the table's values go in");
    else
        table->checked = rows->number;
    return good;
}

/* The rows of a change whose table's rows go to expressions: as FeedPlan has them, or 0. `typed`: the message says what
   the types are, and values are of them. */
static __attribute__((noinline)) int feed_one(
    State *state, Lane *lane, Table *table, char op, Text message_key, bool typed, const Feed *feed)
{
    bool inserted = op == 'c' || op == 'r', updated = op == 'u';
    Row *row = op == 'd' && lane->form != CANAL ? &state->before : &state->after, *old = &state->before;
    const Typing *old_typing = typed ? &state->before_typing : NULL, *typing = typed && row != old ? &state->typing : old_typing;
    const Field *fields[MAX_FIELDS], *were[MAX_FIELDS];
    Py_ssize_t rewritten = 0;
    if (!inserted && !updated && op != 'd')
        return 0;
    if (!fits_rows(table, feed->rows))
        return -1;
    /* Where the message says something of rows, the rule book takes them apart, and lets them go one by one */
    bool apart = typed || lane->form == CANAL;
    if (apart && ((row->size && !is_compact(row)) || (updated && old->size && !is_compact(old))))
        return 0;
    Rows *rows = feed->rows;
    bool both = updated && old->size, differ = table->images, moved = false;
    if (!rows_room(rows, 2))
        return -1;
    if (both) {
        if (old->count != table->own || !check_row(table, old, old_typing, state->ways, &rewritten) || rewritten || lacks(lane, old))
            return 0;
        for (int i = 0; i < table->decisive; i++)
            fields[i] = &old->fields[table->columns[table->decisive_columns[i]].at];
        for (int i = 0; i < table->were; i++)
            were[i] = &old->fields[table->columns[table->were_columns[i]].at];
    }
    if (!row->size || row->count != table->own || !check_row(table, row, typing, state->ways, &rewritten) || rewritten)
        return 0;
    if (lacks(lane, row))
        return 0;
    if (table->keyed && message_key.text && !same_columns(table, message_key, &state->message_key))
        return 0;
    for (int i = 0; both && i < table->decisive && !moved; i++) {
        const Column *column = &table->columns[table->decisive_columns[i]];
        const Field *field = &row->fields[column->at];
        bool other = field->size != fields[i]->size || memcmp(field->text, fields[i]->text, field->size);
        differ |= other;
        moved = other && column->moves;
    }
    bool together = both && differ && !moved && table->were && !apart, alone = both && differ && !together;
    if (alone) {
        /* Places of columns are of the row that was checked last */
        int done = check_row(table, old, old_typing, state->ways, &rewritten) ? put_image(feed, table, 0, old, FED_BEFORE, "-U") : 0;
        if (done != 1 || !check_row(table, row, typing, state->ways, &rewritten))
            return done == 1 ? 0 : done;
    }
    long what = inserted ? FED_INSERT : op == 'd' ? FED_DELETE : both ? FED_UPDATE : FED_UPDATE_ALONE;
    int done = put_image(feed, table, alone, row, together ? what | FED_BOTH : what, inserted ? "+I" : updated ? "+U" : "-D");
    for (int i = 0; together && i < table->were && done == 1; i++)
        done = put_slot(rows, SLOTS + table->were_slots[i], rows->sent, were[i], table->were_kinds[i]);
    if (done == 1) {
        rows->count += alone + 1;
        rows->sent += alone + 1;
    }
    return done;
}

/* A tuple of places, each below `end`, as an array; NULL with an error. */
static int *places_of(PyObject *tuple, Py_ssize_t end)
{
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    int *places = PyMem_Calloc((size_t)count + 1, sizeof(int));
    for (Py_ssize_t i = 0; places && i < count; i++) {
        long place = PyLong_AsLong(PyTuple_GET_ITEM(tuple, i));
        if (place < 0 || place >= end) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "no such place");
            PyMem_Free(places);
            return NULL;
        }
        places[i] = (int)place;
    }
    return places ? places : (int *)PyErr_NoMemory();
}

/* Whether a column's values are what goes in slots of a kind; false with an error. */
static bool is_kind(const Column *column, char kind)
{
    int takes = column->takes;
    bool good = kind == 's' || (kind == 'l' && takes == TAKES_INT) || (kind == 'd' && takes == TAKES_DOUBLE) ||
                (kind == 'b' && takes == TAKES_BOOL);
    if (!good)
        PyErr_SetString(PyExc_ValueError, "a slot of another kind than its column");
    return good;
}

/* Table.feed(program, columns, slots, kinds, base, event, decisive, key, images, were, were_slots, were_kinds): see the
   stub. Once. */
static PyObject *table_feed(Table *self, PyObject *args)
{
    PyObject *columns, *slots, *base, *decisive, *key, *were, *were_slots;
    const char *kinds, *were_kinds;
    Py_ssize_t size, were_size;
    int program, event, images;
    if (!PyArg_ParseTuple(args, "iO!O!y#O!iO!O!pO!O!y#", &program, &PyTuple_Type, &columns, &PyTuple_Type, &slots, &kinds,
                          &size, &PyList_Type, &base, &event, &PyTuple_Type, &decisive, &PyTuple_Type, &key, &images,
                          &PyTuple_Type, &were, &PyTuple_Type, &were_slots, &were_kinds, &were_size))
        return NULL;
    if (!begin_telling(self, TOLD_FEED))
        return NULL;
    if (PyTuple_GET_SIZE(columns) != size || PyTuple_GET_SIZE(slots) != size || program < 0 || event < -1 ||
        event >= PyList_GET_SIZE(base) || PyTuple_GET_SIZE(decisive) > MAX_FIELDS || were_size > MAX_FIELDS ||
        PyTuple_GET_SIZE(were) != were_size || PyTuple_GET_SIZE(were_slots) != were_size) {
        PyErr_SetString(PyExc_ValueError, "not one slot for each column");
        return NULL;
    }
    if (!(self->base = PyList_AsTuple(base)))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(self->base);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GET_ITEM(self->base, i);
        if (item != Py_None && !PyUnicode_CheckExact(item)) {
            PyErr_SetString(PyExc_TypeError, "what is the same for all rows is a text or None");
            return NULL;
        }
    }
    self->input_columns = places_of(columns, self->own);
    self->input_slots = self->input_columns ? places_of(slots, count) : NULL;
    self->decisive_columns = self->input_slots ? places_of(decisive, self->own) : NULL;
    self->input_kinds = PyMem_Malloc((size_t)size + 1);
    self->were_columns = self->input_kinds ? places_of(were, self->own) : NULL;
    self->were_slots = self->were_columns ? places_of(were_slots, count) : NULL;
    self->were_kinds = PyMem_Malloc((size_t)were_size + 1);
    int *moving = self->were_slots ? places_of(key, self->own) : NULL;
    if (!self->decisive_columns || !self->were_kinds || !moving) {
        PyMem_Free(moving);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++)
        self->columns[moving[i]].moves = true;
    PyMem_Free(moving);
    memcpy(self->input_kinds, kinds, (size_t)size);
    memcpy(self->were_kinds, were_kinds, (size_t)were_size);
    self->were = (int)were_size;
    self->inputs = (int)size;
    self->decisive = (int)PyTuple_GET_SIZE(decisive);
    self->event = event;
    self->images = images;
    self->program = program;
    for (int i = 0; i < self->inputs; i++)
        if (!is_kind(&self->columns[self->input_columns[i]], kinds[i]))
            return NULL;
    for (int i = 0; i < self->were; i++)
        if (!is_kind(&self->columns[self->were_columns[i]], were_kinds[i]))
            return NULL;
    self->fed = true;
    return done_telling(self);
}

/* Table.ready(heads): the places of its destination, for records that pass expressions by. */
static PyObject *table_ready(Table *self, PyObject *heads)
{
    int32_t given[4];
    if (!PyTuple_CheckExact(heads) || PyTuple_GET_SIZE(heads) != 4) {
        PyErr_SetString(PyExc_TypeError, "ready(heads: tuple of four)");
        return NULL;
    }
    for (int i = 0; i < 4; i++) {
        long head = PyLong_AsLong(PyTuple_GET_ITEM(heads, i));
        if (head < 0 || head > INT32_MAX) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "no such head");
            return NULL;
        }
        given[i] = (int32_t)head;
    }
    if (self->used) {
        PyErr_SetString(PyExc_ValueError, "a table is told where its records go before it is in use");
        return NULL;
    }
    memcpy(self->heads, given, sizeof given);
    self->has_heads = true;
    Py_RETURN_NONE;
}

static void rows_dealloc(Rows *self)
{
    for (int c = 0; c < self->columns; c++) {
        PyMem_Free(self->cols[c].valid);
        PyMem_Free(self->cols[c].ends);
        PyMem_Free(self->cols[c].data);
    }
    PyMem_Free(self->cols);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* Rows(kinds): the kinds of the slots */
static int rows_init(void *made, PyObject *args)
{
    Rows *self = made;
    const char *kinds;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "y#", &kinds, &size))
        return -1;
    if (size > MAX_ROWS) {
        PyErr_SetString(PyExc_ValueError, "too many slots");
        return -1;
    }
    State *state = PyType_GetModuleState(Py_TYPE(self));
    self->number = ++state->rows_made;
    self->cols = PyMem_Calloc((size_t)size + SLOTS, sizeof(Col));
    if (!self->cols) {
        PyErr_NoMemory();
        return -1;
    }
    for (int c = 0; c < SLOTS; c++)
        self->cols[c].kind = METAS[c];
    for (Py_ssize_t c = 0; c < size; c++) {
        if (!memchr("sldb", kinds[c], 4)) {
            PyErr_SetString(PyExc_ValueError, "a slot is of s, l, d or b");
            return -1;
        }
        self->cols[SLOTS + c].kind = kinds[c];
    }
    self->columns = SLOTS + (int)size;
    return 0;
}

static PyObject *rows_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    return make(type, args, rows_init);
}

/* Rows are of one call at a time; false with an error. */
static bool rows_begin(Rows *self)
{
    if (self->busy)
        PyErr_SetString(PyExc_RuntimeError, "these rows are in use: by a call that is not done yet, or in another thread");
    else
        self->busy = true;
    return !PyErr_Occurred();
}

static PyObject *rows_end(Rows *self, PyObject *result)
{
    self->busy = false;
    return result;
}

static bool put_object(Rows *rows, int column, Py_ssize_t row, PyObject *value)
{
    char kind = rows->cols[column].kind;
    if (value == Py_None) {
        put_null(rows, column, row);
        return true;
    }
    if (kind == 's') {
        Py_ssize_t size;
        const char *text = PyBytes_CheckExact(value) ? PyBytes_AS_STRING(value) : PyUnicode_AsUTF8AndSize(value, &size);
        return text && put_text(rows, column, row, text, (size_t)(PyBytes_CheckExact(value) ? PyBytes_GET_SIZE(value) : size));
    }
    if (kind == 'd') {
        double number = PyFloat_AsDouble(value);
        put_value(rows, column, row, &number);
    } else if (kind == 'b') {
        put_value(rows, column, row, &(bool){value == Py_True});
    } else {
        long long whole = PyLong_AsLongLong(value);
        if (kind == 'i' && (whole < INT32_MIN || whole > INT32_MAX)) {
            PyErr_SetString(PyExc_OverflowError, "more than 32 bits");
            return false;
        }
        if (kind == 'i')
            put_value(rows, column, row, &(int32_t){(int32_t)whole});
        else
            put_value(rows, column, row, &whole);
    }
    return !PyErr_Occurred();
}

static PyObject *add_row(Rows *self, PyObject *meta, PyObject *values)
{
    if (PyTuple_GET_SIZE(meta) != C_SENT ||
        (PyTuple_GET_SIZE(values) && PyTuple_GET_SIZE(values) != self->columns - SLOTS)) {
        PyErr_SetString(PyExc_ValueError, "one value for each column, or none for all slots");
        return NULL;
    }
    if (!rows_room(self, 1))
        return NULL;
    for (int c = 0; c < C_SENT; c++)
        if (!put_object(self, c, self->count, PyTuple_GET_ITEM(meta, c)))
            return NULL;
    int32_t program = ((int32_t *)self->cols[C_PROGRAM].data)[self->count];
    if (program >= 0) {
        put_value(self, C_SENT, self->sent, &program);
        for (int c = SLOTS; c < self->columns; c++) {
            PyObject *value = PyTuple_GET_SIZE(values) ? PyTuple_GET_ITEM(values, c - SLOTS) : Py_None;
            if (!put_object(self, c, self->sent, value))
                return NULL;
        }
        self->sent++;
    }
    self->count++;
    Py_RETURN_NONE;
}

/* Rows.add(meta, values): see the stub. */
static PyObject *rows_add(Rows *self, PyObject *args)
{
    PyObject *meta, *values;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &meta, &PyTuple_Type, &values) || !rows_begin(self))
        return NULL;
    return rows_end(self, add_row(self, meta, values));
}

/* Rows.mark(code, count): see the stub. */
static PyObject *rows_mark(Rows *self, PyObject *args)
{
    int code;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "in", &code, &count) || !rows_begin(self))
        return NULL;
    self->busy = false; /* nothing is called back from here on */
    if (code >= 0 || count < 0) {
        PyErr_SetString(PyExc_ValueError, "a mark is no program");
        return NULL;
    }
    if (!rows_room(self, count))
        return NULL;
    for (; count; count--, self->sent++) {
        put_value(self, C_SENT, self->sent, &(int32_t){code});
        for (int c = SLOTS; c < self->columns; c++)
            put_null(self, c, self->sent);
    }
    Py_RETURN_NONE;
}

/* Bits, the first row's the lowest of the first byte, as Arrow has them. */
static PyObject *bits_of(const bool *flags, Py_ssize_t count)
{
    PyObject *bits = PyBytes_FromStringAndSize(NULL, (count + 7) / 8);
    if (!bits)
        return NULL;
    uint8_t *to = (uint8_t *)PyBytes_AS_STRING(bits);
    memset(to, 0, (size_t)(count + 7) / 8);
    for (Py_ssize_t i = 0; i < count; i++)
        to[i / 8] |= (uint8_t)(flags[i] << (i % 8));
    return bits;
}

/* Rows.size(): see the stub. */
static PyObject *rows_size(Rows *self, PyObject *Py_UNUSED(ignored))
{
    if (!rows_begin(self))
        return NULL;
    self->busy = false;
    return Py_BuildValue("ni", self->sent, self->count ? self->cols[C_TEXT].ends[self->count - 1] : 0);
}

/* A column's first `count` values, as Arrow has them: validity, ends, data. */
static PyObject *taken(const Col *col, Py_ssize_t count)
{
    Py_ssize_t nulls = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        nulls += !col->valid[i];
    PyObject *valid = nulls ? bits_of(col->valid, count) : Py_NewRef(Py_None), *ends = NULL, *data = NULL;
    if (col->kind == 's') {
        ends = PyBytes_FromStringAndSize(NULL, (count + 1) * 4);
        if (ends) {
            memset(PyBytes_AS_STRING(ends), 0, 4);
            if (count)
                memcpy(PyBytes_AS_STRING(ends) + 4, col->ends, (size_t)count * 4);
        }
        data = PyBytes_FromStringAndSize(col->data, count ? col->ends[count - 1] : 0);
    } else {
        ends = Py_NewRef(Py_None);
        data = col->kind == 'b' ? bits_of((const bool *)col->data, count)
                                : PyBytes_FromStringAndSize(col->data, count * (Py_ssize_t)width_of(col->kind));
    }
    PyObject *column = valid && ends && data ? PyTuple_Pack(3, valid, ends, data) : NULL;
    Py_XDECREF(valid);
    Py_XDECREF(ends);
    Py_XDECREF(data);
    return column;
}

static PyObject *take_rows(Rows *self)
{
    Py_ssize_t count = self->count, sent = self->sent;
    PyObject *kept = PyList_New(C_SENT), *going = PyList_New(self->columns - C_SENT);
    for (int c = 0; kept && going && c < self->columns; c++) {
        PyObject *column = taken(&self->cols[c], c < C_SENT ? count : sent);
        if (!column)
            Py_CLEAR(kept);
        else if (c < C_SENT)
            PyList_SET_ITEM(kept, c, column);
        else
            PyList_SET_ITEM(going, c - C_SENT, column);
    }
    self->count = self->sent = 0;
    if (kept && going)
        return Py_BuildValue("nNnN", count, kept, sent, going);
    Py_XDECREF(kept);
    Py_XDECREF(going);
    return NULL;
}

/* Rows.take(): see the stub. */
static PyObject *rows_take(Rows *self, PyObject *Py_UNUSED(ignored))
{
    return rows_begin(self) ? rows_end(self, take_rows(self)) : NULL;
}

static PyMethodDef rows_methods[] = {
    {"add", (PyCFunction)rows_add, METH_VARARGS, "Add a row."},
    {"mark", (PyCFunction)rows_mark, METH_VARARGS, "Add rows that only go to expressions, and say something by their program."},
    {"size", (PyCFunction)rows_size, METH_NOARGS, "How many rows go, and how many bytes stay."},
    {"take", (PyCFunction)rows_take, METH_NOARGS, "Take all rows, as buffers."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot rows_slots[] = {
    {Py_tp_doc, "Rows(kinds): rows on their way to expressions, column by column."},
    {Py_tp_dealloc, rows_dealloc},
    {Py_tp_new, rows_new},
    {Py_tp_methods, rows_methods},
    {0, NULL},
};
static PyType_Spec rows_spec = {"ingest.native._native.Rows", sizeof(Rows), 0, Py_TPFLAGS_DEFAULT, rows_slots};

#endif
