/* The hot loop's common case in C: messages in, records of keyed rows out.

   A message goes through here only if it is plainly right: JSON without doubt, a known table, values that fit their
   columns. Whatever is not -- drift, dirt, a shape that is rare -- is left to the Python code, which is the rule book:
   `take` stops before such a message. So this file may always say "not me" and must never be more lenient than Python
   is. tests/property/test_native.py compares the two.

   One thread at a time: a worker has one that does this. The GIL is held throughout, but while a plan is made or a sink
   has no room. Nothing is kept between calls but what the objects hold. */

#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE /* memmem */
#include <Python.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "../model/raw.h"

#define MAX_DEPTH 64
#define MAX_FIELDS 1024
#define MAX_KEYS 16
#define MAX_KEY 4096
#define MAX_ID 1024

/* -- JSON ---------------------------------------------------------------------------------------------------------- */

typedef enum { NUL, BOOL, INT, NUMBER, STRING, OBJECT, ARRAY } Kind;

/* What is remarkable about a value's text */
enum { ESCAPES = 1, EXPONENT = 2 };

typedef struct {
    const char *name, *text; /* the name without its quotes, the value's text with them */
    uint32_t name_size, size;
    uint8_t kind, flags;
} Field;

typedef struct {
    const char *text; /* from brace to brace */
    Py_ssize_t size;
    int count;
    Field fields[MAX_FIELDS];
} Row;

#define EACH(c) (0x0101010101010101ULL * (uint8_t)(c))
#define HIGH 0x8080808080808080ULL

static bool is_utf8(const char *text, Py_ssize_t size)
{
    const uint8_t *p = (const uint8_t *)text, *end = p + size;
    while (p < end) {
        if (end - p >= 8) {
            uint64_t word;
            memcpy(&word, p, 8);
            if (!(word & HIGH)) {
                p += 8;
                continue;
            }
        }
        uint8_t c = *p;
        int more;
        if (c < 0x80) {
            p++;
            continue;
        }
        if (c >= 0xC2 && c < 0xE0)
            more = 1;
        else if (c >= 0xE0 && c < 0xF0)
            more = 2;
        else if (c >= 0xF0 && c < 0xF5)
            more = 3;
        else
            return false;
        if (end - p <= more)
            return false;
        for (int i = 1; i <= more; i++)
            if ((p[i] & 0xC0) != 0x80)
                return false;
        /* overlong forms, surrogates, and what is past U+10FFFF */
        if ((c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F) || (c == 0xF0 && p[1] < 0x90) ||
            (c == 0xF4 && p[1] > 0x8F))
            return false;
        p += more + 1;
    }
    return true;
}

/* `is_utf8`; and whether there may be what Debezium writes in the place of a value that it does not have, which begins
   with `__`, or with `X1` in base64. One look for both: most messages are ASCII and have neither. */
static bool is_text(const char *text, Py_ssize_t size, bool *suspect)
{
    *suspect = true;
#ifdef __SSE2__
    const __m128i first = _mm_set1_epi8('_'), other = _mm_set1_epi8('X'), after = _mm_set1_epi8('1');
    __m128i pairs = _mm_setzero_si128(), bits = _mm_setzero_si128();
    Py_ssize_t i = 0;
    bool pair = false, high = false;
    for (; i + 17 <= size; i += 16) {
        __m128i now = _mm_loadu_si128((const __m128i *)(text + i)), next = _mm_loadu_si128((const __m128i *)(text + i + 1));
        __m128i plain = _mm_and_si128(_mm_cmpeq_epi8(now, first), _mm_cmpeq_epi8(next, first));
        __m128i coded = _mm_and_si128(_mm_cmpeq_epi8(now, other), _mm_cmpeq_epi8(next, after));
        pairs = _mm_or_si128(pairs, _mm_or_si128(plain, coded));
        bits = _mm_or_si128(bits, now);
    }
    for (; i < size; i++) {
        high |= (text[i] & 0x80) != 0;
        pair |= i + 1 < size && ((text[i] == '_' && text[i + 1] == '_') || (text[i] == 'X' && text[i + 1] == '1'));
    }
    *suspect = pair || _mm_movemask_epi8(pairs);
    if (!high && !_mm_movemask_epi8(bits))
        return true;
#endif
    return is_utf8(text, size);
}

static inline const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

static int hex4(const char *p)
{
    int code = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        code = code << 4 | digit;
    }
    return code;
}

/* From after the opening quote to the closing one; NULL for what is no string. */
static const char *scan_string(const char *p, const char *end, uint8_t *flags)
{
    for (;;) {
        while (end - p >= 8) {
            uint64_t word, quote, slash, hit;
            memcpy(&word, p, 8);
            quote = word ^ EACH('"');
            slash = word ^ EACH('\\');
            hit = (((quote - EACH(1)) & ~quote) | ((slash - EACH(1)) & ~slash) | ((word - EACH(0x20)) & ~word)) & HIGH;
            if (hit) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
                p += __builtin_ctzll(hit) >> 3;
#endif
                break;
            }
            p += 8;
        }
        while (p < end && *p != '"' && *p != '\\' && (uint8_t)*p >= 0x20)
            p++;
        if (p >= end || (uint8_t)*p < 0x20)
            return NULL;
        if (*p == '"')
            return p;
        *flags |= ESCAPES;
        if (end - p < 2)
            return NULL;
        switch (p[1]) {
        case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
            p += 2;
            break;
        case 'u': {
            int code = end - p < 6 ? -1 : hex4(p + 2);
            if (code < 0 || (code >= 0xDC00 && code < 0xE000))
                return NULL;
            p += 6;
            if (code >= 0xD800 && code < 0xDC00) { /* half a pair: the other half has to follow */
                if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
                    return NULL;
                code = hex4(p + 2);
                if (code < 0xDC00 || code >= 0xE000)
                    return NULL;
                p += 6;
            }
            break;
        }
        default:
            return NULL;
        }
    }
}

static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *scan_number(const char *p, const char *end, uint8_t *kind, uint8_t *flags)
{
    *kind = INT;
    if (p < end && *p == '-')
        p++;
    if (p >= end || !is_digit(*p))
        return NULL;
    if (*p == '0')
        p++;
    else
        while (p < end && is_digit(*p))
            p++;
    if (p < end && *p == '.') {
        *kind = NUMBER;
        if (++p >= end || !is_digit(*p))
            return NULL;
        while (p < end && is_digit(*p))
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        *kind = NUMBER;
        *flags |= EXPONENT;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (p >= end || !is_digit(*p))
            return NULL;
        while (p < end && is_digit(*p))
            p++;
    }
    return p;
}

/* From a value's first byte to after its last; NULL for what is no JSON, or too deep. */
static const char *scan_value(const char *p, const char *end, int depth, uint8_t *kind, uint8_t *flags)
{
    if (p >= end)
        return NULL;
    switch (*p) {
    case '"':
        *kind = STRING;
        p = scan_string(p + 1, end, flags);
        return p ? p + 1 : NULL;
    case 'n':
        *kind = NUL;
        return end - p >= 4 && !memcmp(p, "null", 4) ? p + 4 : NULL;
    case 't':
        *kind = BOOL;
        return end - p >= 4 && !memcmp(p, "true", 4) ? p + 4 : NULL;
    case 'f':
        *kind = BOOL;
        return end - p >= 5 && !memcmp(p, "false", 5) ? p + 5 : NULL;
    case '{': case '[': {
        bool object = *p == '{';
        char close = object ? '}' : ']';
        uint8_t inner, ignored = 0;
        if (depth >= MAX_DEPTH)
            return NULL;
        p = skip_space(p + 1, end);
        if (p < end && *p == close) {
            *kind = object ? OBJECT : ARRAY;
            return p + 1;
        }
        for (;;) {
            if (object) {
                if (p >= end || *p != '"' || !(p = scan_string(p + 1, end, &ignored)))
                    return NULL;
                p = skip_space(p + 1, end);
                if (p >= end || *p != ':')
                    return NULL;
                p = skip_space(p + 1, end);
            }
            if (!(p = scan_value(p, end, depth + 1, &inner, &ignored)))
                return NULL;
            p = skip_space(p, end);
            if (p >= end)
                return NULL;
            if (*p == close) {
                *kind = object ? OBJECT : ARRAY;
                return p + 1;
            }
            if (*p != ',')
                return NULL;
            p = skip_space(p + 1, end);
        }
    }
    default:
        return scan_number(p, end, kind, flags);
    }
}

/* A field's name and its colon, to where its value begins; NULL for anything else, or a name with escapes. */
static const char *scan_name(const char *p, const char *end, Field *field)
{
    field->flags = 0;
    if (p >= end || *p != '"')
        return NULL;
    field->name = p + 1;
    if (!(p = scan_string(p + 1, end, &field->flags)) || field->flags)
        return NULL;
    field->name_size = (uint32_t)(p - field->name);
    p = skip_space(p + 1, end);
    return p < end && *p == ':' ? skip_space(p + 1, end) : NULL;
}

static const char *scan_field(const char *p, const char *end, Field *field)
{
    field->text = p;
    if ((p = scan_value(p, end, 2, &field->kind, &field->flags)))
        field->size = (uint32_t)(p - field->text);
    return p;
}

/* From after a field's value to the next name, or with `last` to after the object's brace. */
static const char *next_field(const char *p, const char *end, bool *last)
{
    p = skip_space(p, end);
    *last = p < end && *p == '}';
    if (*last)
        return p + 1;
    return p < end && *p == ',' ? skip_space(p + 1, end) : NULL;
}

/* An object with its fields, from its brace to after the other; NULL for anything else, or names with escapes. */
static const char *scan_row(const char *p, const char *end, Row *row)
{
    bool last = false;
    row->text = p;
    row->count = 0;
    if (p >= end || *p != '{')
        return NULL;
    p = skip_space(p + 1, end);
    if (p < end && *p == '}') {
        p++;
        last = true;
    }
    while (!last) {
        if (row->count == MAX_FIELDS)
            return NULL;
        Field *field = &row->fields[row->count++];
        if (!(p = scan_name(p, end, field)) || !(p = scan_field(p, end, field)) || !(p = next_field(p, end, &last)))
            return NULL;
    }
    row->size = p - row->text;
    return p;
}

static inline bool is_named(const Field *field, const char *name, uint32_t size)
{
    return field->name_size == size && !memcmp(field->name, name, size);
}

/* -- Tables -------------------------------------------------------------------------------------------------------- */

/* What a column takes. The codes are those of native.py. */
enum { TAKES_NULL, TAKES_BOOL, TAKES_INT, TAKES_DOUBLE, TAKES_TEXT, TAKES_DECIMAL, TAKES_TIMESTAMP, TAKES_OTHER };

typedef struct {
    char *name;
    char *fill; /* `,"name":null` */
    uint32_t name_size, fill_size;
    int takes, key; /* `key`: place in the primary key, or -1 */
    bool quoted;    /* the sink's column is a text: what is none is written as one */
    bool moves;     /* it is of the key of what comes out of expressions */
    long a, b;      /* bits; most characters (-1: any); precision and scale; separator and zone */
    int at;         /* field of the row in hand */
    uint64_t seen;  /* the row that had it last */
} Column;

typedef struct {
    const char *text;
    size_t size;
} Text;

typedef struct {
    PyObject_HEAD
    Column *columns;
    int count, own; /* columns of the sink; of them, the first `own` may be in a row, in the source's order */
    int *order;     /* the sink's columns in the sink's order */
    int keys;
    int key_columns[MAX_KEYS];
    uint64_t row; /* number of the row in hand */
    bool keyed;   /* the primary key comes from the messages' keys */
    PyObject *plan, *destination;
    long inserted, updated, deleted;
    /* Where rows go to expressions: which columns travel in which slots, and which of them decide */
    bool fed, images;
    int inputs, event, decisive; /* `event`: the slot of what happened, or -1 */
    int *input_columns, *input_slots, *decisive_columns;
    char *input_kinds;
    int were, *were_columns, *were_slots; /* those of the row before an update that go with the row after it */
    char *were_kinds;
    int32_t program;
    PyObject *base; /* the slots with what is the same for all rows */
    PyObject *heads;          /* places of the destination for an insert, an update, a delete, and an old key */
    /* Where results come back: which of them are its, and what the row is made of */
    bool answered, soft_delete, key_made;
    int filter, was, made, laid; /* `filter`, `was`: which result, or -1; `laid`: columns of the layout, or -1 for none */
    int *made_places, *layout;
    Text *made_names, *layout_names;
    char *made_kinds;
    PyObject *writers, *texts; /* what writes the others' values; whose bytes the names are */
} Table;

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
    Py_XDECREF(self->writers);
    Py_XDECREF(self->texts);
    Py_XDECREF(self->base);
    Py_XDECREF(self->heads);
    Py_XDECREF(self->plan);
    Py_XDECREF(self->destination);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* Table(plan, destination, columns, order, own, key, keyed); see native.py for what they are */
static int table_init(Table *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *plan, *destination, *columns, *order, *key;
    int own, keyed;
    if (self->columns) {
        PyErr_SetString(PyExc_TypeError, "made once");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "OOO!O!iO!p", &plan, &destination, &PyTuple_Type, &columns, &PyTuple_Type, &order, &own,
                          &PyTuple_Type, &key, &keyed))
        return -1;
    Py_ssize_t count = PyTuple_GET_SIZE(columns), keys = PyTuple_GET_SIZE(key);
    if (keys > MAX_KEYS || own > count || PyTuple_GET_SIZE(order) != count) {
        PyErr_SetString(PyExc_ValueError, "too many key columns, or not one place for each column");
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
        int quoted;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(columns, i), "y#y#ipll", &name, &name_size, &fill, &fill_size,
                              &column->takes, &quoted, &column->a, &column->b))
            return -1;
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
    self->plan = Py_NewRef(plan);
    self->destination = Py_NewRef(destination);
    return 0;
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

static bool fits_timestamp(const Field *field, char separator, bool zoned)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const char *p = field->text + 1;
    long size = (long)field->size - 2;
    if (zoned && (size < 1 || p[--size] != 'Z'))
        return false;
    if (size < 19 || p[4] != '-' || p[7] != '-' || p[10] != separator || p[13] != ':' || p[16] != ':')
        return false;
    int century = two(p), year = two(p + 2), month = two(p + 5), day = two(p + 8);
    if (century > 99 || year > 99 || month < 1 || month > 12 || century + year == 0)
        return false;
    year += century * 100;
    bool leap = month == 2 && year % 4 == 0 && (year % 100 || year % 400 == 0);
    if (day < 1 || day > days[month - 1] + leap || two(p + 11) > 23 || two(p + 14) > 59 || two(p + 17) > 59)
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
        return field->kind == STRING && fits_timestamp(field, (char)column->a, column->b) ? AS_IT_CAME : NOT_OURS;
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

/* -- Rows ---------------------------------------------------------------------------------------------------------- */

/* Check a row, and note where its columns are; `rewritten` is how many bytes more it takes, or 0. */
static bool check_row(Table *table, const Row *row, Way *ways, Py_ssize_t *rewritten)
{
    int next = 0, own = table->own;
    Py_ssize_t compact = 1 + !row->count; /* how long it is without white space between its values */
    table->row++;
    *rewritten = 0;
    for (int i = 0; i < row->count; i++) {
        const Field *field = &row->fields[i];
        int tried = 0;
        for (; tried < own; tried++) {
            if (next >= own)
                next = 0;
            if (is_named(field, table->columns[next].name, table->columns[next].name_size))
                break;
            next++;
        }
        if (tried == own)
            return false; /* a new column */
        Column *column = &table->columns[next++];
        if (column->seen == table->row)
            return false;
        column->seen = table->row;
        column->at = i;
        ways[i] = way_of(column, field);
        if (ways[i] == NOT_OURS)
            return false;
        if (ways[i] > AS_IT_CAME)
            *rewritten += ways[i] == QUOTED ? 2 : field->size + 2;
        compact += field->name_size + field->size + 4;
    }
    /* A row that is written anew has no white space then, and others see to that */
    return row->size == compact || (!*rewritten && row->count == table->count);
}

/* The key of these fields, one for each key column; its size, or 0 where it is not for us. */
static size_t write_key(const Table *table, const Field *const *fields, char *to)
{
    char *start = to;
    *to++ = '{';
    for (int i = 0; i < table->keys; i++) {
        const Column *column = &table->columns[table->key_columns[i]];
        const Field *field = fields[i];
        /* Texts are written one way only, so those with escapes would have to be read first */
        if (field->flags & ESCAPES || (size_t)(to - start) + column->name_size + field->size + 8 > MAX_KEY)
            return 0;
        if (i)
            *to++ = ',';
        *to++ = '"';
        memcpy(to, column->name, column->name_size);
        to += column->name_size;
        *to++ = '"';
        *to++ = ':';
        bool quote = field->kind != STRING && column->quoted;
        if (quote)
            *to++ = '"';
        memcpy(to, field->text, field->size);
        to += field->size;
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
            Way way = way_of(column, field);
            if (had[k] || way == NOT_OURS || way == AS_TEXT)
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

/* Whether a message key has the primary key's columns and no others. */
static bool same_columns(const Table *table, Text message_key, Row *row)
{
    const char *text = message_key.text, *end = text + message_key.size;
    if (!is_utf8(text, end - text))
        return false;
    const char *p = scan_row(skip_space(text, end), end, row);
    if (!p || skip_space(p, end) != end || row->count != table->keys)
        return false;
    Part names[MAX_KEYS];
    for (int i = 0; i < row->count; i++)
        names[i] = (Part){row->fields[i].name, row->fields[i].name_size};
    return is_key(table, names, row->count);
}

/* -- Messages ------------------------------------------------------------------------------------------------------ */

enum { DEBEZIUM, ROWS, CANAL };

/* A table that was found, by its id; `tables` keeps both */
typedef struct {
    PyObject *id;
    Table *table;
} Recent;

#define MOST_BITS 12

typedef struct {
    PyObject_HEAD
    int form;
    PyObject *find, *tables;
    long tombstones;
    Recent *recent; /* 2 to the power of `bits`, or NULL */
    int bits;
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

static void lane_dealloc(Lane *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    forget_recent(self);
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
    return 0;
}

static int lane_clear(Lane *self)
{
    Py_CLEAR(self->find);
    forget_recent(self);
    Py_CLEAR(self->tables);
    return 0;
}

static int lane_init(Lane *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *find;
    int form;
    if (!PyArg_ParseTuple(args, "iO", &form, &find))
        return -1;
    PyObject *tables = PyDict_New();
    if (!tables)
        return -1;
    self->form = form;
    Py_XSETREF(self->find, Py_NewRef(find));
    Py_XSETREF(self->tables, tables);
    return 0;
}

/* What is needed while messages are taken */
typedef struct {
    PyTypeObject *table_type, *rows_type;
    PyObject *key, *value, *offset, *raw; /* the names of methods and of what is in C */
    PyObject *inserted, *updated, *deleted; /* the names of a plan's counters */
    Row before, after, message_key, composed;
    bool suspect; /* the message in hand may have values that are not there */
    Way ways[MAX_FIELDS];
    Table **touched; /* those with counters to hand over, each held */
    int touched_count, touched_room;
    char *scratch;
    size_t scratch_size, scratch_room;
    char *row; /* the row that was written last */
    size_t row_room;
} State;

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

/* What a row is written as: the very bytes it came in, or others in the scratch space. False with an error. */
static bool write_row(State *state, Table *table, const Row *row, Py_ssize_t rewritten, Text *written)
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
        if (ways[i] == AS_IT_CAME)
            continue;
        memcpy(to, from, (size_t)(field->text - from));
        to += field->text - from;
        from = field->text + field->size;
        if (ways[i] == QUOTED) {
            *to++ = '"';
            memcpy(to, field->text, field->size);
            to += field->size;
            *to++ = '"';
        } else
            to = write_as_text(to, field->text, field->size);
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

static bool unavailable(const char *text, size_t size)
{
    return memmem(text, size, UNAVAILABLE, sizeof UNAVAILABLE - 1) ||
           memmem(text, size, UNAVAILABLE_BYTES, sizeof UNAVAILABLE_BYTES - 1);
}

/* What an envelope says: the operation, the images (a size of 0: none), the table; whether it is for us. */
static bool read_envelope(State *state, const char *p, const char *end, char *op, Part parts[3])
{
    enum { BEFORE = 1, AFTER = 2, SOURCE = 4 };
    int seen = 0;
    bool last = false;
    *op = 0;
    state->before.size = state->after.size = 0;
    p = skip_space(p, end);
    if (p >= end || *p != '{')
        return false;
    p = skip_space(p + 1, end);
    while (!last) {
        Field field;
        if (!(p = scan_name(p, end, &field)) || p >= end || is_named(&field, "payload", 7))
            return false;
        int what = is_named(&field, "before", 6)   ? BEFORE
                   : is_named(&field, "after", 5)  ? AFTER
                   : is_named(&field, "source", 6) ? SOURCE
                                                   : 0;
        if (seen & what)
            return false;
        seen |= what;
        if (what == SOURCE) {
            Row *row = &state->message_key; /* not in use yet */
            if (!(p = scan_row(p, end, row)))
                return false;
            for (int i = 0; i < row->count; i++) {
                const Field *of = &row->fields[i];
                int part = is_named(of, "db", 2)       ? 0
                           : is_named(of, "schema", 6) ? 1
                           : is_named(of, "table", 5)  ? 2
                                                       : -1;
                if (part >= 0 && !part_of(of, &parts[part]))
                    return false;
            }
        } else if (what && *p != 'n')
            p = scan_row(p, end, what == BEFORE ? &state->before : &state->after);
        else {
            p = scan_field(p, end, &field);
            if (is_named(&field, "op", 2)) {
                if (!p || *op || field.kind != STRING || field.size != 3)
                    return false;
                *op = field.text[1];
            }
        }
        if (!p || !(p = next_field(p, end, &last)))
            return false;
    }
    return skip_space(p, end) == end && seen & SOURCE && parts[2].size;
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
        p = p < end && *p == 'n' ? scan_value(p, end, 1, &kind, &flags) : scan_row(p, end, row);
        if (!p)
            return NULL;
        p = skip_space(p, end);
        return p < end && *p == ']' ? p + 1 : NULL;
    }
    return p < end && *p == 'n' ? scan_value(p, end, 1, &kind, &flags) : NULL;
}

/* What a Canal message says, as `read_envelope` has it; and the columns of the primary key. */
static bool read_canal(State *state, const char *p, const char *end, char *op, Part parts[3], Part *key, int *keys)
{
    enum { DATA = 1, OLD = 2, NAMES = 4 };
    int seen = 0;
    bool last = false;
    *op = 0;
    state->before.size = state->after.size = 0;
    p = skip_space(p, end);
    if (p >= end || *p != '{')
        return false;
    p = skip_space(p + 1, end);
    while (!last) {
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
        else {
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
    return skip_space(p, end) == end && parts[2].size;
}

/* -- Rows on their way to expressions ------------------------------------------------------------------------------ */

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
    int columns;
    Col *cols;
    Py_ssize_t count, sent, room; /* rows, and how many of them go to expressions */
} Rows;

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
    Py_ssize_t count = (rows->count > rows->sent ? rows->count : rows->sent) + more_rows;
    if (count <= rows->room)
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
    long head = PyLong_AsLong(PyTuple_GET_ITEM(table->heads, which));
    if (!rows_room(rows, 1) || !put_text(rows, C_KEY, row, key.text, key.size))
        return false;
    put_meta(rows, row, -1, (int32_t)head, feed->offset, 0);
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
        PyObject *base = PyList_GET_ITEM(table->base, c - SLOTS);
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
static bool lacks(const State *state, const Row *row)
{
    if (!state->suspect)
        return false;
    for (int i = 0; i < row->count; i++)
        if (unavailable(row->fields[i].text, row->fields[i].size))
            return true;
    return false;
}

/* The rows of a change whose table's rows go to expressions: as FeedPlan has them, or 0. */
static int feed_one(
    State *state, Lane *lane, Table *table, char op, Text message_key, int named, const Feed *feed)
{
    bool inserted = op == 'c' || op == 'r', updated = op == 'u';
    Row *row = op == 'd' && lane->form != CANAL ? &state->before : &state->after, *old = &state->before;
    const Field *fields[MAX_FIELDS], *were[MAX_FIELDS];
    Py_ssize_t rewritten = 0;
    if (named || (!inserted && !updated && op != 'd') || (updated && old->size && lane->form == CANAL))
        return 0;
    Rows *rows = feed->rows;
    bool both = updated && old->size, differ = table->images, moved = false;
    if (!rows_room(rows, 2))
        return -1;
    if (both) {
        if (old->count != table->own || !check_row(table, old, state->ways, &rewritten) || rewritten || lacks(state, old))
            return 0;
        for (int i = 0; i < table->decisive; i++)
            fields[i] = &old->fields[table->columns[table->decisive_columns[i]].at];
        for (int i = 0; i < table->were; i++)
            were[i] = &old->fields[table->columns[table->were_columns[i]].at];
    }
    if (!row->size || row->count != table->own || !check_row(table, row, state->ways, &rewritten) || rewritten)
        return 0;
    if (lacks(state, row))
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
    bool together = both && differ && !moved && table->were, alone = both && differ && !together;
    if (alone) {
        /* Places of columns are of the row that was checked last */
        int done = check_row(table, old, state->ways, &rewritten) ? put_image(feed, table, 0, old, FED_BEFORE, "-U") : 0;
        if (done != 1 || !check_row(table, row, state->ways, &rewritten))
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

/* Take one message: 1 if it was, 0 if it is not for us, -1 with an error. Emits all of its records, or none. */
static int take_one(State *state, Lane *lane, const RawRecord *record, const Out *out, const Feed *feed)
{
    char key[MAX_KEY], old_key[MAX_KEY];
    char op;
    Part parts[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}}, names[MAX_KEYS];
    int named = 0;
    if (!record->value) {
        lane->tombstones++;
        return 1;
    }
    const char *text = record->value, *end = text + record->value_size;
    Text message_key = {record->key, record->key_size};
    if (end - text > UINT32_MAX || !is_text(text, end - text, &state->suspect))
        return 0;
    Table *table;
    state->suspect = state->suspect && lane->form == DEBEZIUM && unavailable(text, (size_t)(end - text));
    if (lane->form == DEBEZIUM) {
        if (!read_envelope(state, text, end, &op, parts))
            return 0;
        table = find_table(state, lane, parts, 3);
    } else if (lane->form == CANAL) {
        if (!read_canal(state, text, end, &op, parts, names, &named))
            return 0;
        table = find_table(state, lane, parts, 3);
        message_key.text = NULL;
    } else {
        op = 'c';
        state->before.size = 0;
        const char *p = scan_row(skip_space(text, end), end, &state->after);
        if (!p || skip_space(p, end) != end)
            return 0;
        table = find_table(state, lane, NULL, 0);
        message_key.text = NULL;
    }
    if (!table)
        return PyErr_Occurred() ? -1 : 0;
    if (table->fed)
        return feed ? feed_one(state, lane, table, op, message_key, named, feed) : 0;
    if (feed && !table->heads)
        return 0;

    size_t size, old_size = 0;
    Row *row = &state->after;
    Py_ssize_t rewritten = 0;
    bool inserted = op == 'c' || op == 'r', updated = op == 'u';
    const Field *fields[MAX_KEYS];
    if (inserted || updated) {
        if (!row->size || !check_row(table, row, state->ways, &rewritten))
            return 0;
        if (lacks(state, row))
            return 0;
        for (int k = 0; k < table->keys; k++) {
            const Column *column = &table->columns[table->key_columns[k]];
            if (column->seen != table->row)
                return 0;
            fields[k] = &row->fields[column->at];
        }
        if (!(size = write_key(table, fields, key)))
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
    if (table->keyed && named && !is_key(table, names, named))
        return 0;

    if (table->keyed && message_key.text) {
        bool same = message_key.size == size && !memcmp(message_key.text, key, size);
        if (!same && !same_columns(table, message_key, &state->message_key))
            return 0;
    }

    Text written = {NULL, 0}, now = {key, size}, old = {old_key, old_size}, none = {NULL, 0};
    if (op != 'd' && !write_row(state, table, row, rewritten, &written))
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

/* settle(): tell the plans what was counted since the last time. */
static PyObject *settle(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    return count_touched(PyModule_GetState(module), true) ? Py_NewRef(Py_None) : NULL;
}

/* A message that is an object: 1, 0 where it is not for us, -1 with an error. What `held` has keeps the bytes alive. */
static int read_record(State *state, PyObject *message, bool offset, PyObject *held[2], RawRecord *record)
{
    held[1] = NULL;
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
        PyObject *held[2] = {NULL, NULL};
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
        Py_XDECREF(held[0]);
        Py_XDECREF(held[1]);
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
    if (PyErr_Occurred())
        return NULL;
    Py_ssize_t at;
    return take_all(state, self, args[0], args[1], &at, &out, NULL) >= 0 ? PyLong_FromSsize_t(at) : NULL;
}

static PyObject *lane_feed(Lane *self, PyTypeObject *type, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = PyType_GetModuleState(type);
    if (count != 3 || names || Py_TYPE(args[2]) != state->rows_type) {
        PyErr_SetString(PyExc_TypeError, "feed(messages, start: int, rows: Rows)");
        return NULL;
    }
    Feed feed = {(Rows *)args[2], -1};
    Py_ssize_t at;
    return take_all(state, self, args[0], args[1], &at, NULL, &feed) >= 0 ? PyLong_FromSsize_t(at) : NULL;
}

static PyObject *lane_forget(Lane *self, PyObject *Py_UNUSED(ignored))
{
    forget_recent(self);
    PyDict_Clear(self->tables);
    Py_RETURN_NONE;
}

static PyObject *lane_tombstones(Lane *self, PyObject *Py_UNUSED(ignored))
{
    long count = self->tombstones;
    self->tombstones = 0;
    return PyLong_FromLong(count);
}

/* A row's own text and its fields; false where it is not for us. */
static bool read_row(Text text, Row *row)
{
    const char *end = text.text + text.size;
    return text.size <= UINT32_MAX && is_utf8(text.text, (Py_ssize_t)text.size) && scan_row(text.text, end, row) == end;
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
    if (!check_row(self, row, state->ways, &rewritten))
        return 0;
    for (int k = 0; k < self->keys; k++) {
        const Column *column = &self->columns[self->key_columns[k]];
        if (column->seen != self->row)
            return 0;
        fields[k] = &row->fields[column->at];
    }
    if (!(size = write_key(self, fields, key)))
        return 0;
    bool moved = old_size && (old_size != size || memcmp(old_key, key, size));
    bool good = write_row(state, self, row, rewritten, &written) &&
                (!moved || emit(out, self->destination, (Text){old_key, old_size}, none)) &&
                emit(out, self->destination, (Text){key, size}, written);
    return good ? 1 : -1;
}

/* Add a field to a row that is being written; false where it has no room. `kind` and `flags` are the value's. */
static bool compose(Row *row, char **to, const Field *name, const Field *value)
{
    if (row->count == MAX_FIELDS)
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
    size_t most = raw.size + 2;
    bool used[MAX_FIELDS] = {false};
    if (raw.size > UINT32_MAX || made > MAX_FIELDS || scan_row(raw.text, end, row) != end)
        return NULL;
    for (int i = 0; i < made; i++)
        most += values[i].name_size + values[i].size + 4;
    PyObject *out = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)most);
    if (!out)
        return NULL;
    char *start = PyBytes_AS_STRING(out), *to = start + 1;
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
                good = compose(new, &to, field, field);
                continue;
            }
            /* A name twice: the last one counts, and that is for others to see to */
            good = !used[i] && compose(new, &to, field, &values[i]);
            used[i] = true;
        }
        for (int i = 0; i < made && good; i++)
            if (!used[i])
                good = compose(new, &to, &values[i], &values[i]);
    }
    for (int c = 0; c < laid && good; c++) {
        int i = layout[c];
        if (i >= 0) {
            good = compose(new, &to, &values[i], &values[i]);
            continue;
        }
        const Field *found = NULL;
        for (int f = 0; f < row->count && good; f++)
            if (is_named(&row->fields[f], layout_names[c].text, (uint32_t)layout_names[c].size)) {
                good = !found; /* as above */
                found = &row->fields[f];
            }
        if (found && good)
            good = compose(new, &to, found, found);
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
    if (self->fed || PyTuple_GET_SIZE(columns) != size || PyTuple_GET_SIZE(slots) != size ||
        event >= PyList_GET_SIZE(base) || PyTuple_GET_SIZE(decisive) > MAX_FIELDS || were_size > MAX_FIELDS ||
        PyTuple_GET_SIZE(were) != were_size || PyTuple_GET_SIZE(were_slots) != were_size) {
        PyErr_SetString(PyExc_ValueError, "not one slot for each column, or not the first time");
        return NULL;
    }
    self->input_columns = places_of(columns, self->own);
    self->input_slots = self->input_columns ? places_of(slots, PyList_GET_SIZE(base)) : NULL;
    self->decisive_columns = self->input_slots ? places_of(decisive, self->own) : NULL;
    self->input_kinds = PyMem_Malloc((size_t)size + 1);
    self->were_columns = self->input_kinds ? places_of(were, self->own) : NULL;
    self->were_slots = self->were_columns ? places_of(were_slots, PyList_GET_SIZE(base)) : NULL;
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
    self->base = Py_NewRef(base);
    self->fed = true;
    Py_RETURN_NONE;
}

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
    if (self->answered || PyTuple_GET_SIZE(names) != size || PyTuple_GET_SIZE(places) != size || size > MAX_FIELDS ||
        PyTuple_GET_SIZE(writers) != size || (!laid && columns != Py_None)) {
        PyErr_SetString(PyExc_ValueError, "not one place, kind and writer for each name, or not the first time");
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
    memcpy(self->made_kinds, kinds, (size_t)size);
    self->writers = Py_NewRef(writers);
    self->made = (int)size;
    self->filter = filter;
    self->was = was;
    self->soft_delete = soft_delete;
    self->key_made = key_made;
    self->answered = true;
    Py_RETURN_NONE;
}

static bool scratch(State *state, const char *text, size_t size)
{
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
    Py_ssize_t end = in->first + count, needed = kind == 'b' ? (end + 7) / 8 : end * (Py_ssize_t)width_of(kind);
    bool fits = in->first >= 0 && (!count || !in->valid.obj || in->valid.len * 8 >= end);
    if (kind == 's' && count) {
        int32_t last = 0;
        fits = fits && in->ends.obj && in->ends.len >= (end + 1) * 4;
        if (fits)
            memcpy(&last, (char *)in->ends.buf + end * 4, 4);
        needed = last;
    }
    if (!fits || (count && needed > (in->data.obj ? in->data.len : 0))) {
        PyErr_SetString(PyExc_ValueError, "a column that is shorter than it says");
        return false;
    }
    return true;
}

static inline bool bit_of(const Py_buffer *bits, Py_ssize_t at) { return ((const uint8_t *)bits->buf)[at / 8] >> at % 8 & 1; }

static inline bool is_null(const In *in, Py_ssize_t at) { return in->valid.obj && !bit_of(&in->valid, in->first + at); }

static inline int32_t int_of(const In *in, Py_ssize_t at) { return ((const int32_t *)in->data.buf)[in->first + at]; }

static inline int64_t long_of(const In *in, Py_ssize_t at) { return ((const int64_t *)in->data.buf)[in->first + at]; }

static inline bool truth_of(const In *in, Py_ssize_t at) { return !is_null(in, at) && bit_of(&in->data, in->first + at); }

/* False where the ends are not in order. */
static inline bool text_of(const In *in, Py_ssize_t at, Text *text)
{
    const int32_t *ends = (const int32_t *)in->ends.buf + in->first + at;
    *text = (Text){in->data.buf ? (const char *)in->data.buf + ends[0] : "", (size_t)(ends[1] - ends[0])};
    return ends[0] >= 0 && ends[0] <= ends[1] && ends[1] <= in->data.len;
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
        value = PyFloat_FromDouble(((const double *)in->data.buf)[in->first + at]);
    else {
        if (!text_of(in, at, &text))
            return 0;
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

/* The row of an image with its results, those of row `at`; NULL without an error where that is not for us. */
static PyObject *answer(State *state, const Table *table, Text raw, const In *results, Py_ssize_t at)
{
    Field values[MAX_FIELDS];
    state->scratch_size = 0;
    for (int i = 0; i < table->made; i++) {
        size_t start = state->scratch_size;
        if (write_result(state, &results[table->made_places[i]], at, table->made_kinds[i],
                         PyTuple_GET_ITEM(table->writers, i)) != 1)
            return NULL;
        values[i].size = (uint32_t)(state->scratch_size - start);
    }
    const char *text = state->scratch;
    for (int i = 0; i < table->made; i++) {
        Field *value = &values[i];
        value->flags = 0;
        value->text = text;
        value->name = table->made_names[i].text;
        value->name_size = (uint32_t)table->made_names[i].size;
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
    PyObject *tables, *heads;
    Out out;
    long *done; /* by head: so many records went there */
    long filtered;
} Answers;

/* Whether a row is a record that is ready: where it goes, and what it is. */
static bool is_ready(const Answers *all, Py_ssize_t row, int32_t *head, Text *key, Text *text)
{
    const In *in = all->in;
    *head = int_of(&in[C_HEAD], row);
    *key = *text = (Text){NULL, 0};
    return int_of(&in[C_PROGRAM], row) == -1 && *head >= 0 && *head < PyList_GET_SIZE(all->heads) &&
           (is_null(&in[C_KEY], row) || text_of(&in[C_KEY], row, key)) &&
           (is_null(&in[C_TEXT], row) || text_of(&in[C_TEXT], row, text));
}

/* The rows of one message, from `first` to before `end`; their results begin at `row`: 1, 0 where that is not for us, -1
   with an error. */
static int answer_one(State *state, Answers *all, Py_ssize_t first, Py_ssize_t end, Py_ssize_t row)
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
                return 0;
        for (Py_ssize_t i = first; i < end; i++) {
            is_ready(all, i, &head, &key, &text);
            if (!emit(&all->out, PyTuple_GET_ITEM(PyList_GET_ITEM(all->heads, head), 0), key, text))
                return -1;
            all->done[head]++;
        }
        return 1;
    }
    Py_ssize_t at = row + last - first;
    if (program < 0 || program >= PyList_GET_SIZE(all->tables) || end - first > 2)
        return 0;
    PyObject *found = PyList_GET_ITEM(all->tables, program);
    if (found == Py_None || !text_of(&in[C_TEXT], last, &text) || int_of(&in[A_PROGRAM], at) != program)
        return 0;
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
            int_of(&in[A_PROGRAM], row) != program || long_of(&in[A_MASK], row) & ~ignored ||
            !text_of(&in[C_TEXT], first, &raw))
            return 0;
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

/* Whether these are tables that write results, of which there are so many; false with an error. */
static bool check_tables(const State *state, PyObject *tables, Py_ssize_t results)
{
    bool good = true;
    for (Py_ssize_t t = 0; t < PyList_GET_SIZE(tables) && good; t++) {
        Table *table = (Table *)PyList_GET_ITEM(tables, t);
        if ((PyObject *)table == Py_None)
            continue;
        good = Py_TYPE(table) == state->table_type && table->answered && table->filter < results && table->was < results;
        for (int m = 0; good && m < table->made; m++)
            good = table->made_places[m] < results;
    }
    if (!good)
        PyErr_SetString(PyExc_ValueError, "tables with results in them");
    return good;
}

/* drain(tables, heads, kept, kinds, back, start, row, limit, out): see the stub. */
static PyObject *drain(PyObject *module, PyObject *args)
{
    PyObject *tables, *heads, *kept, *back, *out, *done = NULL, *result = NULL;
    const char *kinds;
    Py_ssize_t size, results, sent, i, row;
    long long limit;
    if (!PyArg_ParseTuple(args, "O!O!nO!y#nO!nnLO!", &PyList_Type, &tables, &PyList_Type, &heads, &size, &PyList_Type,
                          &kept, &kinds, &results, &sent, &PyList_Type, &back, &i, &row, &limit, &PyList_Type, &out))
        return NULL;
    State *state = PyModule_GetState(module);
    if (PyList_GET_SIZE(kept) != C_SENT || PyList_GET_SIZE(back) != results + 2 || size < 0 || sent < 0 || i < 0 ||
        row < 0) {
        PyErr_SetString(PyExc_ValueError, "not the columns that there are");
        return NULL;
    }
    if (!check_tables(state, tables, results))
        return NULL;
    for (Py_ssize_t h = 0; h < PyList_GET_SIZE(heads); h++)
        if (!PyTuple_CheckExact(PyList_GET_ITEM(heads, h)) || !PyTuple_GET_SIZE(PyList_GET_ITEM(heads, h))) {
            PyErr_SetString(PyExc_TypeError, "a head is a tuple");
            return NULL;
        }
    Py_ssize_t columns = A_FIXED + results;
    Answers all = {PyMem_Calloc((size_t)columns, sizeof(In)), tables, heads, {out, NULL, NULL},
                   PyMem_Calloc((size_t)PyList_GET_SIZE(heads) + 1, sizeof(long)), 0};
    bool good = all.in && all.done;
    if (!good)
        PyErr_NoMemory();
    for (Py_ssize_t c = 0; c < columns && good; c++) {
        char kind = c < A_FIXED ? ANSWERS[c] : kinds[c - A_FIXED];
        if (!strchr("ilsdb", kind)) {
            PyErr_SetString(PyExc_ValueError, "a result is of s, l, d or b");
            good = false;
        } else
            good = c < C_SENT ? in_open(&all.in[c], kind, PyList_GET_ITEM(kept, c), size)
                              : in_open(&all.in[c], kind, PyList_GET_ITEM(back, c - C_SENT), sent);
    }
    good = good && count_touched(state, true); /* what others counted is not for this to forget */
    int taken = good ? 1 : -1;
    while (taken == 1 && i < size) {
        int64_t at = long_of(&all.in[C_AT], i);
        Py_ssize_t end = i, next = row;
        if (at >= limit)
            break;
        for (; end < size && long_of(&all.in[C_AT], end) == at; end++)
            next += int_of(&all.in[C_PROGRAM], end) >= 0;
        if (next > sent) {
            PyErr_SetString(PyExc_ValueError, "fewer results than rows");
            taken = -1;
            break;
        }
        taken = answer_one(state, &all, i, end, row);
        if (taken == 1) {
            i = end;
            row = next;
        }
    }
    if (taken < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_SystemError, "no reason given");
    if (good && count_touched(state, taken >= 0) && taken >= 0)
        done = PyDict_New();
    for (Py_ssize_t h = 0; done && h < PyList_GET_SIZE(heads); h++) {
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

/* Table.ready(heads): the places of its destination, for records that pass expressions by. */
static PyObject *table_ready(Table *self, PyObject *heads)
{
    if (!PyTuple_CheckExact(heads) || PyTuple_GET_SIZE(heads) != 4) {
        PyErr_SetString(PyExc_TypeError, "ready(heads: tuple of four)");
        return NULL;
    }
    Py_XSETREF(self->heads, Py_NewRef(heads));
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
static int rows_init(Rows *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    const char *kinds;
    Py_ssize_t size;
    if (self->cols || !PyArg_ParseTuple(args, "y#", &kinds, &size)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "made once");
        return -1;
    }
    self->cols = PyMem_Calloc((size_t)size + SLOTS, sizeof(Col));
    if (!self->cols) {
        PyErr_NoMemory();
        return -1;
    }
    for (int c = 0; c < SLOTS; c++)
        self->cols[c].kind = METAS[c];
    for (Py_ssize_t c = 0; c < size; c++) {
        if (!strchr("sldb", kinds[c])) {
            PyErr_SetString(PyExc_ValueError, "a slot is of s, l, d or b");
            return -1;
        }
        self->cols[SLOTS + c].kind = kinds[c];
    }
    self->columns = SLOTS + (int)size;
    return 0;
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
        if (kind == 'i')
            put_value(rows, column, row, &(int32_t){(int32_t)whole});
        else
            put_value(rows, column, row, &whole);
    }
    return !PyErr_Occurred();
}

/* Rows.add(meta, values): see the stub. */
static PyObject *rows_add(Rows *self, PyObject *args)
{
    PyObject *meta, *values;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &meta, &PyTuple_Type, &values))
        return NULL;
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

/* Rows.mark(code, count): see the stub. */
static PyObject *rows_mark(Rows *self, PyObject *args)
{
    int code;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "in", &code, &count))
        return NULL;
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

/* Rows.take(): see the stub. */
static PyObject *rows_take(Rows *self, PyObject *Py_UNUSED(ignored))
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
    {Py_tp_init, rows_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_methods, rows_methods},
    {0, NULL},
};
static PyType_Spec rows_spec = {"ingest.flow._native.Rows", sizeof(Rows), 0, Py_TPFLAGS_DEFAULT, rows_slots};

static PyMethodDef table_methods[] = {
    {"answer", (PyCFunction)table_answer, METH_VARARGS, "Let rows be made of results, by a program."},
    {"feed", (PyCFunction)table_feed, METH_VARARGS, "Let rows go to expressions, by a program."},
    {"ready", (PyCFunction)table_ready, METH_O, "Where its records go that pass expressions by."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot table_slots[] = {
    {Py_tp_doc, "How rows of one table are checked and written; made from the schemas of both sides."},
    {Py_tp_dealloc, table_dealloc},
    {Py_tp_init, table_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_methods, table_methods},
    {0, NULL},
};
static PyType_Spec table_spec = {"ingest.flow._native.Table", sizeof(Table), 0, Py_TPFLAGS_DEFAULT, table_slots};

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
    {Py_tp_doc, "Lane(form, find): messages of one form; `find` makes the Table of an id, or None."},
    {Py_tp_dealloc, lane_dealloc},
    {Py_tp_traverse, lane_traverse},
    {Py_tp_clear, lane_clear},
    {Py_tp_init, lane_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_methods, lane_methods},
    {0, NULL},
};
static PyType_Spec lane_spec = {
    "ingest.flow._native.Lane", sizeof(Lane), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, lane_slots,
};

static int module_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    PyObject *table = PyType_FromModuleAndSpec(module, &table_spec, NULL);
    PyObject *lane = PyType_FromModuleAndSpec(module, &lane_spec, NULL);
    PyObject *rows = PyType_FromModuleAndSpec(module, &rows_spec, NULL);
    state->key = PyUnicode_InternFromString("key");
    state->value = PyUnicode_InternFromString("value");
    state->offset = PyUnicode_InternFromString("offset");
    state->raw = PyUnicode_InternFromString("raw");
    state->inserted = PyUnicode_InternFromString("inserted");
    state->updated = PyUnicode_InternFromString("updated");
    state->deleted = PyUnicode_InternFromString("deleted");
    if (!table || !lane || !rows || !state->key || !state->value || !state->offset || !state->raw ||
        !state->inserted || !state->updated || !state->deleted)
        return -1;
    state->table_type = (PyTypeObject *)table;
    state->rows_type = (PyTypeObject *)rows;
    if (PyModule_AddObjectRef(module, "Rows", rows) || PyModule_AddObjectRef(module, "Table", table) || PyModule_AddObjectRef(module, "Lane", lane))
        return -1;
    Py_DECREF(lane);
    return 0;
}

static void module_free(void *module)
{
    State *state = PyModule_GetState((PyObject *)module);
    Py_CLEAR(state->table_type);
    Py_CLEAR(state->rows_type);
    Py_CLEAR(state->key);
    Py_CLEAR(state->value);
    Py_CLEAR(state->offset);
    Py_CLEAR(state->raw);
    Py_CLEAR(state->inserted);
    Py_CLEAR(state->updated);
    Py_CLEAR(state->deleted);
    count_touched(state, false);
    PyMem_Free(state->touched);
    PyMem_Free(state->scratch);
    PyMem_Free(state->row);
}

static PyMethodDef module_methods[] = {
    {"drain", drain, METH_VARARGS,
     "Put the records of rows[start:] with results in `out`; where that ends, and what was counted."},
    {"settle", settle, METH_NOARGS, "Tell the plans what was counted since the last time."},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_native", "The hot loop's common case.", sizeof(State), module_methods, module_slots, NULL, NULL,
    module_free,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&module); }
