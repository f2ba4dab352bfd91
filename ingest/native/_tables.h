/* Tables, and what their rows and keys are checked for and written as: parts of the hot loop in C. */

#ifndef INGEST_FLOW_TABLES_H
#define INGEST_FLOW_TABLES_H

#include <limits.h>

#include "_json.h"

#define MAX_KEYS 16
#define MAX_NAME (1 << 24)
#define MAX_KEY 4096
#define MAX_KEY_NUMBER 40 /* characters of a number in a key; the limit of zeros in model/keytext.py is no lower */

/* What a column takes. The codes are those of native.py. */
enum {
    TAKES_NULL, TAKES_BOOL, TAKES_INT, TAKES_DOUBLE, TAKES_TEXT, TAKES_DECIMAL, TAKES_TIMESTAMP, TAKES_DATE, TAKES_TIME,
    TAKES_BYTES, TAKES_OTHER
};

typedef struct {
    char *name;
    char *fill; /* `,"name":null` */
    uint32_t name_size, fill_size;
    int takes, key; /* `key`: place in the primary key, or -1 */
    int type;       /* the number of its type, where the sink's column is of the same; or 0 */
    bool quoted;    /* the sink's column is a text: what is none is written as one */
    bool moves;     /* it is of the key of what comes out of expressions */
    uint8_t declared; /* the pipeline declares its type, so that it takes every spelling: 1, and 2 for any fraction */
    long a, b;      /* bits; most characters (-1: any); precision and scale; separator and zone */
    int at, was;    /* field of the row in hand; of the image in hand */
    uint64_t seen;  /* the row that had it last */
    uint64_t had;   /* the image that had it last */
} Column;

typedef struct {
    const char *text;
    size_t size;
} Text;

/* What records are put together of. The codes are those of native.py. */
enum { PIECE_TEXT, PIECE_CELL, PIECE_CSV, PIECE_IMAGE };

typedef struct {
    int op, place; /* `place`: of a column; in keys, of a key column */
    char *text;
    size_t size;
} Piece;

typedef struct {
    Piece *pieces;
    int count;
} Pieces;

typedef struct {
    PyObject_HEAD
    Column *columns;
    int count, own; /* columns of the sink; of them, the first `own` may be in a row, in the source's order */
    int *order;     /* the sink's columns in the sink's order */
    int keys;
    int key_columns[MAX_KEYS];
    uint64_t row; /* number of the row in hand */
    bool keyed;   /* the primary key comes from the messages' keys */
    bool key_strings; /* every value is a text in keys, whatever it came as */
    bool declares; /* the pipeline declares types of its columns */
    PyObject *plan, *destination;
    long inserted, updated, deleted;
    int given;      /* what it was told once, or was about to be: see `begin_telling` */
    bool unfinished; /* one of that failed, so that it is of no use */
    bool used;      /* it is as it is from now on */
    /* Where rows go to expressions: which columns travel in which slots, and which of them decide */
    bool fed, images;
    int inputs, event, decisive; /* `event`: the slot of what happened, or -1 */
    int *input_columns, *input_slots, *decisive_columns;
    char *input_kinds;
    int were, *were_columns, *were_slots; /* those of the row before an update that go with the row after it */
    char *were_kinds;
    int32_t program;
    PyObject *base;    /* the slots with what is the same for all rows: texts, or None */
    uint64_t checked;  /* the number of those Rows whose slots are known to be the same */
    bool has_heads;
    int32_t heads[4];  /* places of the destination for an insert, an update, a delete, and an old key */
    /* Where results come back: which of them are its, and what the row is made of */
    bool answered, soft_delete, key_made;
    int filter, was, made, laid; /* `filter`, `was`: which result, or -1; `laid`: columns of the layout, or -1 for none */
    int *made_places, *layout;
    Text *made_names, *layout_names;
    char *made_kinds;
    PyObject *writers, *texts; /* what writes the others' values; whose bytes the names are */
    /* Where records are put together of pieces: the key, and the values of an insert, an update, one whose row before it
       is not known, and a delete */
    bool laid_out, laid_keyed, laid_delete, laid_moves;
    Pieces laid_key, bodies[4];
} Table;

static void free_pieces(Pieces *pieces)
{
    for (int i = 0; pieces->pieces && i < pieces->count; i++)
        PyMem_Free(pieces->pieces[i].text);
    PyMem_Free(pieces->pieces);
}

/* What a table is told once, before it is used: that gives room away that is in use later. */
enum { TOLD_FEED = 1, TOLD_LAYOUT = 2, TOLD_ANSWER = 4 };

/* False with an error where it is too late for that. Until `done_telling`, the table is of no use. */
static bool begin_telling(Table *self, int what)
{
    if (self->used || self->unfinished || self->given & what) {
        PyErr_SetString(PyExc_ValueError, "a table is told this once, and not when it is in use");
        return false;
    }
    self->given |= what;
    self->unfinished = true;
    return true;
}

static PyObject *done_telling(Table *self)
{
    self->unfinished = false;
    Py_RETURN_NONE;
}

/* Let a table be as it is from now on; false with an error where it is of no use. */
static bool use_table(Table *table)
{
    if (table->unfinished)
        PyErr_SetString(PyExc_ValueError, "a table that was not told all that it needs");
    return table->used = !table->unfinished;
}

static void table_dealloc(Table *self)
{
    for (int i = 0; i < self->count; i++) {
        PyMem_Free(self->columns[i].name);
        PyMem_Free(self->columns[i].fill);
    }
    PyMem_Free(self->columns);
    PyMem_Free(self->order);
    PyMem_Free(self->input_columns);
    PyMem_Free(self->input_slots);
    PyMem_Free(self->input_kinds);
    PyMem_Free(self->decisive_columns);
    PyMem_Free(self->were_columns);
    PyMem_Free(self->were_slots);
    PyMem_Free(self->were_kinds);
    PyMem_Free(self->made_places);
    PyMem_Free(self->layout);
    PyMem_Free(self->made_names);
    PyMem_Free(self->layout_names);
    PyMem_Free(self->made_kinds);
    free_pieces(&self->laid_key);
    for (int i = 0; i < 4; i++)
        free_pieces(&self->bodies[i]);
    Py_XDECREF(self->writers);
    Py_XDECREF(self->texts);
    Py_XDECREF(self->base);
    Py_XDECREF(self->plan);
    Py_XDECREF(self->destination);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* Table(plan, destination, columns, order, own, key, keyed, key_strings); see native.py for what they are */
static int table_init(void *made, PyObject *args)
{
    Table *self = made;
    PyObject *plan, *destination, *columns, *order, *key;
    int own, keyed, key_strings;
    if (!PyArg_ParseTuple(args, "OOO!O!iO!pp", &plan, &destination, &PyTuple_Type, &columns, &PyTuple_Type, &order, &own,
                          &PyTuple_Type, &key, &keyed, &key_strings))
        return -1;
    Py_ssize_t count = PyTuple_GET_SIZE(columns), keys = PyTuple_GET_SIZE(key);
    if (keys > MAX_KEYS || own < 0 || own > count || count > INT_MAX / 2 || PyTuple_GET_SIZE(order) != count) {
        PyErr_SetString(PyExc_ValueError, "too many columns, or not one place for each column");
        return -1;
    }
    self->columns = PyMem_Calloc((size_t)count + 1, sizeof(Column));
    self->order = PyMem_Calloc((size_t)count + 1, sizeof(int));
    if (!self->columns || !self->order) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Column *column = &self->columns[i];
        const char *name, *fill;
        Py_ssize_t name_size, fill_size;
        int quoted, declared;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(columns, i), "y#y#ipllii", &name, &name_size, &fill, &fill_size,
                              &column->takes, &quoted, &column->a, &column->b, &column->type, &declared))
            return -1;
        column->declared = (uint8_t)declared;
        self->declares |= declared != 0;
        column->name = PyMem_Malloc((size_t)name_size + 1);
        column->fill = PyMem_Malloc((size_t)fill_size + 1);
        self->count++;
        if (!column->name || !column->fill) {
            PyErr_NoMemory();
            return -1;
        }
        memcpy(column->name, name, (size_t)name_size);
        memcpy(column->fill, fill, (size_t)fill_size);
        column->name_size = (uint32_t)name_size;
        column->fill_size = (uint32_t)fill_size;
        column->quoted = quoted;
        column->key = -1;
        bool bits = column->takes != TAKES_INT || (column->a >= 1 && column->a <= 64);
        if (!bits || declared < 0 || declared > 2 || column->takes < TAKES_NULL || column->takes > TAKES_OTHER ||
            name_size > MAX_NAME || fill_size > MAX_NAME) {
            PyErr_SetString(PyExc_ValueError, "a column of no type that there is, or with a name that is too long");
            return -1;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        long place = PyLong_AsLong(PyTuple_GET_ITEM(order, i));
        if (place < 0 || place >= count) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "no such column");
            return -1;
        }
        self->order[i] = (int)place;
    }
    for (Py_ssize_t i = 0; i < keys; i++) {
        long place = PyLong_AsLong(PyTuple_GET_ITEM(key, i));
        if (place < 0 || place >= own) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "no such column");
            return -1;
        }
        self->key_columns[i] = (int)place;
        self->columns[place].key = (int)i;
    }
    self->keys = (int)keys;
    self->own = own;
    self->keyed = keyed;
    self->key_strings = key_strings;
    self->plan = Py_NewRef(plan);
    self->destination = Py_NewRef(destination);
    return 0;
}

/* An object that was made as its `init` makes it, or none: there are no others, and each is made once. */
static PyObject *make(PyTypeObject *type, PyObject *args, int (*init)(void *, PyObject *))
{
    PyObject *made = type->tp_alloc(type, 0);
    if (made && init(made, args))
        Py_CLEAR(made);
    return made;
}

static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    return make(type, args, table_init);
}

/* -- Values -------------------------------------------------------------------------------------------------------- */

static bool fits_int(const Field *field, long bits)
{
    const char *p = field->text;
    uint32_t size = field->size;
    bool minus = *p == '-';
    uint64_t value = 0, most = 1ULL << (bits - 1);
    if (minus) {
        p++;
        size--;
        if (*p == '0')
            return false; /* -0 is 0, and not written so */
    }
    if (size <= (bits - 1) * 3 / 10)
        return true; /* so few digits fit whatever they are */
    if (size > 19)
        return false;
    while (size--)
        value = value * 10 + (uint64_t)(*p++ - '0');
    return value < most || (minus && value == most);
}

static bool fits_decimal(const Field *field, long precision, long scale)
{
    const char *p = field->text, *end = p + field->size;
    if (field->flags & EXPONENT)
        return false;
    if (*p == '-')
        p++;
    if (p < end && *p == '0')
        p++;
    const char *whole = p;
    while (p < end && *p != '.')
        p++;
    if (p - whole > precision - scale)
        return false;
    if (p == end)
        return true;
    const char *fraction = p + 1;
    while (end > fraction && end[-1] == '0')
        end--;
    return end - fraction <= scale;
}

static bool fits_length(const Field *field, long most)
{
    if (most < 0)
        return true;
    if (field->flags & ESCAPES)
        return false;
    long characters = 0;
    for (uint32_t i = 1; i + 1 < field->size; i++)
        characters += (field->text[i] & 0xC0) != 0x80;
    return characters <= most;
}

static int two(const char *p) { return is_digit(p[0]) && is_digit(p[1]) ? (p[0] - '0') * 10 + p[1] - '0' : 100; }

/* Whether ten characters are a date, and one that the calendar has. */
static bool is_date(const char *p)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (p[4] != '-' || p[7] != '-')
        return false;
    int century = two(p), year = two(p + 2), month = two(p + 5), day = two(p + 8);
    if (century > 99 || year > 99 || month < 1 || month > 12 || century + year == 0)
        return false;
    year += century * 100;
    bool leap = month == 2 && year % 4 == 0 && (year % 100 || year % 400 == 0);
    return day >= 1 && day <= days[month - 1] + leap;
}

static bool fits_timestamp(const Field *field, char separator, bool zoned)
{
    const char *p = field->text + 1;
    long size = (long)field->size - 2;
    if (zoned && (size < 1 || p[--size] != 'Z'))
        return false;
    if (size < 19 || p[10] != separator || p[13] != ':' || p[16] != ':' || !is_date(p) || two(p + 11) > 23 ||
        two(p + 14) > 59 || two(p + 17) > 59)
        return false;
    if (size == 19)
        return true;
    if (p[19] != '.' || size < 21 || size > 29)
        return false;
    for (long i = 20; i < size; i++)
        if (!is_digit(p[i]) || (i >= 26 && p[i] != '0'))
            return false;
    return true;
}

static bool fits_time(const Field *field)
{
    const char *p = field->text + 1;
    long size = (long)field->size - 2;
    if (size < 8 || p[2] != ':' || p[5] != ':' || two(p) > 23 || two(p + 3) > 59 || two(p + 6) > 59)
        return false;
    if (size == 8)
        return true;
    if (p[8] != '.' || size < 10 || size > 18)
        return false;
    for (long i = 9; i < size; i++)
        if (!is_digit(p[i]) || (i >= 15 && p[i] != '0'))
            return false;
    return true;
}

/* Whether the time that ends a text has a fraction of seven to nine digits, from `at` on; and with six, whether the text
   up to there fits. */
static bool is_fine(const Column *column, const Field *field, long at, bool zoned)
{
    long digits = (long)field->size - 2 - at - zoned;
    if (column->declared < 2 || field->kind != STRING || digits < 8 || digits > 10)
        return false;
    const char *p = field->text + 1 + at;
    if (*p != '.' || (zoned && p[digits] != 'Z'))
        return false;
    while (--digits)
        if (!is_digit(p[digits]))
            return false;
    return true;
}

static __attribute__((noinline)) bool fits_fine_timestamp(const Column *column, const Field *field)
{
    char text[24];
    if (!is_fine(column, field, 19, column->b))
        return false;
    memcpy(text, field->text, 20);
    text[20] = '"';
    return fits_timestamp(&(Field){.text = text, .size = 21}, (char)column->a, false);
}

static __attribute__((noinline)) bool fits_fine_time(const Column *column, const Field *field)
{
    char text[12];
    if (!is_fine(column, field, 8, false))
        return false;
    memcpy(text, field->text, 9);
    text[9] = '"';
    return fits_time(&(Field){.text = text, .size = 10});
}

static int digit_of_base64(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : is_digit(c)          ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* How many bytes base64 stands for, or -1; the first `most` are put in `to`, which may be NULL. */
static long read_base64(const char *text, uint32_t size, uint8_t *to, uint32_t most)
{
    if (size % 4)
        return -1;
    uint32_t padding = size && text[size - 1] == '=' ? 1 + (text[size - 2] == '=') : 0, made = 0, bits = 0;
    for (uint32_t i = 0; i < size - padding; i++) {
        int six = digit_of_base64(text[i]);
        if (six < 0)
            return -1;
        bits = bits << 6 | (uint32_t)six;
        if (i % 4) { /* each but the first completes a byte */
            uint8_t byte = (uint8_t)(bits >> (6 - i % 4 * 2));
            if (to && made < most)
                to[made] = byte;
            made++;
        }
    }
    return made;
}

/* How a value is written: as it came, in quotes, as a text that holds JSON, or not by us. */
typedef enum { NOT_OURS, AS_IT_CAME, QUOTED, AS_TEXT } Way;

static Way way_of(const Column *column, const Field *field)
{
    if (field->kind == NUL)
        return column->key < 0 ? AS_IT_CAME : NOT_OURS;
    bool fits = false;
    switch (column->takes) {
    case TAKES_BOOL:
        fits = field->kind == BOOL;
        break;
    case TAKES_INT:
        fits = field->kind == INT && fits_int(field, column->a);
        break;
    case TAKES_DOUBLE: /* what is far out of a double's range is left to who knows the range */
        fits = (field->kind == INT || field->kind == NUMBER) && !(field->flags & EXPONENT) && field->size < 300;
        break;
    case TAKES_DECIMAL:
        fits = (field->kind == INT || field->kind == NUMBER) && fits_decimal(field, column->a, column->b);
        break;
    case TAKES_TIMESTAMP:
        if (field->kind == STRING && fits_timestamp(field, (char)column->a, column->b))
            return AS_IT_CAME;
        return column->declared && fits_fine_timestamp(column, field) ? AS_IT_CAME : NOT_OURS;
    case TAKES_DATE:
        return field->kind == STRING && field->size == 12 && is_date(field->text + 1) ? AS_IT_CAME : NOT_OURS;
    case TAKES_TIME:
        if (field->kind == STRING && fits_time(field))
            return AS_IT_CAME;
        return column->declared && fits_fine_time(column, field) ? AS_IT_CAME : NOT_OURS;
    case TAKES_BYTES:
        return field->kind == STRING && read_base64(field->text + 1, field->size - 2, NULL, 0) >= 0 ? AS_IT_CAME : NOT_OURS;
    case TAKES_TEXT:
        if (field->kind == STRING)
            return fits_length(field, column->a) ? AS_IT_CAME : NOT_OURS;
        if (column->a >= 0)
            return NOT_OURS;
        if (field->kind == OBJECT || field->kind == ARRAY)
            return column->key < 0 ? AS_TEXT : NOT_OURS;
        fits = true;
        break;
    default:
        break;
    }
    return !fits ? NOT_OURS : column->quoted ? QUOTED : AS_IT_CAME;
}

/* JSON as a text that holds it, without its white space; returns where it ends. `to` has room for twice its size. */
static char *write_as_text(char *to, const char *p, uint32_t size)
{
    const char *end = p + size;
    bool inside = false;
    *to++ = '"';
    for (; p < end; p++) {
        char c = *p;
        if (!inside && (c == ' ' || c == '\n' || c == '\t' || c == '\r'))
            continue;
        if (c == '"' || c == '\\')
            *to++ = '\\';
        if (c == '\\') { /* an escape within a string: both its characters, whatever the second is */
            *to++ = '\\';
            c = *++p;
            if (c == '"' || c == '\\')
                *to++ = '\\';
        } else if (c == '"')
            inside = !inside;
        *to++ = c;
    }
    *to++ = '"';
    return to;
}

/* What the message says of a row's fields beside their values */
typedef struct {
    Text came[MAX_FIELDS]; /* the text that a converted one came as; NULL for the others */
    int types[MAX_FIELDS]; /* the number of the type that it surely is of, or 0 */
} Typing;

/* -- Rows ---------------------------------------------------------------------------------------------------------- */

/* Whether there is no white space between a row's values. */
static bool is_compact(const Row *row)
{
    Py_ssize_t size = 1 + !row->count;
    for (int i = 0; i < row->count; i++)
        size += row->fields[i].name_size + row->fields[i].size + 4;
    return size == row->size;
}

/* The column that a field is of, or NULL; the one behind that of the last field is looked at first. */
static Column *column_of(Table *table, const Field *field, int *next)
{
    for (int tried = 0; tried < table->own; tried++) {
        if (*next >= table->own)
            *next = 0;
        Column *column = &table->columns[(*next)++];
        if (is_named(field, column->name, column->name_size))
            return column;
    }
    return NULL;
}

/* How a row's field is written: it is not looked at where it surely is of its column's type. */
static Way way_in_row(const Column *column, const Row *row, int i, const Typing *typing)
{
    bool sure = typing && typing->types[i] && typing->types[i] == column->type;
    return sure ? AS_IT_CAME : way_of(column, &row->fields[i]);
}

/* Check a row, and note where its columns are; `rewritten` is how many bytes more it may take, or 0. `typing`: what is
   known of its fields, or NULL. */
static bool check_row(Table *table, const Row *row, const Typing *typing, Way *ways, Py_ssize_t *rewritten)
{
    int next = 0;
    Py_ssize_t compact = 1 + !row->count; /* how long it is without white space between its values */
    table->row++;
    *rewritten = 0;
    for (int i = 0; i < row->count; i++) {
        const Field *field = &row->fields[i];
        Column *column = column_of(table, field, &next);
        if (!column || column->seen == table->row) /* a new one, or twice the same */
            return false;
        column->seen = table->row;
        column->at = i;
        ways[i] = way_in_row(column, row, i, typing);
        if (ways[i] == NOT_OURS)
            return false;
        if (ways[i] > AS_IT_CAME)
            *rewritten += ways[i] == QUOTED ? 2 : field->size + 2;
        compact += field->name_size + field->size + 4;
        if (typing && typing->came[i].text) {
            *rewritten += field->size;
            compact += (Py_ssize_t)typing->came[i].size - (Py_ssize_t)field->size;
        }
    }
    /* A row that is written anew has no white space then, and others see to that */
    return row->size == compact || (!*rewritten && row->count == table->count);
}

/* The fields of a row that was checked last, one for each key column; false where one is missing. */
static bool key_fields(const Table *table, const Row *row, const Field **fields)
{
    for (int k = 0; k < table->keys; k++) {
        const Column *column = &table->columns[table->key_columns[k]];
        if (column->seen != table->row)
            return false;
        fields[k] = &row->fields[column->at];
    }
    return true;
}

/* What a value is in a key, whatever its column's type: model/keytext.py is the rule book. False where it is not for us. */
static bool key_text(const Field *field, Text *text)
{
    *text = (Text){field->text, field->size};
    switch (field->kind) {
    case STRING: /* texts are written one way only, so those with escapes would have to be read first */
        return !(field->flags & ESCAPES);
    case BOOL:
        return true;
    case NUMBER:
        if (field->flags & EXPONENT || field->size > MAX_KEY_NUMBER)
            return false;
        while (text->text[text->size - 1] == '0')
            text->size--;
        text->size -= text->text[text->size - 1] == '.';
        return text->size != 2 || memcmp(text->text, "-0", 2);
    case INT:
        return field->size <= MAX_KEY_NUMBER && (field->size != 2 || memcmp(field->text, "-0", 2));
    default:
        return false;
    }
}

/* The key of these fields, one for each key column; its size, or 0 where it is not for us. */
static size_t write_key(const Table *table, const Field *const *fields, char *to)
{
    char *start = to;
    *to++ = '{';
    for (int i = 0; i < table->keys; i++) {
        const Column *column = &table->columns[table->key_columns[i]];
        Text value;
        if (!key_text(fields[i], &value) || (size_t)(to - start) + column->name_size + value.size + 8 > MAX_KEY)
            return 0;
        bool quote = table->key_strings && fields[i]->kind != STRING;
        if (i)
            *to++ = ',';
        *to++ = '"';
        memcpy(to, column->name, column->name_size);
        to += column->name_size;
        *to++ = '"';
        *to++ = ':';
        if (quote)
            *to++ = '"';
        memcpy(to, value.text, value.size);
        to += value.size;
        if (quote)
            *to++ = '"';
    }
    *to++ = '}';
    return (size_t)(to - start);
}

/* Put the key columns of an image in; how many it has, or -1 where it is not for us. */
static int find_key(const Table *table, const Row *row, const Field **fields)
{
    int found = 0;
    bool had[MAX_KEYS] = {false};
    for (int i = 0; i < row->count; i++) {
        const Field *field = &row->fields[i];
        for (int k = 0; k < table->keys; k++) {
            const Column *column = &table->columns[table->key_columns[k]];
            if (!is_named(field, column->name, column->name_size))
                continue;
            if (had[k] || field->kind == NUL)
                return -1;
            had[k] = true;
            fields[k] = field;
            found++;
        }
    }
    return found;
}

/* The key of an image that may lack other columns; its size, or 0. */
static size_t write_partial_key(const Table *table, const Row *row, char *to)
{
    const Field *fields[MAX_KEYS];
    return find_key(table, row, fields) == table->keys ? write_key(table, fields, to) : 0;
}

typedef struct {
    const char *text;
    uint32_t size;
} Part;

/* Whether these are the primary key's columns, in any order. */
static bool is_key(const Table *table, const Part *names, int count)
{
    if (count != table->keys)
        return false;
    for (int k = 0; k < count; k++) {
        const Column *column = &table->columns[table->key_columns[k]];
        int i = 0;
        while (i < count && (names[i].size != column->name_size || memcmp(names[i].text, column->name, names[i].size)))
            i++;
        if (i == count)
            return false;
    }
    return true;
}

/* Whether a message key, in its schema envelope or without, has the primary key's columns and no others. */
static bool same_columns(const Table *table, Text message_key, Row *row)
{
    const char *text = message_key.text, *end = text + message_key.size;
    if (!is_utf8(text, end - text))
        return false;
    const char *p = scan_row(skip_space(text, end), end, row, NULL);
    if (!p || skip_space(p, end) != end)
        return false;
    if (row->count == 2) {
        int at = is_named(&row->fields[1], "payload", 7);
        Field payload = row->fields[at];
        if (is_named(&payload, "payload", 7) && is_named(&row->fields[!at], "schema", 6) &&
            (payload.kind != OBJECT || !scan_row(payload.text, payload.text + payload.size, row, NULL)))
            return false;
    }
    if (row->count != table->keys)
        return false;
    Part names[MAX_KEYS];
    for (int i = 0; i < row->count; i++)
        names[i] = (Part){row->fields[i].name, row->fields[i].name_size};
    return is_key(table, names, row->count);
}

#endif
