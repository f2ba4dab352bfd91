/* Messages of one form: which table they are of, and what they say of its rows. Part of the hot loop in C. */

#ifndef INGEST_FLOW_MESSAGES_H
#define INGEST_FLOW_MESSAGES_H

#include "raw.h"
#include "_typed.h"

#define MAX_ID 1024
#define MAX_SOURCE 1024
/* Most bytes of a buffer that is kept for what comes next */
#define MAX_ROOM (16 << 20)

enum { DEBEZIUM, ROWS, CANAL };

/* A table that was found, by its id; `tables` keeps both */
typedef struct {
    PyObject *id;
    Table *table;
} Recent;

#define MOST_BITS 12
#define MOST_SAID 8
/* Most texts of that kind, and most bytes of them and of what they say, of all lanes together */
#define MAX_SAYINGS 10000
#define MAX_SAID (128 << 20)

/* What a text says of columns' types; `sayings` keeps both */
typedef struct {
    PyObject *text;
    const Saying *saying;
} RecentSaying;

typedef struct Lane {
    PyObject_HEAD
    struct Lane *next, **before; /* all that there are; NULL where it is not one of them */
    int form;
    PyObject *find, *tables;
    PyObject *member, *say, *sayings; /* `member`: what has what messages say of types; None: they say nothing */
    size_t said_bytes;                /* in `sayings` */
    long tombstones;
    Recent *recent; /* 2 to the power of `bits`, or NULL */
    int bits;
    RecentSaying said[MOST_SAID]; /* the last ones first */
} Lane;

static void forget_recent(Lane *lane)
{
    for (size_t i = 0; lane->recent && i < (size_t)1 << lane->bits; i++)
        Py_XDECREF(lane->recent[i].id);
    PyMem_Free(lane->recent);
    lane->recent = NULL;
}

/* Where a table of this id was kept, or is to be; NULL with an error. There is room for as many as there are. */
static Recent *recent_of(Lane *lane, const char *id, size_t size)
{
    if (!lane->recent || (lane->bits < MOST_BITS && PyDict_GET_SIZE(lane->tables) > (Py_ssize_t)1 << lane->bits)) {
        forget_recent(lane);
        for (lane->bits = 2; lane->bits < MOST_BITS && PyDict_GET_SIZE(lane->tables) > (Py_ssize_t)1 << lane->bits;)
            lane->bits++;
        if (!(lane->recent = PyMem_Calloc((size_t)1 << lane->bits, sizeof(Recent)))) {
            PyErr_NoMemory();
            return NULL;
        }
    }
    uint64_t end = 0; /* ids mostly differ at their ends, before the last zero byte */
    memcpy(&end, size > 8 ? id + size - 9 : id, size > 8 ? 8 : size);
    return &lane->recent[(end ^ size) * 0x9E3779B97F4A7C15ULL >> (64 - lane->bits)];
}

static void forget_said(Lane *lane)
{
    for (int i = 0; i < MOST_SAID; i++)
        Py_CLEAR(lane->said[i].text);
    if (lane->sayings)
        PyDict_Clear(lane->sayings);
    lane->said_bytes = 0;
}

static void lane_dealloc(Lane *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (self->before && (*self->before = self->next))
        self->next->before = self->before;
    forget_recent(self);
    forget_said(self);
    Py_XDECREF(self->member);
    Py_XDECREF(self->say);
    Py_XDECREF(self->sayings);
    Py_XDECREF(self->find);
    Py_XDECREF(self->tables);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static int lane_traverse(Lane *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->find);
    Py_VISIT(self->tables);
    Py_VISIT(self->say);
    Py_VISIT(self->sayings);
    return 0;
}

static int lane_clear(Lane *self)
{
    Py_CLEAR(self->find);
    Py_CLEAR(self->say);
    forget_recent(self);
    forget_said(self);
    Py_CLEAR(self->tables);
    Py_CLEAR(self->sayings);
    return 0;
}

/* What is needed while messages are taken */
typedef struct {
    bool busy; /* something runs that uses what is here */
    Lane *lanes;
    uint64_t rows_made;
    PyTypeObject *table_type, *rows_type, *saying_type;
    PyObject *key, *value, *offset, *raw; /* the names of methods and of what is in C */
    PyObject *inserted, *updated, *deleted; /* the names of a plan's counters */
    Row before, after, message_key, composed;
    Row source; /* one that came, in a text of ours: most are like it */
    char source_text[MAX_SOURCE];
    Way ways[MAX_FIELDS], before_ways[MAX_FIELDS];
    Typing before_typing, typing; /* of the rows before and after, where the message says something */
    char *made;    /* values that were made of others */
    size_t made_room;
    Table **touched; /* those with counters to hand over, each held */
    int touched_count, touched_room;
    char *scratch;
    size_t scratch_size, scratch_room;
    char *row; /* the row that was written last */
    size_t row_room;
} State;

/* Begin with what uses the state; false with an error where something else does already. All of it calls Python back,
   which may let other threads run. */
static bool enter(State *state)
{
    if (state->busy) {
        PyErr_SetString(PyExc_RuntimeError, "the hot loop is running already: it was entered again from what it calls, or "
                                            "from another thread");
        return false;
    }
    return state->busy = true;
}

/* Room that one large message needed is given back. */
static void trim(char **room, size_t *size)
{
    if (*size <= MAX_ROOM)
        return;
    PyMem_Free(*room);
    *room = NULL;
    *size = 0;
}

static void leave(State *state)
{
    trim(&state->made, &state->made_room);
    trim(&state->scratch, &state->scratch_room);
    trim(&state->row, &state->row_room);
    state->busy = false;
}

static int lane_init(void *made, PyObject *args)
{
    Lane *self = made;
    PyObject *find, *member, *say;
    if (!PyArg_ParseTuple(args, "iOOO", &self->form, &find, &member, &say))
        return -1;
    if (self->form < DEBEZIUM || self->form > CANAL || (member != Py_None && !PyBytes_CheckExact(member))) {
        PyErr_SetString(PyExc_TypeError, "a lane is of one of the forms, with a name or none");
        return -1;
    }
    self->find = Py_NewRef(find);
    self->member = Py_NewRef(member);
    self->say = Py_NewRef(say);
    self->tables = PyDict_New();
    self->sayings = PyDict_New();
    if (!self->tables || !self->sayings)
        return -1;
    State *state = PyType_GetModuleState(Py_TYPE(self));
    self->before = &state->lanes;
    if ((self->next = state->lanes))
        self->next->before = &self->next;
    state->lanes = self;
    return 0;
}

static PyObject *lane_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    return make(type, args, lane_init);
}

static bool room_for_row(State *state, size_t size)
{
    if (size <= state->row_room)
        return true;
    char *more = PyMem_Realloc(state->row, size * 2);
    if (!more) {
        PyErr_NoMemory();
        return false;
    }
    state->row = more;
    state->row_room = size * 2;
    return true;
}

/* What a row is written as: the very bytes it came in, or others in the scratch space. False with an error. `typing` as
   for `check_row`. */
static bool write_row(State *state, Table *table, const Row *row, const Typing *typing, Py_ssize_t rewritten, Text *written)
{
    bool missing = row->count < table->count;
    const Way *ways = state->ways;
    *written = (Text){row->text, (size_t)row->size};
    if (!rewritten && !missing)
        return true;
    Py_ssize_t size = row->size + rewritten;
    if (missing)
        for (int i = 0; i < table->count; i++)
            if (table->columns[i].seen != table->row)
                size += table->columns[i].fill_size;
    if (!room_for_row(state, (size_t)size))
        return false;
    char *to = state->row;
    const char *from = row->text;
    for (int i = 0; rewritten && i < row->count; i++) {
        const Field *field = &row->fields[i];
        bool made = typing && typing->came[i].text;
        if (ways[i] == AS_IT_CAME && !made)
            continue;
        Text came = made ? typing->came[i] : (Text){field->text, field->size};
        memcpy(to, from, (size_t)(came.text - from));
        to += came.text - from;
        from = came.text + came.size;
        if (ways[i] == AS_TEXT) {
            to = write_as_text(to, field->text, field->size);
            continue;
        }
        if (ways[i] == QUOTED)
            *to++ = '"';
        memcpy(to, field->text, field->size);
        to += field->size;
        if (ways[i] == QUOTED)
            *to++ = '"';
    }
    const char *end = row->text + row->size - 1; /* without the brace */
    memcpy(to, from, (size_t)(end - from));
    to += end - from;
    if (missing)
        for (int i = 0; i < table->count; i++) {
            const Column *column = &table->columns[table->order[i]];
            if (column->seen != table->row) {
                memcpy(to, column->fill, column->fill_size);
                to += column->fill_size;
            }
        }
    *to++ = '}';
    *written = (Text){state->row, (size_t)(to - state->row)};
    return true;
}

/* The parts of a table's id: null and empty are the same, and text with escapes is not for us. */
static bool part_of(const Field *field, Part *part)
{
    if (part->text || (field->kind != STRING && field->kind != NUL) || field->flags)
        return false;
    part->text = field->kind == NUL ? "" : field->text + 1;
    part->size = field->kind == NUL ? 0 : field->size - 2;
    return true;
}

/* The table of an id; NULL without an error where there is none that is for us. */
static Table *find_table(State *state, Lane *lane, const Part *parts, int count)
{
    char name[MAX_ID];
    Py_ssize_t size = 0;
    name[0] = 0; /* there may be no parts */
    for (int i = 0; i < count; i++) {
        if (size + (Py_ssize_t)parts[i].size + 1 > MAX_ID)
            return NULL;
        memcpy(name + size, parts[i].text ? parts[i].text : "", parts[i].size);
        size += parts[i].size;
        name[size++] = 0; /* no string of JSON has one */
    }
    Recent *recent = recent_of(lane, name, (size_t)size);
    if (!recent)
        return NULL;
    PyObject *last = recent->id;
    if (last && PyBytes_GET_SIZE(last) == size && !memcmp(PyBytes_AS_STRING(last), name, (size_t)size))
        return recent->table;
    PyObject *id = PyBytes_FromStringAndSize(name, size);
    if (!id)
        return NULL;
    PyObject *found = PyDict_GetItemWithError(lane->tables, id);
    if (!found && !PyErr_Occurred()) {
        PyObject *made = PyObject_CallOneArg(lane->find, id);
        if (made && Py_TYPE(made) == state->table_type && !PyDict_SetItem(lane->tables, id, made))
            found = made; /* the dictionary keeps it */
        Py_XDECREF(made);
    }
    if (found && !use_table((Table *)found))
        found = NULL;
    if (found && !(recent = recent_of(lane, name, (size_t)size))) /* there may be one more now */
        found = NULL;
    if (found) {
        recent->table = (Table *)found;
        Py_XSETREF(recent->id, Py_NewRef(id));
    }
    Py_DECREF(id);
    return (Table *)found;
}

static bool touch(State *state, Table *table)
{
    if (table->inserted || table->updated || table->deleted)
        return true;
    if (state->touched_count == state->touched_room) {
        int room = state->touched_room ? state->touched_room * 2 : 64;
        Table **more = PyMem_Realloc(state->touched, (size_t)room * sizeof(Table *));
        if (!more) {
            PyErr_NoMemory();
            return false;
        }
        state->touched = more;
        state->touched_room = room;
    }
    state->touched[state->touched_count++] = (Table *)Py_NewRef((PyObject *)table);
    return true;
}

static bool add_to(PyObject *plan, PyObject *name, long *count)
{
    if (!*count)
        return true;
    PyObject *old = PyObject_GetAttr(plan, name), *more = PyLong_FromLong(*count);
    PyObject *sum = old && more ? PyNumber_Add(old, more) : NULL;
    bool good = sum && !PyObject_SetAttr(plan, name, sum);
    Py_XDECREF(old);
    Py_XDECREF(more);
    Py_XDECREF(sum);
    *count = 0;
    return good;
}

/* Add what was counted to the plans, if all went well, and else forget it; false with an error. */
static bool count_touched(State *state, bool good)
{
    for (int t = 0; t < state->touched_count; t++) {
        Table *table = state->touched[t];
        good = good && add_to(table->plan, state->inserted, &table->inserted) &&
               add_to(table->plan, state->updated, &table->updated) &&
               add_to(table->plan, state->deleted, &table->deleted);
        table->inserted = table->updated = table->deleted = 0;
        Py_DECREF(table);
    }
    state->touched_count = 0;
    return good;
}

/* Where records go: a list of them, or a sink that takes them as they are */
typedef struct {
    PyObject *list;
    const RawSink *sink;
    PyObject *whole; /* the message in hand, where it is an object and may be written as it is; or NULL */
} Out;

/* Put a record in `out`; texts of NULL are none. */
static bool emit(const Out *out, PyObject *destination, Text key, Text value)
{
    if (out->sink) {
        RawRecord record = {key.text, value.text, key.size, value.size, -1};
        return out->sink->put(out->sink->self, destination, &record);
    }
    PyObject *name = bytes_of(key.text, key.size), *text = NULL, *record = NULL;
    if (name && out->whole && (size_t)PyBytes_GET_SIZE(out->whole) == value.size && value.text == PyBytes_AS_STRING(out->whole))
        text = Py_NewRef(out->whole);
    else if (name)
        text = bytes_of(value.text, value.size);
    if (text)
        record = PyTuple_Pack(3, destination, name, text);
    Py_XDECREF(name);
    Py_XDECREF(text);
    if (!record)
        return false;
    int failed = PyList_Append(out->list, record);
    Py_DECREF(record);
    return !failed;
}

static const char UNAVAILABLE[] = "__debezium_unavailable_value";
static const char UNAVAILABLE_BYTES[] = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==";

/* Whether there may be `__`, or what base64 makes of it at a text's beginning. */
static bool suspect(const char *text, size_t size)
{
#ifdef __SSE2__
    const __m128i first = _mm_set1_epi8('_'), other = _mm_set1_epi8('X'), after = _mm_set1_epi8('1');
    __m128i pairs = _mm_setzero_si128();
    for (size_t i = 0; size >= 17; i = i + 33 > size ? size - 17 : i + 16) {
        __m128i now = _mm_loadu_si128((const __m128i *)(text + i)), next = _mm_loadu_si128((const __m128i *)(text + i + 1));
        __m128i plain = _mm_and_si128(_mm_cmpeq_epi8(now, first), _mm_cmpeq_epi8(next, first));
        __m128i coded = _mm_and_si128(_mm_cmpeq_epi8(now, other), _mm_cmpeq_epi8(next, after));
        pairs = _mm_or_si128(pairs, _mm_or_si128(plain, coded));
        if (i + 17 == size)
            return _mm_movemask_epi8(pairs) != 0;
    }
#endif
    for (size_t i = 0; i + 1 < size; i++)
        if ((text[i] == '_' && text[i + 1] == '_') || (text[i] == 'X' && text[i + 1] == '1'))
            return true;
    return false;
}

/* Whether there is what Debezium writes in the place of a value that it does not have. */
static bool unavailable(const char *text, size_t size)
{
    if (!suspect(text, size))
        return false;
    return memmem(text, size, UNAVAILABLE, sizeof UNAVAILABLE - 1) ||
           memmem(text, size, UNAVAILABLE_BYTES, sizeof UNAVAILABLE_BYTES - 1);
}

/* Keep a source, for those that follow. */
static void keep_source(State *state, const Row *row)
{
    if (row->size > MAX_SOURCE)
        return;
    memcpy(state->source_text, row->text, (size_t)row->size);
    state->source.end = state->source_text + row->size;
    state->source.count = row->count;
    for (int i = 0; i < row->count; i++) {
        Field *field = &state->source.fields[i];
        *field = row->fields[i];
        field->name = state->source_text + (field->name - row->text);
        field->text = state->source_text + (field->text - row->text);
    }
}

/* Keep what a text says, if there is room; where there is none for it beside others, they are forgotten. False where it
   is not kept: what is larger than all that may be kept is not for us, or with an error. */
static bool keep_saying(State *state, Lane *lane, PyObject *text, PyObject *made)
{
    size_t weight = (size_t)PyBytes_GET_SIZE(text) + MAX_MADE * 4; /* and the objects' own */
    if (Py_TYPE(made) == state->saying_type)
        weight += ((Saying *)made)->weight;
    size_t bytes = weight;
    Py_ssize_t count = 1;
    for (Lane *one = state->lanes; one; one = one->next) {
        bytes += one->said_bytes;
        count += PyDict_GET_SIZE(one->sayings);
    }
    if (weight > MAX_SAID / 4)
        return false;
    for (Lane *one = state->lanes; one && (bytes > MAX_SAID || count > MAX_SAYINGS); one = one->next)
        forget_said(one);
    if (PyDict_SetItem(lane->sayings, text, made))
        return false;
    lane->said_bytes += weight;
    return true;
}

/* What a text says of columns' types, from its brace on, and where it ends; NULL where it is not for us, or with an
   error. */
static const Saying *find_saying(State *state, Lane *lane, const char **at, const char *end)
{
    const char *text = *at, *p;
    uint8_t kind, flags = 0;
    int i = 0;
    for (; i < MOST_SAID && lane->said[i].text; i++) {
        size_t size = (size_t)PyBytes_GET_SIZE(lane->said[i].text);
        if (size > (size_t)(end - text) || memcmp(text, PyBytes_AS_STRING(lane->said[i].text), size))
            continue;
        RecentSaying found = lane->said[i];
        memmove(lane->said + 1, lane->said, (size_t)i * sizeof found);
        lane->said[0] = found;
        *at = text + size;
        return found.saying;
    }
    if (lane->say == Py_None || text >= end || *text != '{' || !(p = scan_value(text, end, 1, &kind, &flags)))
        return NULL;
    PyObject *name = PyBytes_FromStringAndSize(text, p - text);
    if (!name)
        return NULL;
    PyObject *found = PyDict_GetItemWithError(lane->sayings, name);
    if (!found && !PyErr_Occurred()) {
        PyObject *made = PyObject_CallOneArg(lane->say, name);
        if (made && keep_saying(state, lane, name, made))
            found = made; /* the dictionary keeps it */
        Py_XDECREF(made);
    }
    if (found && Py_TYPE(found) == state->saying_type) {
        Py_XDECREF(lane->said[MOST_SAID - 1].text);
        memmove(lane->said + 1, lane->said, (MOST_SAID - 1) * sizeof *lane->said);
        lane->said[0] = (RecentSaying){Py_NewRef(name), (Saying *)found};
        *at = p;
    } else
        found = NULL;
    Py_DECREF(name);
    return (Saying *)found;
}

/* The row before a change whose image holds what changed: what it lacks is as in the row after. False where it is not for
   us. `typing` and `old_typing`: what is known of them, or NULL. */
static bool lay_over(State *state, Row *old, Typing *old_typing, const Row *row, const Typing *typing, char **to)
{
    Row *whole = &state->composed;
    int places[MAX_FIELDS], types[MAX_FIELDS]; /* where the row's fields are in the image, or -1 */
    int next = 0;
    if (!row->count)
        return false;
    for (int i = 0; i < row->count; i++)
        places[i] = -1;
    for (int i = 0; i < old->count; i++) {
        int tried = 0;
        for (; tried < row->count; tried++, next++) {
            if (next >= row->count)
                next = 0;
            if (is_named(&old->fields[i], row->fields[next].name, row->fields[next].name_size))
                break;
        }
        if (tried == row->count || places[next] >= 0)
            return false;
        places[next] = i;
    }
    char *p = *to;
    whole->text = p;
    *p++ = '{';
    for (int i = 0; i < row->count; i++) {
        whole->fields[i] = places[i] < 0 ? row->fields[i] : old->fields[places[i]];
        p = put_field(p, &whole->fields[i], i + 1 == row->count);
        if (typing)
            types[i] = places[i] < 0 ? typing->types[i] : old_typing->types[places[i]];
    }
    old->text = whole->text;
    old->size = p - whole->text;
    old->end = p;
    old->count = row->count;
    memcpy(old->fields, whole->fields, (size_t)row->count * sizeof(Field));
    for (int i = 0; typing && i < row->count; i++) {
        old_typing->types[i] = types[i];
        old_typing->came[i].text = NULL;
    }
    *to = p;
    return true;
}

/* Put the values of the rows before and after in the form of their types, if the message says what they are or the
   pipeline declares them, and for a table whose rows go to expressions as if they had come so: 1, 0 where it is not for
   us, -1 with an error. `typed`: whether there is something to know of the rows beside their texts. */
static int read_images(State *state, const Lane *lane, Table *table, const Saying *said, char op, bool *typed)
{
    bool fed = table->fed;
    *typed = said != NULL;
    /* Canal's row before a change is looked at for updates only, and Debezium's row after a delete never */
    Row *old = state->before.size && (lane->form != CANAL || op == 'u') ? &state->before : NULL;
    Row *row = state->after.size && (lane->form == CANAL || op != 'd') ? &state->after : NULL;
    bool over = fed && lane->form == CANAL && old && row;
    if (!said && !over && !table->declares)
        return 1;
    size_t room = ((old ? room_to_read(old) : 0) + (row ? room_to_read(row) : 0)) * (fed ? 4 : 1);
    if (room > state->made_room) {
        char *more = PyMem_Realloc(state->made, room * 2);
        if (!more) {
            PyErr_NoMemory();
            return -1;
        }
        state->made = more;
        state->made_room = room * 2;
    }
    char *to = state->made;
    Typing *old_typing = &state->before_typing, *typing = &state->typing;
    if (said && ((old && !read_said_row(said, old, old_typing, &to)) || (row && !read_said_row(said, row, typing, &to))))
        return 0;
    if (table->declares && ((old && !respell_row(table, old, old_typing, said, &to, typed)) ||
                            (row && !respell_row(table, row, typing, said, &to, typed))))
        return 0;
    if (!*typed)
        old_typing = typing = NULL;
    if (typing && fed && ((old && !restate_row(old, old_typing, &to)) || (row && !restate_row(row, typing, &to))))
        return 0;
    return !over || lay_over(state, old, old_typing, row, typing, &to);
}

/* What an envelope says: the operation, the images (a size of 0: none), the table. Where it ends, or NULL where it is
   not for us. */
static const char *read_payload(State *state, const char *p, const char *end, char *op, Part parts[3])
{
    enum { BEFORE = 1, AFTER = 2, SOURCE = 4 };
    int seen = 0;
    bool last = false;
    *op = 0;
    state->before.size = state->after.size = 0;
    p = open_object(p, end, &last);
    while (p && !last) {
        Field field;
        if (!(p = scan_name(p, end, &field)) || p >= end || is_named(&field, "payload", 7))
            return NULL;
        int what = is_named(&field, "before", 6)   ? BEFORE
                   : is_named(&field, "after", 5)  ? AFTER
                   : is_named(&field, "source", 6) ? SOURCE
                                                   : 0;
        if (seen & what)
            return NULL;
        seen |= what;
        if (what == SOURCE) {
            Row *row = &state->message_key; /* not in use yet */
            if (!(p = scan_row(p, end, row, &state->source)))
                return NULL;
            if (row->alike * 2 < row->count)
                keep_source(state, row);
            for (int i = 0; i < row->count; i++) {
                const Field *of = &row->fields[i];
                int part = is_named(of, "db", 2)       ? 0
                           : is_named(of, "schema", 6) ? 1
                           : is_named(of, "table", 5)  ? 2
                                                       : -1;
                if (part >= 0 && !part_of(of, &parts[part]))
                    return NULL;
            }
        } else if (what && *p != 'n')
            p = what == BEFORE ? scan_row(p, end, &state->before, NULL) : scan_row(p, end, &state->after, state->before.size ? &state->before : NULL);
        else {
            p = scan_field(p, end, &field);
            if (is_named(&field, "op", 2)) {
                if (!p || *op || field.kind != STRING || field.size != 3)
                    return NULL;
                *op = field.text[1];
            }
        }
        if (!p || !(p = next_field(p, end, &last)))
            return NULL;
    }
    return seen & SOURCE && parts[2].size ? p : NULL;
}

/* A message of Debezium's, with a schema envelope, whose schema says what the types are, or without; whether it is for
   us. */
static bool read_envelope(State *state, Lane *lane, const char *p, const char *end, char *op, Part parts[3], const Saying **said)
{
    enum { SCHEMA = 1, PAYLOAD = 2 };
    int seen = 0;
    bool last = false;
    Field field;
    p = skip_space(p, end);
    const char *name = open_object(p, end, &last);
    if (!name || last)
        return false;
    if (end - name < 9 || (memcmp(name, "\"schema\"", 8) && memcmp(name, "\"payload\"", 9))) {
        p = read_payload(state, p, end, op, parts);
        return p && skip_space(p, end) == end;
    }
    for (p = name; !last;) {
        if (!(p = scan_name(p, end, &field)))
            return false;
        int what = is_named(&field, "schema", 6) ? SCHEMA : is_named(&field, "payload", 7) ? PAYLOAD : 0;
        if (!what || seen & what || p >= end)
            return false;
        seen |= what;
        if (what == PAYLOAD)
            p = read_payload(state, p, end, op, parts);
        else if (*p == 'n')
            p = scan_field(p, end, &field);
        else if (!(*said = find_saying(state, lane, &p, end)))
            return false;
        if (!p || !(p = next_field(p, end, &last)))
            return false;
    }
    return seen & PAYLOAD && skip_space(p, end) == end;
}

/* The strings of an array without escapes, or null; how many, or -1. */
static int read_names(const char **at, const char *end, Part *names, int most)
{
    const char *p = *at;
    int count = 0;
    uint8_t kind, flags = 0;
    if (p < end && *p == 'n') {
        *at = scan_value(p, end, 1, &kind, &flags);
        return *at ? 0 : -1;
    }
    if (p >= end || *p != '[')
        return -1;
    p = skip_space(p + 1, end);
    while (p < end && *p == '"') {
        if (count == most)
            return -1;
        names[count].text = ++p;
        if (!(p = scan_string(p, end, &flags)) || flags)
            return -1;
        names[count].size = (uint32_t)(p - names[count].text);
        count++;
        p = skip_space(p + 1, end);
        if (p >= end || *p != ',')
            break;
        p = skip_space(p + 1, end);
        if (p >= end || *p != '"')
            return -1;
    }
    if (p >= end || *p != ']')
        return -1;
    *at = p + 1;
    return count;
}

/* One row in an array, or null, or an array of null: of more rows, others take care. */
static const char *scan_only_row(const char *p, const char *end, Row *row)
{
    uint8_t kind, flags = 0;
    row->size = 0;
    if (p < end && *p == '[') {
        p = skip_space(p + 1, end);
        p = p < end && *p == 'n' ? scan_value(p, end, 1, &kind, &flags) : scan_row(p, end, row, NULL);
        if (!p)
            return NULL;
        p = skip_space(p, end);
        return p < end && *p == ']' ? p + 1 : NULL;
    }
    return p < end && *p == 'n' ? scan_value(p, end, 1, &kind, &flags) : NULL;
}

/* What a Canal message says, as `read_envelope` has it; and the columns of the primary key. */
static bool read_canal(State *state, Lane *lane, const char *p, const char *end, char *op, Part parts[3], Part *key,
                       int *keys, const Saying **said)
{
    const char *member = lane->member == Py_None ? NULL : PyBytes_AS_STRING(lane->member);
    uint32_t member_size = member ? (uint32_t)PyBytes_GET_SIZE(lane->member) : 0;
    enum { DATA = 1, OLD = 2, NAMES = 4 };
    int seen = 0;
    bool last = false;
    *op = 0;
    state->before.size = state->after.size = 0;
    p = open_object(skip_space(p, end), end, &last);
    while (p && !last) {
        Field field;
        if (!(p = scan_name(p, end, &field)))
            return false;
        int what = is_named(&field, "data", 4)      ? DATA
                   : is_named(&field, "old", 3)     ? OLD
                   : is_named(&field, "pkNames", 7) ? NAMES
                                                    : 0;
        if (seen & what)
            return false;
        seen |= what;
        if (what == NAMES) {
            if ((*keys = read_names(&p, end, key, MAX_KEYS)) < 0)
                return false;
        } else if (what)
            p = scan_only_row(p, end, what == DATA ? &state->after : &state->before);
        else if (member && is_named(&field, member, member_size)) {
            if (*said || !(*said = find_saying(state, lane, &p, end)))
                return false;
        } else {
            if (!(p = scan_field(p, end, &field)))
                return false;
            if (is_named(&field, "database", 8) || is_named(&field, "table", 5)) {
                if (!part_of(&field, &parts[field.name_size == 5 ? 2 : 0]))
                    return false;
            } else if (is_named(&field, "isDdl", 5)) {
                if (field.kind != NUL && (field.kind != BOOL || *field.text != 'f'))
                    return false;
            } else if (is_named(&field, "type", 4)) {
                if (*op || field.kind != STRING || field.size != 8)
                    return false;
                *op = !memcmp(field.text, "\"INSERT\"", 8)   ? 'c'
                      : !memcmp(field.text, "\"UPDATE\"", 8) ? 'u'
                      : !memcmp(field.text, "\"DELETE\"", 8) ? 'd'
                                                           : 0;
                if (!*op)
                    return false;
            }
        }
        if (!p || !(p = next_field(p, end, &last)))
            return false;
    }
    return p && skip_space(p, end) == end && parts[2].size && !member == !*said;
}

#endif
