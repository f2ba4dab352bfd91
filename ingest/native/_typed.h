/* What messages say of their columns' types: checks values against them, and converts those that are in another form.
   Part of the hot loop in C. The rule book is formats/typed.py, with the conversions of connect.py and canal_types.py;
   what is not plainly right is not for us. */

#ifndef INGEST_FLOW_TYPED_H
#define INGEST_FLOW_TYPED_H

#include "_tables.h"

/* How values are read. The codes are those of `Reads` in formats/typed.py. */
enum {
    READS_OTHER, READS_INT, READS_NUMBER, READS_DECIMAL, READS_BOOL, READS_ANY, READS_BASE64, READS_DAYS, READS_TIME,
    READS_MOMENT, READS_ZONED, READS_UNSCALED, READS_QUOTED_INT, READS_QUOTED_NUMBER, READS_QUOTED_DECIMAL, READS_BIT,
    READS_TEXT, READS_LATIN, READS_DATE_TEXT, READS_TIME_TEXT, READS_MOMENT_TEXT, READS_UTC_TEXT
};

/* Most bytes of a converted value that is not made of a text's bytes */
#define MAX_MADE 64
/* Most columns of a row of which nothing is said: each is looked for among all */
#define MAX_UNSAID 8

typedef struct {
    char *name;
    uint32_t name_size;
    int reads, type; /* `type`: its number, as columns of tables have it */
    long a, b;       /* bits; precision and scale; most characters; microseconds in one */
} Said;

/* What one schema says */
typedef struct {
    PyObject_HEAD
    Said *columns;
    int count;
    size_t weight; /* bytes that it takes */
} Saying;

static void saying_dealloc(Saying *self)
{
    for (int i = 0; i < self->count; i++)
        PyMem_Free(self->columns[i].name);
    PyMem_Free(self->columns);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* Saying(columns): of each its name, how its values are read, two numbers, and its type's number */
static int saying_init(void *made, PyObject *args)
{
    Saying *self = made;
    PyObject *columns;
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &columns))
        return -1;
    if (!(self->columns = PyMem_Calloc((size_t)PyTuple_GET_SIZE(columns) + 1, sizeof(Said)))) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(columns); i++) {
        Said *column = &self->columns[i];
        const char *name;
        Py_ssize_t size;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(columns, i), "y#illi", &name, &size, &column->reads, &column->a,
                              &column->b, &column->type))
            return -1;
        if (!(column->name = PyMem_Malloc((size_t)size + 1))) {
            PyErr_NoMemory();
            return -1;
        }
        self->count++;
        memcpy(column->name, name, (size_t)size);
        column->name_size = (uint32_t)size;
        self->weight += (size_t)size;
        bool counts = column->reads == READS_TIME || column->reads == READS_MOMENT;
        bool bits = column->reads == READS_INT || column->reads == READS_QUOTED_INT;
        if (size > MAX_NAME || (counts && column->a < 1) || (bits && (column->a < 1 || column->a > 64))) {
            PyErr_SetString(PyExc_ValueError, "a column with numbers that its way of reading does not have");
            return -1;
        }
    }
    self->weight += sizeof *self + (size_t)self->count * (sizeof(Said) + 32); /* what `malloc` adds, about */
    return 0;
}

static PyObject *saying_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    return make(type, args, saying_init);
}

static PyType_Slot saying_slots[] = {
    {Py_tp_doc, "What messages say of their columns' types."},
    {Py_tp_dealloc, saying_dealloc},
    {Py_tp_new, saying_new},
    {0, NULL},
};
static PyType_Spec saying_spec = {"ingest.native._native.Saying", sizeof(Saying), 0, Py_TPFLAGS_DEFAULT, saying_slots};

/* -- Texts that are made ------------------------------------------------------------------------------------------- */

static char *put_digits(char *to, uint64_t value, int width)
{
    for (int i = width; i--; value /= 10)
        to[i] = (char)('0' + value % 10);
    return to + width;
}

/* A fraction of so many microseconds, without trailing zeros; nothing for none. */
static char *put_fraction(char *to, uint64_t micros)
{
    if (!micros)
        return to;
    *to++ = '.';
    to = put_digits(to, micros, 6);
    while (to[-1] == '0')
        to--;
    return to;
}

/* The date so many days after 1970; NULL outside of the years 1 to 9999. */
static char *put_date(char *to, int64_t days)
{
    if (days < -719162 || days > 2932896)
        return NULL;
    /* From the 1st of March of the year 0 on, in which leap days come last */
    uint32_t day = (uint32_t)(days + 719468), era = day / 146097, of_era = day % 146097;
    uint32_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint32_t of_year = of_era - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
    uint32_t of_month = of_year - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 3 : month - 9;
    to = put_digits(to, year + era * 400 + (month <= 2), 4);
    *to++ = '-';
    to = put_digits(to, month, 2);
    *to++ = '-';
    return put_digits(to, of_month, 2);
}

static char *put_time(char *to, uint64_t micros)
{
    uint64_t seconds = micros / 1000000;
    to = put_digits(to, seconds / 3600, 2);
    *to++ = ':';
    to = put_digits(to, seconds / 60 % 60, 2);
    *to++ = ':';
    return put_fraction(put_digits(to, seconds % 60, 2), micros % 1000000);
}

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The integer in a field, which is one; false where it is too long for us. */
static bool read_integer(const Field *field, int64_t *value)
{
    bool minus = *field->text == '-';
    if (field->kind != INT || field->size > 18)
        return false;
    *value = 0;
    for (uint32_t i = minus; i < field->size; i++)
        *value = *value * 10 + (field->text[i] - '0');
    if (minus)
        *value = -*value;
    return true;
}

/* -- Values -------------------------------------------------------------------------------------------------------- */

/* What is made of a field from here on is its text. */
static void is_now(Field *field, Kind kind, const char *text, const char *end)
{
    field->kind = (uint8_t)kind;
    field->flags = 0;
    field->text = text;
    field->size = (uint32_t)(end - text);
}

static bool is_number(const Field *field)
{
    return field->kind == INT || field->kind == NUMBER;
}

/* Read a number out of its text, where it is in one; false for what is no number. */
static bool unquote(Field *field)
{
    if (field->kind != STRING)
        return is_number(field);
    const char *text = field->text + 1, *end = field->text + field->size - 1;
    uint8_t kind, flags = 0;
    if (scan_number(text, end, &kind, &flags) != end)
        return false;
    is_now(field, kind, text, end);
    field->flags = flags;
    return true;
}

static bool fits_double(const Field *field) { return is_number(field) && !(field->flags & EXPONENT) && field->size < 300; }

/* A number by its bytes, most significant first, and its scale; false where it is too large for us. */
static bool read_unscaled(Field *field, long precision, long scale, char **to)
{
    uint8_t bytes[16];
    if (is_number(field))
        return fits_decimal(field, precision, scale);
    if (field->kind != STRING || field->flags || scale < 0)
        return false;
    long count = read_base64(field->text + 1, field->size - 2, bytes, sizeof bytes);
    if (count < 1 || count > (long)sizeof bytes)
        return false;
    bool minus = bytes[0] >> 7;
    unsigned __int128 value = minus ? ~(unsigned __int128)0 : 0;
    for (long i = 0; i < count; i++)
        value = value << 8 | bytes[i];
    if (minus)
        value = -value;
    char digits[40], *start = digits + sizeof digits;
    for (; value; value /= 10)
        *--start = (char)('0' + (int)(value % 10));
    long size = digits + sizeof digits - start;
    if (size > precision || scale > precision || precision > 38)
        return false;
    char *text = *to, *p = text;
    if (minus)
        *p++ = '-';
    long whole = size - scale;
    if (whole <= 0)
        *p++ = '0';
    else {
        memcpy(p, start, (size_t)whole);
        p += whole;
    }
    if (scale) {
        *p++ = '.';
        for (long i = whole; i < 0; i++)
            *p++ = '0';
        long rest = whole > 0 ? scale : size;
        memcpy(p, start + (size - rest), (size_t)rest);
        p += rest;
    }
    is_now(field, scale ? NUMBER : INT, text, p);
    *to = p;
    return true;
}

/* A text whose characters stand for bytes, as base64 in its place. */
static bool read_latin(Field *field, char **to)
{
    if (field->kind != STRING || field->flags)
        return false;
    char *p = *to;
    uint32_t bits = 0, count = 0;
    *p++ = '"';
    for (const char *c = field->text + 1, *end = field->text + field->size - 1; c < end; c++) {
        uint8_t byte = (uint8_t)*c;
        if (byte >= 0x80) {
            if (byte > 0xC3)
                return false; /* past U+00FF; what follows is there, as this is UTF-8 */
            byte = (uint8_t)(byte << 6 | (*++c & 0x3F));
        }
        bits = bits << 8 | byte;
        if (++count % 3 == 0)
            for (int shift = 18; shift >= 0; shift -= 6)
                *p++ = ALPHABET[bits >> shift & 63];
    }
    if (count % 3) {
        int left = (int)(count % 3);
        bits <<= left == 1 ? 16 : 8;
        bits &= 0xFFFFFF;
        for (int i = 0; i < 4; i++)
            *p++ = i <= left ? ALPHABET[bits >> (18 - 6 * i) & 63] : '=';
    }
    *p++ = '"';
    is_now(field, STRING, *to, p);
    *to = p;
    return true;
}

/* A time with a `T` and the zone `Z`, in the form that is written. */
static bool read_zoned(Field *field, char **to)
{
    if (field->kind != STRING || field->flags || !fits_timestamp(field, 'T', true))
        return false;
    char *text = *to, *p = text;
    size_t size = field->size - 2; /* without `Z"` */
    memcpy(text, field->text, size);
    text[11] = ' ';
    p += size;
    if (size > 20) { /* a fraction */
        while (p[-1] == '0')
            p--;
        if (p[-1] == '.')
            p--;
    }
    *p++ = 'Z';
    *p++ = '"';
    is_now(field, STRING, text, p);
    *to = p;
    return true;
}

static bool read_bit(Field *field)
{
    static const char *const words[] = {"1", "true", "TRUE", "0", "false", "FALSE"};
    bool quoted = field->kind == STRING;
    if (field->kind == OBJECT || field->kind == ARRAY)
        return false;
    const char *text = field->text + quoted;
    size_t size = field->size - (quoted ? 2 : 0);
    for (int i = 0; i < 6; i++)
        if (strlen(words[i]) == size && !memcmp(text, words[i], size)) {
            const char *made = words[i < 3 ? 1 : 4];
            is_now(field, BOOL, made, made + strlen(made));
            return true;
        }
    return false;
}

/* So many days, or microseconds of the day or since 1970. */
static bool read_count(const Said *said, Field *field, char **to)
{
    static const int64_t day = 86400000000;
    int64_t value, days = 0;
    if (!read_integer(field, &value))
        return false;
    char *text = *to, *p = text;
    *p++ = '"';
    if (said->reads == READS_DAYS) {
        if (!(p = put_date(p, value)))
            return false;
    } else {
        if (value > INT64_MAX / said->a || value < -(INT64_MAX / said->a))
            return false;
        value *= said->a;
        if (said->reads == READS_TIME ? value < 0 || value >= day : false)
            return false;
        if (said->reads == READS_MOMENT) {
            days = value / day - (value % day < 0);
            value -= days * day;
            if (!(p = put_date(p, days)))
                return false;
            *p++ = ' ';
        }
        p = put_time(p, (uint64_t)value);
    }
    *p++ = '"';
    is_now(field, STRING, text, p);
    *to = p;
    return true;
}

/* Check a value against what is said of it, and put in its place what it is; false where it is not for us. It may be in
   `*to` then, which goes on behind it. */
static bool read_value(const Said *said, Field *field, char **to)
{
    switch (said->reads) {
    case READS_INT:
        return field->kind == INT && fits_int(field, said->a);
    case READS_NUMBER:
        return fits_double(field);
    case READS_DECIMAL:
        return is_number(field) && fits_decimal(field, said->a, said->b);
    case READS_BOOL:
        return field->kind == BOOL;
    case READS_ANY:
        return true;
    case READS_BASE64:
        return field->kind == STRING && read_base64(field->text + 1, field->size - 2, NULL, 0) >= 0;
    case READS_DAYS:
    case READS_TIME:
    case READS_MOMENT:
        return read_count(said, field, to);
    case READS_ZONED:
        return read_zoned(field, to);
    case READS_UNSCALED:
        return read_unscaled(field, said->a, said->b, to);
    case READS_QUOTED_INT:
        return unquote(field) && field->kind == INT && fits_int(field, said->a);
    case READS_QUOTED_NUMBER:
        return unquote(field) && fits_double(field);
    case READS_QUOTED_DECIMAL:
        return unquote(field) && fits_decimal(field, said->a, said->b);
    case READS_BIT:
        return read_bit(field);
    case READS_TEXT:
        return field->kind == STRING && fits_length(field, said->a);
    case READS_LATIN:
        return read_latin(field, to);
    case READS_DATE_TEXT:
        return field->kind == STRING && field->size == 12 && is_date(field->text + 1);
    case READS_TIME_TEXT:
        return field->kind == STRING && fits_time(field);
    case READS_MOMENT_TEXT:
        return field->kind == STRING && fits_timestamp(field, ' ', false);
    case READS_UTC_TEXT: {
        if (field->kind != STRING || !fits_timestamp(field, ' ', false))
            return false;
        char *text = *to;
        memcpy(text, field->text, field->size - 1);
        memcpy(text + field->size - 1, "Z\"", 2);
        *to = text + field->size + 1;
        is_now(field, STRING, text, *to);
        return true;
    }
    default:
        return false;
    }
}

/* Check a row's values against what is said of them, and put in their places what they are; false where it is not for
   us. `to` has room for all that may be made. */
static bool read_said_row(const Saying *saying, Row *row, Typing *typing, char **to)
{
    int next = 0, unsaid = 0;
    for (int i = 0; i < row->count; i++) {
        Field *field = &row->fields[i];
        Text came = {field->text, field->size};
        typing->came[i] = (Text){NULL, 0};
        typing->types[i] = 0;
        const Said *said = NULL;
        for (int tried = 0; tried < saying->count && !said; tried++) {
            if (next >= saying->count)
                next = 0;
            const Said *one = &saying->columns[next++];
            if (is_named(field, one->name, one->name_size))
                said = one;
        }
        if (!said && ++unsaid > MAX_UNSAID)
            return false;
        if (!said || field->kind == NUL)
            continue;
        if (!read_value(said, field, to))
            return false;
        if (field->text != came.text)
            typing->came[i] = came;
        /* What is no text where any value may be is not of its type yet */
        if (said->reads != READS_ANY || field->kind == STRING)
            typing->types[i] = said->type;
    }
    return true;
}

/* -- Spellings of declared types: model/spelling.py ---------------------------------------------------------------- */

/* The text of the number that a field says, in quotes or without; false where it is not for us. */
static bool say_number(Field *field)
{
    if (field->kind != STRING)
        return is_number(field);
    const char *p = field->text + 1, *end = field->text + field->size - 1;
    uint8_t kind, flags = 0;
    while (p < end && *p == ' ')
        p++;
    while (p < end && end[-1] == ' ')
        end--;
    if (p == end || scan_number(p, end, &kind, &flags) != end)
        return false;
    is_now(field, kind, p, end);
    field->flags = flags;
    return true;
}

/* An integer may have zeros behind its point. */
static bool say_integer(Field *field)
{
    if (!say_number(field) || field->flags & EXPONENT)
        return false;
    const char *end = field->text + field->size, *point = memchr(field->text, '.', field->size);
    for (const char *p = point ? point + 1 : end; p < end; p++)
        if (*p != '0')
            return false;
    is_now(field, INT, field->text, point ? point : end);
    return true;
}

static bool say_boolean(Field *field)
{
    static const char *const words[] = {"false", "true"};
    const char *p = field->text + 1, *end = field->text + field->size - 1;
    if (field->kind != STRING)
        return false;
    while (p < end && *p == ' ')
        p++;
    while (p < end && end[-1] == ' ')
        end--;
    for (int i = 0; i < 2; i++)
        if (end - p == (long)strlen(words[i]) && !PyOS_strnicmp(p, words[i], end - p)) {
            is_now(field, BOOL, words[i], words[i] + (end - p));
            return true;
        }
    return false;
}

/* A date and a time, with `T` or a blank, with or without `Z` where the type has a zone. */
static bool say_timestamp(const Column *column, Field *field, char **to)
{
    const char *from = field->text + 1;
    long size = (long)field->size - 2;
    if (field->kind != STRING || size < 19 || size > 31)
        return false;
    if (column->b && from[size - 1] == 'Z')
        size--;
    if (size > 29 || (from[10] != 'T' && from[10] != ' '))
        return false;
    char *text = *to, *p = text;
    memcpy(text, field->text, (size_t)size + 1);
    text[11] = (char)column->a;
    p += size + 1;
    if (size > 19) {
        if (text[20] != '.' || size < 21)
            return false;
        while (p[-1] == '0')
            p--;
        if (p[-1] == '.')
            p--;
    }
    if (column->b)
        *p++ = 'Z';
    *p++ = '"';
    is_now(field, STRING, text, p);
    *to = p;
    return true;
}

/* Put a value that its column does not take in the text of the column's type; false where that is not for us. Whether it
   is of the type then is for others to see. */
static bool respell(const Column *column, Field *field, char **to)
{
    if (column->key >= 0 || field->flags & ESCAPES)
        return false;
    switch (column->takes) {
    case TAKES_BOOL:
        return say_boolean(field);
    case TAKES_INT:
        return say_integer(field);
    case TAKES_DOUBLE:
    case TAKES_DECIMAL:
        return say_number(field);
    case TAKES_TIMESTAMP:
        return say_timestamp(column, field, to);
    default:
        return false;
    }
}

/* Put values that columns of declared types do not take as they came in their types' texts, and say whether there are
   such. `said`: whether the message says something of the row, which `typing` has. False where it is not for us. */
static __attribute__((noinline)) bool respell_row(Table *table, Row *row, Typing *typing, bool said, char **to, bool *any)
{
    int next = 0;
    for (int i = 0; i < row->count; i++) {
        Field *field = &row->fields[i];
        if (!said) {
            typing->came[i] = (Text){NULL, 0};
            typing->types[i] = 0;
        }
        const Column *column = column_of(table, field, &next);
        if (!column || !column->declared || way_in_row(column, row, i, typing) != NOT_OURS)
            continue;
        Text came = {field->text, field->size};
        if (!respell(column, field, to))
            return false;
        if (!typing->came[i].text)
            typing->came[i] = came;
        typing->types[i] = 0;
        *any = true;
    }
    return true;
}

/* How much room `read_said_row` may need, and `restate_row` once more, and the row's own size. */
static size_t room_to_read(const Row *row) { return (size_t)row->size * 2 + (size_t)row->count * MAX_MADE * 2; }

/* Write a field behind others, and let it be there; where that ends. */
static char *put_field(char *to, Field *field, bool last)
{
    memcpy(to, field->name - 1, field->name_size + 2);
    field->name = to + 1;
    to += field->name_size + 2;
    *to++ = ':';
    memcpy(to, field->text, field->size);
    field->text = to;
    to += field->size;
    *to++ = last ? '}' : ',';
    return to;
}

/* Write a row with what its values are now, where any of them changed: then it is as if it had come so. False where it is
   not for us: rows that are written anew have no white space, and others see to that. */
static bool restate_row(Row *row, Typing *typing, char **to)
{
    Py_ssize_t compact = 1 + !row->count;
    bool changed = false;
    for (int i = 0; i < row->count; i++) {
        const Field *field = &row->fields[i];
        changed |= typing->came[i].text != NULL;
        compact += field->name_size + (typing->came[i].text ? typing->came[i].size : field->size) + 4;
    }
    if (!changed)
        return true;
    if (row->size != compact)
        return false;
    char *p = *to;
    row->text = p;
    *p++ = '{';
    for (int i = 0; i < row->count; i++) {
        p = put_field(p, &row->fields[i], i + 1 == row->count);
        typing->came[i].text = NULL;
    }
    row->size = p - row->text;
    row->end = p;
    *to = p;
    return true;
}

#endif
