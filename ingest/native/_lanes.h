/* The way of messages: to records, or to rows for expressions. Part of the hot loop in C. */

#ifndef INGEST_FLOW_LANES_H
#define INGEST_FLOW_LANES_H

#include "_layout.h"

/* Take one message: 1 if it was, 0 if it is not for us, -1 with an error. Emits all of its records, or none. */
static int take_one(State *state, Lane *lane, const RawRecord *record, const Out *out, const Feed *feed)
{
    char key[MAX_KEY], old_key[MAX_KEY];
    char op;
    Part parts[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}}, names[MAX_KEYS];
    int named = 0;
    const Saying *said = NULL;
    if (!record->value) {
        lane->tombstones++;
        return 1;
    }
    const char *text = record->value, *end = text + record->value_size;
    Text message_key = {record->key, record->key_size};
    if (end - text > UINT32_MAX || !is_utf8(text, end - text))
        return 0;
    Table *table;
    if (lane->form == DEBEZIUM) {
        if (!read_envelope(state, lane, text, end, &op, parts, &said))
            return PyErr_Occurred() ? -1 : 0;
        table = find_table(state, lane, parts, 3);
    } else if (lane->form == CANAL) {
        if (!read_canal(state, lane, text, end, &op, parts, names, &named, &said))
            return PyErr_Occurred() ? -1 : 0;
        table = find_table(state, lane, parts, 3);
        message_key.text = NULL;
    } else {
        op = 'c';
        state->before.size = 0;
        const char *p = scan_row(skip_space(text, end), end, &state->after, NULL);
        if (!p || skip_space(p, end) != end)
            return 0;
        table = find_table(state, lane, NULL, 0);
        message_key.text = NULL;
    }
    if (!table)
        return PyErr_Occurred() ? -1 : 0;
    if (table->fed ? !feed : feed && !table->has_heads)
        return 0;
    if (table->keyed && named && !is_key(table, names, named))
        return 0;
    bool typed;
    int read = read_images(state, lane, table, said, op, &typed);
    if (read != 1)
        return read;
    if (table->fed)
        return feed_one(state, lane, table, op, message_key, typed, feed);
    if (table->laid_out)
        return take_laid_out(state, lane, table, op, message_key, typed, out);

    size_t size, old_size = 0;
    Row *row = &state->after;
    Py_ssize_t rewritten = 0;
    bool inserted = op == 'c' || op == 'r', updated = op == 'u';
    const Field *fields[MAX_KEYS];
    const Typing *typing = typed ? &state->typing : NULL;
    if (inserted || updated) {
        if (!row->size || !check_row(table, row, typing, state->ways, &rewritten))
            return 0;
        if (lacks(lane, row))
            return 0;
        if (!key_fields(table, row, fields) || !(size = write_key(table, fields, key)))
            return 0;
        if (updated && state->before.size) {
            /* Debezium's is the row as it was; Canal's has only what changed */
            int found = find_key(table, &state->before, fields);
            if (found < 0 || (lane->form != CANAL && found != table->keys))
                return 0;
            if (found && !(old_size = write_key(table, fields, old_key)))
                return 0;
        }
    } else if (op == 'd') {
        if (lane->form != CANAL)
            row = &state->before;
        if (!row->size || !(size = write_partial_key(table, row, key)))
            return 0;
    } else
        return 0;
    if (table->keyed && message_key.text) {
        bool same = message_key.size == size && !memcmp(message_key.text, key, size);
        if (!same && !same_columns(table, message_key, &state->message_key))
            return 0;
    }

    Text written = {NULL, 0}, now = {key, size}, old = {old_key, old_size}, none = {NULL, 0};
    if (op != 'd' && !write_row(state, table, row, typing, rewritten, &written))
        return -1;
    bool moved = old_size && (old_size != size || memcmp(old_key, key, size));
    if (feed) {
        bool good = (!moved || ready(feed, table, 3, old, none)) &&
                    ready(feed, table, inserted ? 0 : updated ? 1 : 2, now, written);
        return good ? 1 : -1;
    }
    if (!touch(state, table) || (moved && !emit(out, table->destination, old, none)) ||
        !emit(out, table->destination, now, written))
        return -1;
    *(inserted ? &table->inserted : updated ? &table->updated : &table->deleted) += 1;
    return 1;
}

/* settle(): tell the plans what was counted since the last time. */
static PyObject *settle(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    State *state = PyModule_GetState(module);
    if (!enter(state))
        return NULL;
    bool good = count_touched(state, true);
    leave(state);
    return good ? Py_NewRef(Py_None) : NULL;
}

/* A message that is an object: 1, 0 where it is not for us, -1 with an error. What `held` has keeps it and its bytes
   alive: the list that it is of may change while it is asked. */
static int read_record(State *state, PyObject *message, bool offset, PyObject *held[3], RawRecord *record)
{
    held[2] = Py_NewRef(message);
    if (!(held[0] = PyObject_CallMethodNoArgs(message, state->key)) ||
        !(held[1] = PyObject_CallMethodNoArgs(message, state->value)))
        return -1;
    PyObject *key = held[0], *value = held[1];
    if ((key != Py_None && !PyBytes_CheckExact(key)) || (value != Py_None && !PyBytes_CheckExact(value)))
        return 0;
    if (key != Py_None) {
        record->key = PyBytes_AS_STRING(key);
        record->key_size = (size_t)PyBytes_GET_SIZE(key);
    }
    if (value != Py_None) {
        record->value = PyBytes_AS_STRING(value);
        record->value_size = (size_t)PyBytes_GET_SIZE(value);
    }
    if (offset) {
        PyObject *at = PyObject_CallMethodNoArgs(message, state->offset);
        record->offset = at ? PyLong_AsLongLong(at) : -1;
        Py_XDECREF(at);
    }
    return PyErr_Occurred() ? -1 : 1;
}

/* What an object has in C, or NULL: with an error unless it is a list, which has nothing. */
static const void *raw_of(State *state, PyObject *given, const char *name)
{
    PyObject *capsule = PyList_CheckExact(given) ? NULL : PyObject_GetAttr(given, state->raw);
    const void *found = capsule ? PyCapsule_GetPointer(capsule, name) : NULL;
    Py_XDECREF(capsule);
    return found;
}

/* Take messages[*at:] until one is not for us, and say where that is; what `take_one` says of the last one. */
static int take_all(State *state, Lane *lane, PyObject *messages, PyObject *start, Py_ssize_t *at, Out *out, Feed *feed)
{
    const RawRecords *raw = raw_of(state, messages, RAW_RECORDS);
    *at = PyLong_AsSsize_t(start);
    if (*at < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "start is negative");
    if (PyErr_Occurred())
        return -1;
    for (; *at < (raw ? raw->count : PyList_GET_SIZE(messages)); ++*at) {
        PyObject *held[3] = {NULL, NULL, NULL};
        RawRecord record = {NULL, NULL, 0, 0, -1};
        int taken = 1;
        if (raw)
            record = raw->records[*at];
        else
            taken = read_record(state, PyList_GET_ITEM(messages, *at), feed != NULL, held, &record);
        Py_ssize_t before = feed ? feed->rows->count : 0, sent = feed ? feed->rows->sent : 0;
        if (feed)
            feed->offset = record.offset;
        if (out)
            out->whole = lane->form == ROWS ? held[1] : NULL;
        if (taken == 1)
            taken = take_one(state, lane, &record, out, feed);
        if (feed && taken != 1) {
            feed->rows->count = before;
            feed->rows->sent = sent;
        }
        for (int h = 0; h < 3; h++)
            Py_XDECREF(held[h]);
        if (taken != 1)
            return taken;
    }
    return 1;
}

static PyObject *lane_take(Lane *self, PyTypeObject *type, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 3 || names) {
        PyErr_SetString(PyExc_TypeError, "take(messages, start: int, out)");
        return NULL;
    }
    State *state = PyType_GetModuleState(type);
    Out out = {args[2], raw_of(state, args[2], RAW_SINK), NULL};
    if (PyErr_Occurred() || !enter(state))
        return NULL;
    Py_ssize_t at;
    int taken = take_all(state, self, args[0], args[1], &at, &out, NULL);
    leave(state);
    return taken >= 0 ? PyLong_FromSsize_t(at) : NULL;
}

static PyObject *lane_feed(Lane *self, PyTypeObject *type, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = PyType_GetModuleState(type);
    if (count != 3 || names || Py_TYPE(args[2]) != state->rows_type) {
        PyErr_SetString(PyExc_TypeError, "feed(messages, start: int, rows: Rows)");
        return NULL;
    }
    Feed feed = {(Rows *)args[2], -1};
    if (!enter(state))
        return NULL;
    Py_ssize_t at;
    int taken = -1;
    if (rows_begin(feed.rows)) {
        taken = take_all(state, self, args[0], args[1], &at, NULL, &feed);
        rows_end(feed.rows, NULL);
    }
    leave(state);
    return taken >= 0 ? PyLong_FromSsize_t(at) : NULL;
}

static PyObject *lane_forget(Lane *self, PyObject *Py_UNUSED(ignored))
{
    State *state = PyType_GetModuleState(Py_TYPE(self));
    if (!enter(state)) /* a message's table is not held while it is taken */
        return NULL;
    forget_recent(self);
    PyDict_Clear(self->tables);
    leave(state);
    Py_RETURN_NONE;
}

static PyObject *lane_tombstones(Lane *self, PyObject *Py_UNUSED(ignored))
{
    long count = self->tombstones;
    self->tombstones = 0;
    return PyLong_FromLong(count);
}

static PyMethodDef lane_methods[] = {
    {"take", (PyCFunction)(void (*)(void))lane_take, METH_METHOD | METH_FASTCALL | METH_KEYWORDS,
     "Put records of messages[start:] in `out`; the index of the first message that is left to others."},
    {"feed", (PyCFunction)(void (*)(void))lane_feed, METH_METHOD | METH_FASTCALL | METH_KEYWORDS,
     "Put rows for expressions in `rows`; the index of the first message that is left to others."},
    {"tombstones", (PyCFunction)lane_tombstones, METH_NOARGS,
     "How many messages without a value were passed since the last time."},
    {"forget", (PyCFunction)lane_forget, METH_NOARGS, "Ask for every table again."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot lane_slots[] = {
    {Py_tp_doc, "Lane(form, find, member, say): messages of one form; `find` makes the Table of an id, or None; `member` "
                "is the name of what says what columns' types are, and `say` makes a Saying of that, or None."},
    {Py_tp_dealloc, lane_dealloc},
    {Py_tp_traverse, lane_traverse},
    {Py_tp_clear, lane_clear},
    {Py_tp_new, lane_new},
    {Py_tp_methods, lane_methods},
    {0, NULL},
};
static PyType_Spec lane_spec = {
    "ingest.native._native.Lane", sizeof(Lane), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, lane_slots,
};

#endif
