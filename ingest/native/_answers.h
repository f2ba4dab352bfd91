/* Rows that come back from expressions, with their results: to records. Part of the hot loop in C. */

#ifndef INGEST_FLOW_ANSWERS_H
#define INGEST_FLOW_ANSWERS_H

#include "_handover.h"

/* A row's own text and its fields; false where it is not for us. */
static bool read_row(Text text, Row *row)
{
    const char *end = text.text + text.size;
    return text.size <= UINT32_MAX && is_utf8(text.text, (Py_ssize_t)text.size) && scan_row(text.text, end, row, NULL) == end;
}

/* The records of a row, the text of which is `text`, and of what it was before (either may be NULL): 1, 0 where that is
   not for us, -1 with an error. */
static int put_one(State *state, Table *self, PyObject *text, const Text *before, Out *out)
{
    const Row *row = &state->composed;
    char key[MAX_KEY], old_key[MAX_KEY];
    const Field *fields[MAX_KEYS];
    Py_ssize_t rewritten = 0;
    size_t size = 0, old_size = 0;
    Text written, none = {NULL, 0};
    out->whole = text;
    if (before &&
        (!read_row(*before, &state->before) || !(old_size = write_partial_key(self, &state->before, old_key))))
        return 0;
    if (!text)
        return !old_size ? 0 : emit(out, self->destination, (Text){old_key, old_size}, none) ? 1 : -1;
    if (!check_row(self, row, NULL, state->ways, &rewritten))
        return 0;
    if (!key_fields(self, row, fields) || !(size = write_key(self, fields, key)))
        return 0;
    bool moved = old_size && (old_size != size || memcmp(old_key, key, size));
    bool good = write_row(state, self, row, NULL, rewritten, &written) &&
                (!moved || emit(out, self->destination, (Text){old_key, old_size}, none)) &&
                emit(out, self->destination, (Text){key, size}, written);
    return good ? 1 : -1;
}

/* Add a field to a row that is being written, up to before `end`; false where it has no room. `kind` and `flags` are the
   value's. */
static bool compose(Row *row, char **to, const char *end, const Field *name, const Field *value)
{
    size_t room = (size_t)(end - *to), most = (size_t)name->name_size + value->size + 5; /* and the row's last brace */
    if (row->count == MAX_FIELDS || most > room)
        return false;
    Field *field = &row->fields[row->count];
    char *p = *to;
    if (row->count++)
        *p++ = ',';
    *p++ = '"';
    *field = (Field){p, p + name->name_size + 2, name->name_size, value->size, value->kind, value->flags};
    memcpy(p, name->name, name->name_size);
    p += name->name_size;
    *p++ = '"';
    *p++ = ':';
    memcpy(p, value->text, value->size);
    *to = p + value->size;
    return true;
}

/* A row's text with results in it, which `state->composed` then has; NULL without an error where that is not for us.
   `laid` is -1 where there is no layout. */
static PyObject *composed(
    State *state, Text raw, int made, const Field *values, int laid, const int *layout, const Text *layout_names)
{
    Row *row = &state->after, *new = &state->composed;
    const char *end = raw.text + raw.size;
    size_t most = raw.size + 8;
    bool used[MAX_FIELDS] = {false};
    if (raw.size > UINT32_MAX || made > MAX_FIELDS || scan_row(raw.text, end, row, NULL) != end)
        return NULL;
    for (int i = 0; i < made; i++)
        most += (size_t)values[i].name_size + values[i].size + 4;
    PyObject *out = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)most);
    if (!out)
        return NULL;
    char *start = PyBytes_AS_STRING(out), *to = start + 1;
    const char *last = start + most;
    *start = '{';
    new->text = start;
    new->count = 0;
    bool good = true;
    if (laid < 0) {
        for (int f = 0; f < row->count && good; f++) {
            const Field *field = &row->fields[f];
            int i = 0;
            while (i < made && !is_named(field, values[i].name, values[i].name_size))
                i++;
            if (i == made) {
                good = compose(new, &to, last, field, field);
                continue;
            }
            /* A name twice: the last one counts, and that is for others to see to */
            good = !used[i] && compose(new, &to, last, field, &values[i]);
            used[i] = true;
        }
        for (int i = 0; i < made && good; i++)
            if (!used[i])
                good = compose(new, &to, last, &values[i], &values[i]);
    }
    for (int c = 0; c < laid && good; c++) {
        int i = layout[c];
        if (i >= 0) {
            good = compose(new, &to, last, &values[i], &values[i]);
            continue;
        }
        const Field *found = NULL;
        for (int f = 0; f < row->count && good; f++)
            if (is_named(&row->fields[f], layout_names[c].text, (uint32_t)layout_names[c].size)) {
                good = !found; /* as above */
                found = &row->fields[f];
            }
        if (found && good)
            good = compose(new, &to, last, found, found);
    }
    if (!good) {
        Py_DECREF(out);
        return NULL;
    }
    *to++ = '}';
    new->size = to - start;
    if (_PyBytes_Resize(&out, new->size))
        return NULL;
    ptrdiff_t moved = PyBytes_AS_STRING(out) - start;
    new->text += moved;
    for (int f = 0; f < new->count && moved; f++) {
        new->fields[f].name += moved;
        new->fields[f].text += moved;
    }
    return out;
}

/* Most results whose failures are bits of one mask */
#define MAX_MARKS 63

/* Texts of a tuple of bytes, which is kept elsewhere; NULL with an error. A number among them has no text. */
static Text *texts_of(PyObject *tuple)
{
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    Text *texts = PyMem_Calloc((size_t)count + 1, sizeof(Text));
    for (Py_ssize_t i = 0; texts && i < count; i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        if (PyBytes_CheckExact(item))
            texts[i] = (Text){PyBytes_AS_STRING(item), (size_t)PyBytes_GET_SIZE(item)};
    }
    return texts ? texts : (Text *)PyErr_NoMemory();
}

/* Table.answer(filter, was, soft_delete, key_made, names, places, kinds, writers, columns): see the stub. Once. */
static PyObject *table_answer(Table *self, PyObject *args)
{
    PyObject *names, *places, *writers, *columns;
    const char *kinds;
    Py_ssize_t size;
    int filter, was, soft_delete, key_made;
    if (!PyArg_ParseTuple(args, "iippO!O!y#O!O", &filter, &was, &soft_delete, &key_made, &PyTuple_Type, &names, &PyTuple_Type,
                          &places, &kinds, &size, &PyTuple_Type, &writers, &columns))
        return NULL;
    bool laid = PyTuple_CheckExact(columns);
    if (!begin_telling(self, TOLD_ANSWER))
        return NULL;
    bool good = PyTuple_GET_SIZE(names) == size && PyTuple_GET_SIZE(places) == size && size <= MAX_FIELDS &&
                PyTuple_GET_SIZE(writers) == size && (laid || columns == Py_None) && filter >= -1 && was >= -1 && was < MAX_MARKS;
    for (Py_ssize_t i = 0; good && i < size; i++)
        good = PyBytes_CheckExact(PyTuple_GET_ITEM(names, i)) && PyBytes_GET_SIZE(PyTuple_GET_ITEM(names, i)) <= MAX_NAME &&
               memchr("lbtxc", kinds[i], 5);
    if (!good) {
        PyErr_SetString(PyExc_ValueError, "not one place, kind and writer for each name, or too many of them");
        return NULL;
    }
    self->laid = laid ? (int)PyTuple_GET_SIZE(columns) : -1;
    self->texts = PyTuple_Pack(2, names, columns);
    self->made_places = places_of(places, INT_MAX);
    self->made_names = self->made_places ? texts_of(names) : NULL;
    self->made_kinds = PyMem_Malloc((size_t)size + 1);
    if (!self->texts || !self->made_names || !self->made_kinds)
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    if (laid) {
        self->layout_names = texts_of(columns);
        self->layout = PyMem_Calloc((size_t)self->laid + 1, sizeof(int));
        if (!self->layout_names || !self->layout)
            return PyErr_Occurred() ? NULL : PyErr_NoMemory();
        for (int c = 0; c < self->laid; c++) {
            PyObject *item = PyTuple_GET_ITEM(columns, c);
            long place = PyLong_CheckExact(item) ? PyLong_AsLong(item) : -1;
            if (place >= size || (place < 0 && !self->layout_names[c].text)) {
                PyErr_SetString(PyExc_ValueError, "a column is a name or the place of a result");
                return NULL;
            }
            self->layout[c] = (int)place;
        }
    }
    for (Py_ssize_t i = 0; i < size; i++)
        if (kinds[i] == 'c' && !PyBytes_CheckExact(PyTuple_GET_ITEM(writers, i))) {
            PyErr_SetString(PyExc_TypeError, "a copy has its column's name");
            return NULL;
        }
    memcpy(self->made_kinds, kinds, (size_t)size);
    self->writers = Py_NewRef(writers);
    self->made = (int)size;
    self->filter = filter;
    self->was = was;
    self->soft_delete = soft_delete;
    self->key_made = key_made;
    self->answered = true;
    return done_telling(self);
}

static bool scratch(State *state, const char *text, size_t size)
{
    if (state->scratch_size + size > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "results of more than 4 GiB");
        return false;
    }
    if (state->scratch_size + size > state->scratch_room) {
        size_t room = (state->scratch_size + size) * 2 + 4096;
        char *more = PyMem_Realloc(state->scratch, room);
        if (!more) {
            PyErr_NoMemory();
            return false;
        }
        state->scratch = more;
        state->scratch_room = room;
    }
    if (size)
        memcpy(state->scratch + state->scratch_size, text, size);
    state->scratch_size += size;
    return true;
}

/* A column that comes in, as Arrow has it */
typedef struct {
    char kind; /* as Col's */
    Py_buffer valid, ends, data; /* those that there are have an owner */
    Py_ssize_t first; /* where its values begin */
} In;

static void in_close(In *in)
{
    if (in->valid.obj)
        PyBuffer_Release(&in->valid);
    if (in->ends.obj)
        PyBuffer_Release(&in->ends);
    if (in->data.obj)
        PyBuffer_Release(&in->data);
}

/* A column of `count` values of (first, validity, ends, data), the last three bytes-like or None; false with an error. */
static bool in_open(In *in, char kind, PyObject *given, Py_ssize_t count)
{
    PyObject *valid, *ends, *data;
    in->kind = kind;
    if (!PyTuple_CheckExact(given) || !PyArg_ParseTuple(given, "nOOO", &in->first, &valid, &ends, &data)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a column is (first, validity, ends, data)");
        return false;
    }
    if ((valid != Py_None && PyObject_GetBuffer(valid, &in->valid, PyBUF_SIMPLE)) ||
        (ends != Py_None && PyObject_GetBuffer(ends, &in->ends, PyBUF_SIMPLE)) ||
        (data != Py_None && PyObject_GetBuffer(data, &in->data, PyBUF_SIMPLE)))
        return false;
    bool fits = in->first >= 0 && in->first <= INT32_MAX && count <= INT32_MAX;
    if (count && fits) {
        Py_ssize_t end = in->first + count, bits = (end + 7) / 8;
        Py_ssize_t needed = kind == 's' ? 0 : kind == 'b' ? bits : end * (Py_ssize_t)width_of(kind);
        fits = needed <= (in->data.obj ? in->data.len : 0) && (!in->valid.obj || in->valid.len >= bits) &&
               (kind == 's' ? in->ends.obj && in->ends.len >= (end + 1) * 4 : !in->ends.obj);
    }
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "a column that is shorter than it says, or of another kind");
    return fits;
}

static inline bool bit_of(const Py_buffer *bits, Py_ssize_t at) { return ((const uint8_t *)bits->buf)[at / 8] >> at % 8 & 1; }

static inline bool is_null(const In *in, Py_ssize_t at) { return in->valid.obj && !bit_of(&in->valid, in->first + at); }

/* A value that has no certain place: the compiler makes one instruction of it. */
#define VALUE_OF(type, name)                                                                                           \
    static inline type name(const In *in, Py_ssize_t at)                                                               \
    {                                                                                                                  \
        type value;                                                                                                    \
        memcpy(&value, (const char *)in->data.buf + (size_t)(in->first + at) * sizeof value, sizeof value);            \
        return value;                                                                                                  \
    }
VALUE_OF(int32_t, int_of)
VALUE_OF(int64_t, long_of)
VALUE_OF(double, double_of)

static inline bool truth_of(const In *in, Py_ssize_t at) { return !is_null(in, at) && bit_of(&in->data, in->first + at); }

/* False with an error for a text that is not among its column's. */
static inline bool text_of(const In *in, Py_ssize_t at, Text *text)
{
    int32_t ends[2];
    memcpy(ends, (const char *)in->ends.buf + (in->first + at) * 4, sizeof ends);
    bool good = ends[0] >= 0 && ends[0] <= ends[1] && ends[1] <= in->data.len;
    *text = good && in->data.buf ? (Text){(const char *)in->data.buf + ends[0], (size_t)(ends[1] - ends[0])} : (Text){"", 0};
    if (!good)
        PyErr_SetString(PyExc_ValueError, "a column with a text that is not among its bytes");
    return good;
}

/* A result as JSON, at the end of the scratch: 1, 0 where that is not for us, -1 with an error. */
static int write_result(State *state, const In *in, Py_ssize_t at, char kind, PyObject *writer)
{
    char number[24];
    Text text = {NULL, 0};
    PyObject *value;
    if (is_null(in, at))
        return scratch(state, "null", 4) ? 1 : -1;
    if (in->kind == 'b') {
        bool truth = truth_of(in, at);
        return kind != 'b' ? 0 : scratch(state, truth ? "true" : "false", truth ? 4 : 5) ? 1 : -1;
    }
    if (in->kind == 'l') {
        int64_t whole = long_of(in, at);
        uint64_t left = whole < 0 ? 0 - (uint64_t)whole : (uint64_t)whole;
        char *end = number + sizeof number, *p = end;
        do
            *--p = (char)('0' + left % 10);
        while (left /= 10);
        if (whole < 0)
            *--p = '-';
        return kind != 'l' ? 0 : scratch(state, p, (size_t)(end - p)) ? 1 : -1;
    }
    if (in->kind == 'd')
        value = PyFloat_FromDouble(double_of(in, at));
    else {
        if (!text_of(in, at, &text))
            return -1;
        size_t i = 0;
        while (kind == 't' && i < text.size && text.text[i] >= ' ' && text.text[i] != '"' && text.text[i] != '\\' &&
               text.text[i] != 0x7f)
            i++;
        if (kind == 't' && i == text.size)
            return scratch(state, "\"", 1) && scratch(state, text.text, text.size) && scratch(state, "\"", 1) ? 1 : -1;
        value = PyUnicode_DecodeUTF8(text.text, (Py_ssize_t)text.size, NULL);
    }
    PyObject *made = value ? PyObject_CallOneArg(writer, value) : NULL;
    Py_XDECREF(value);
    if (!made) {
        PyErr_Clear(); /* the book says what is wrong with it */
        return 0;
    }
    int done = !PyBytes_CheckExact(made) ? 0
               : scratch(state, PyBytes_AS_STRING(made), (size_t)PyBytes_GET_SIZE(made)) ? 1 : -1;
    Py_DECREF(made);
    return done;
}

/* The value of a row's column, null where it has none; false where the name is there twice: the last counts, and that is
   for others to see to. */
static bool copied(const Row *row, PyObject *name, Field *value)
{
    bool found = false;
    *value = (Field){.text = "null", .size = 4, .kind = NUL};
    for (int f = 0; f < row->count; f++) {
        const Field *field = &row->fields[f];
        if (!is_named(field, PyBytes_AS_STRING(name), (uint32_t)PyBytes_GET_SIZE(name)))
            continue;
        if (found)
            return false;
        found = true;
        *value = *field;
    }
    return true;
}

/* The row of an image with its results, those of row `at`; NULL without an error where that is not for us. */
static PyObject *answer(State *state, const Table *table, Text raw, const In *results, Py_ssize_t at)
{
    Field values[MAX_FIELDS];
    const char *end = raw.text + raw.size;
    state->scratch_size = 0;
    if (memchr(table->made_kinds, 'c', (size_t)table->made) &&
        (raw.size > UINT32_MAX || scan_row(raw.text, end, &state->after, NULL) != end))
        return NULL;
    for (int i = 0; i < table->made; i++) {
        size_t start = state->scratch_size;
        if (table->made_kinds[i] == 'c') {
            if (!copied(&state->after, PyTuple_GET_ITEM(table->writers, i), &values[i]))
                return NULL;
            continue;
        }
        if (write_result(state, &results[table->made_places[i]], at, table->made_kinds[i],
                         PyTuple_GET_ITEM(table->writers, i)) != 1)
            return NULL;
        values[i].size = (uint32_t)(state->scratch_size - start);
    }
    const char *text = state->scratch;
    for (int i = 0; i < table->made; i++) {
        Field *value = &values[i];
        value->name = table->made_names[i].text;
        value->name_size = (uint32_t)table->made_names[i].size;
        if (table->made_kinds[i] == 'c')
            continue;
        value->flags = 0;
        value->text = text;
        text += value->size;
        if (scan_value(value->text, text, 2, &value->kind, &value->flags) != text)
            return NULL;
    }
    return composed(state, raw, table->made, values, table->laid, table->layout, table->layout_names);
}

enum { A_PROGRAM = C_SENT, A_MASK, A_FIXED };
static const char ANSWERS[A_FIXED + 1] = "iilissil";

typedef struct {
    In *in; /* what stayed here, the programs and masks that came back, results */
    PyObject *tables, *heads; /* tuples: nobody else changes them */
    Out out;
    long *done; /* by head: so many records went there */
    long filtered;
} Answers;

/* Whether a row is a record that is ready: where it goes, and what it is. May fail with an error. */
static bool is_ready(const Answers *all, Py_ssize_t row, int32_t *head, Text *key, Text *text)
{
    const In *in = all->in;
    *head = int_of(&in[C_HEAD], row);
    *key = *text = (Text){NULL, 0};
    return int_of(&in[C_PROGRAM], row) == -1 && *head >= 0 && *head < PyTuple_GET_SIZE(all->heads) &&
           (is_null(&in[C_KEY], row) || text_of(&in[C_KEY], row, key)) &&
           (is_null(&in[C_TEXT], row) || text_of(&in[C_TEXT], row, text));
}

/* The rows of one message, from `first` to before `end`; their results are those from `row` to before `next`: 1, 0 where that is not for us, -1
   with an error. */
static int answer_one(State *state, Answers *all, Py_ssize_t first, Py_ssize_t end, Py_ssize_t row, Py_ssize_t next)
{
    const In *in = all->in, *results = in + A_FIXED;
    Py_ssize_t last = end - 1;
    int32_t program = int_of(&in[C_PROGRAM], last);
    Text text, key;
    if (program == -1) {
        all->out.whole = NULL;
        int32_t head;
        for (Py_ssize_t i = first; i < end; i++) /* all of them are looked at first: all go, or none */
            if (!is_ready(all, i, &head, &key, &text))
                return PyErr_Occurred() ? -1 : 0;
        for (Py_ssize_t i = first; i < end; i++) {
            is_ready(all, i, &head, &key, &text);
            if (!emit(&all->out, PyTuple_GET_ITEM(PyTuple_GET_ITEM(all->heads, head), 0), key, text))
                return -1;
            all->done[head]++;
        }
        return 1;
    }
    Py_ssize_t at = row + last - first;
    if (program < 0 || program >= PyTuple_GET_SIZE(all->tables) || end - first > 2 || next - row != end - first)
        return 0;
    PyObject *found = PyTuple_GET_ITEM(all->tables, program);
    if (found == Py_None || int_of(&in[A_PROGRAM], at) != program)
        return 0;
    if (!text_of(&in[C_TEXT], last, &text))
        return -1;
    Table *table = (Table *)found;
    int32_t what = int_of(&in[C_WHAT], last);
    /* What the row before would have been is of no interest where it did not come along */
    int64_t ignored = table->was < 0 || what & FED_BOTH ? 0 : (int64_t)1 << table->was;
    if (long_of(&in[A_MASK], at) & ~ignored)
        return 0;
    const In *filter = table->filter < 0 ? NULL : &results[table->filter];
    bool passes = !filter || truth_of(filter, at), passed = false, written_over = false;
    Text raw = text;
    if (end - first == 2) {
        if (what != FED_UPDATE || int_of(&in[C_WHAT], first) != FED_BEFORE || int_of(&in[C_PROGRAM], first) != program ||
            int_of(&in[A_PROGRAM], row) != program || long_of(&in[A_MASK], row) & ~ignored)
            return 0;
        if (!text_of(&in[C_TEXT], first, &raw))
            return -1;
        passed = !filter || truth_of(filter, row);
        what = passed ? FED_UPDATE : FED_INSERT;
    } else if (what == (FED_UPDATE | FED_BOTH)) {
        if (table->was < 0 || table->key_made)
            return 0;
        passed = truth_of(&results[table->was], at);
        what = passed ? FED_UPDATE : FED_INSERT;
        written_over = true;
    } else if (what > FED_DELETE || (what == FED_UPDATE_ALONE && !passes))
        return 0;
    else if (what == FED_DELETE) {
        if (table->soft_delete)
            return 0;
        passed = passes;
        passes = false;
    }
    if (!passes && !passed) {
        all->filtered++;
        return 1;
    }
    PyObject *new = NULL, *old = NULL;
    bool gone = passed && !(passes && written_over);
    if (gone && table->key_made) {
        if (!(old = answer(state, table, raw, results, row)))
            return PyErr_Occurred() ? -1 : 0;
        raw = (Text){PyBytes_AS_STRING(old), (size_t)PyBytes_GET_SIZE(old)};
    }
    if (passes && !(new = answer(state, table, text, results, at))) {
        Py_XDECREF(old);
        return PyErr_Occurred() ? -1 : 0;
    }
    int done = touch(state, table) ? put_one(state, table, new, gone ? &raw : NULL, &all->out) : -1;
    Py_XDECREF(new);
    Py_XDECREF(old);
    if (done == 1)
        *(!passes ? &table->deleted : what == FED_INSERT ? &table->inserted : &table->updated) += 1;
    return done;
}

/* Whether these are tables that write results, of which there are so many, of these kinds; false with an error. */
static bool check_tables(const State *state, PyObject *tables, const char *kinds, Py_ssize_t results)
{
    bool good = true;
    for (Py_ssize_t t = 0; t < PyTuple_GET_SIZE(tables) && good; t++) {
        Table *table = (Table *)PyTuple_GET_ITEM(tables, t);
        if ((PyObject *)table == Py_None)
            continue;
        good = Py_TYPE(table) == state->table_type && table->answered && table->filter < results && table->was < results &&
               (table->filter < 0 || kinds[table->filter] == 'b') && (table->was < 0 || kinds[table->was] == 'b');
        for (int m = 0; good && m < table->made; m++)
            good = table->made_kinds[m] == 'c' || table->made_places[m] < results;
        if (good && !use_table(table))
            return false;
    }
    if (!good)
        PyErr_SetString(PyExc_ValueError, "tables whose results are not among those that came back");
    return good;
}

/* What `drain` is given; its lists are tuples by then */
typedef struct {
    PyObject *tables, *heads, *kept, *back, *out;
    const char *kinds;
    Py_ssize_t size, results, sent, i, row;
    long long limit;
} Drained;

static PyObject *drain_all(State *state, const Drained *given)
{
    PyObject *heads = given->heads, *done = NULL, *result = NULL;
    const char *kinds = given->kinds;
    Py_ssize_t size = given->size, results = given->results, sent = given->sent, i = given->i, row = given->row;
    if (PyTuple_GET_SIZE(given->kept) != C_SENT || PyTuple_GET_SIZE(given->back) != results + 2 || size < 0 || sent < 0 ||
        i < 0 || row < 0 || row > sent) {
        PyErr_SetString(PyExc_ValueError, "not the columns that there are");
        return NULL;
    }
    for (Py_ssize_t r = 0; r < results; r++)
        if (!memchr("lsdb", kinds[r], 4)) {
            PyErr_SetString(PyExc_ValueError, "a result is of s, l, d or b");
            return NULL;
        }
    if (!check_tables(state, given->tables, kinds, results))
        return NULL;
    for (Py_ssize_t h = 0; h < PyTuple_GET_SIZE(heads); h++)
        if (!PyTuple_CheckExact(PyTuple_GET_ITEM(heads, h)) || !PyTuple_GET_SIZE(PyTuple_GET_ITEM(heads, h))) {
            PyErr_SetString(PyExc_TypeError, "a head is a tuple");
            return NULL;
        }
    Py_ssize_t columns = A_FIXED + results;
    Answers all = {PyMem_Calloc((size_t)columns, sizeof(In)), given->tables, heads, {given->out, NULL, NULL},
                   PyMem_Calloc((size_t)PyTuple_GET_SIZE(heads) + 1, sizeof(long)), 0};
    bool good = all.in && all.done;
    if (!good)
        PyErr_NoMemory();
    for (Py_ssize_t c = 0; c < columns && good; c++) {
        char kind = c < A_FIXED ? ANSWERS[c] : kinds[c - A_FIXED];
        good = c < C_SENT ? in_open(&all.in[c], kind, PyTuple_GET_ITEM(given->kept, c), size)
                          : in_open(&all.in[c], kind, PyTuple_GET_ITEM(given->back, c - C_SENT), sent);
    }
    good = good && count_touched(state, true); /* what others counted is not for this to forget */
    int taken = good ? 1 : -1;
    while (taken == 1 && i < size) {
        int64_t at = long_of(&all.in[C_AT], i);
        Py_ssize_t end = i, next = row;
        if (at >= given->limit)
            break;
        for (; end < size && long_of(&all.in[C_AT], end) == at; end++)
            next += int_of(&all.in[C_PROGRAM], end) >= 0;
        if (next > sent) {
            PyErr_SetString(PyExc_ValueError, "fewer results than rows");
            taken = -1;
            break;
        }
        taken = answer_one(state, &all, i, end, row, next);
        if (taken == 1) {
            i = end;
            row = next;
        }
    }
    if (taken < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_SystemError, "no reason given");
    if (good && count_touched(state, taken >= 0) && taken >= 0)
        done = PyDict_New();
    for (Py_ssize_t h = 0; done && h < PyTuple_GET_SIZE(heads); h++) {
        if (!all.done[h])
            continue;
        PyObject *head = PyLong_FromSsize_t(h), *count = PyLong_FromLong(all.done[h]);
        if (!head || !count || PyDict_SetItem(done, head, count))
            Py_CLEAR(done);
        Py_XDECREF(head);
        Py_XDECREF(count);
    }
    if (done)
        result = Py_BuildValue("nnlO", i, row, all.filtered, done);
    Py_XDECREF(done);
    for (Py_ssize_t c = 0; all.in && c < columns; c++)
        in_close(&all.in[c]);
    PyMem_Free(all.in);
    PyMem_Free(all.done);
    return result;
}

/* drain(tables, heads, size, kept, kinds, sent, back, start, row, limit, out): see the stub. */
static PyObject *drain(PyObject *module, PyObject *args)
{
    State *state = PyModule_GetState(module);
    PyObject *tables, *heads, *kept, *back, *result = NULL;
    Drained given = {NULL};
    if (!PyArg_ParseTuple(args, "O!O!nO!y#nO!nnLO!", &PyList_Type, &tables, &PyList_Type, &heads, &given.size, &PyList_Type,
                          &kept, &given.kinds, &given.results, &given.sent, &PyList_Type, &back, &given.i, &given.row,
                          &given.limit, &PyList_Type, &given.out) ||
        !enter(state))
        return NULL;
    /* What writes results is Python, which may change lists */
    given.tables = PyList_AsTuple(tables);
    given.heads = given.tables ? PyList_AsTuple(heads) : NULL;
    given.kept = given.heads ? PyList_AsTuple(kept) : NULL;
    given.back = given.kept ? PyList_AsTuple(back) : NULL;
    if (given.back)
        result = drain_all(state, &given);
    Py_XDECREF(given.tables);
    Py_XDECREF(given.heads);
    Py_XDECREF(given.kept);
    Py_XDECREF(given.back);
    leave(state);
    return result;
}

#endif
