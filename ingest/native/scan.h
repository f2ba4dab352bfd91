/* JSON as the native code reads it: bytes in, places in them out. Nothing here knows a Python object.

   What is no plain JSON is refused, and never is that more lenient than the reference in Python is. A scanner takes where
   to begin and where the bytes end; it returns the place after what it read, or NULL for anything else. */

#ifndef INGEST_NATIVE_SCAN_H
#define INGEST_NATIVE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "vectors.h"

#define MAX_DEPTH 64
#define MAX_FIELDS 1024

typedef enum { JSON_NULL, JSON_BOOL, JSON_INT, JSON_NUMBER, JSON_STRING, JSON_OBJECT, JSON_ARRAY } JsonKind;

/* What is remarkable about a value's text */
enum { HAS_ESCAPES = 1, HAS_EXPONENT = 2 };

typedef struct {
    const char *text;
    size_t size;
} Text;

typedef struct {
    const char *name, *text; /* the name without its quotes, the value's text with them */
    uint32_t name_size, size;
    uint8_t kind, flags;
} Field;

typedef struct {
    const char *text; /* from brace to brace */
    const char *end;  /* up to here there is something to read */
    ptrdiff_t size;
    int count, alike; /* so many fields are as those of another row: see `scan_row` */
    Field fields[MAX_FIELDS];
} Row;

bool is_utf8(const char *text, size_t size);
const char *scan_escapes(const char *p, const char *end, uint8_t *flags);
const char *scan_value(const char *p, const char *end, int depth, uint8_t *kind, uint8_t *flags);
const char *scan_row(const char *p, const char *end, Row *row, const Row *like);
bool is_unavailable(const char *text, size_t size);
bool has_text(const char *text, size_t size, const char *part, size_t part_size);

/* Most bytes of a value that cannot be one that Debezium did not have */
#define MIN_UNAVAILABLE 30

static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

static inline const char *skip_space(const char *p, const char *end)
{
    while (p < end && (uint8_t)*p <= ' ' && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

/* Return the first byte of a string that is a quote, a backslash or a control character, or `end`. */
static inline const char *scan_plain(const char *p, const char *end)
{
#if VECTORS
    for (; end - p >= VECTOR_BYTES; p += VECTOR_BYTES) {
        Vector now = vector_at(p);
        Bits hits = vector_bits(vector_or(vector_or(vector_is(now, '"'), vector_is(now, '\\')), vector_control(now)));
        if (hits)
            return p + first_place(hits);
    }
#endif
    while (p < end && *p != '"' && *p != '\\' && (uint8_t)*p >= 0x20)
        p++;
    return p;
}

/* Scan from after the opening quote to the closing one, which is where it returns. */
static inline const char *scan_string(const char *p, const char *end, uint8_t *flags)
{
    p = scan_plain(p, end);
    return p < end && *p == '"' ? p : scan_escapes(p, end, flags);
}

#define EACH_BYTE(c) (0x0101010101010101ULL * (uint8_t)(c))

static inline const char *skip_digits(const char *p, const char *end)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; end - p >= 8; p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        word ^= EACH_BYTE('0');                                     /* digits are 0 to 9 now */
        uint64_t others = ((word + EACH_BYTE(0x76)) | word) & EACH_BYTE(0x80); /* what one carries over is behind it */
        if (others)
            return p + (__builtin_ctzll(others) >> 3);
    }
#endif
    while (p < end && is_digit(*p))
        p++;
    return p;
}

static inline const char *scan_number(const char *p, const char *end, uint8_t *kind, uint8_t *flags)
{
    *kind = JSON_INT;
    if (p < end && *p == '-')
        p++;
    if (p >= end || !is_digit(*p))
        return NULL;
    if (*p == '0')
        p++;
    else
        p = skip_digits(p, end);
    if (p < end && *p == '.') {
        *kind = JSON_NUMBER;
        if (++p >= end || !is_digit(*p))
            return NULL;
        p = skip_digits(p, end);
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        *kind = JSON_NUMBER;
        *flags |= HAS_EXPONENT;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (p >= end || !is_digit(*p))
            return NULL;
        p = skip_digits(p, end);
    }
    return p;
}

/* Return whether bytes are the same; without a call, as there are few of them. */
static inline bool is_same(const char *a, const char *b, size_t size)
{
    uint64_t x, y;
    uint32_t v, w;
    if (size >= 8) {
        for (size_t i = 0; i + 8 < size; i += 8) {
            memcpy(&x, a + i, 8);
            memcpy(&y, b + i, 8);
            if (x != y)
                return false;
        }
        memcpy(&x, a + size - 8, 8);
        memcpy(&y, b + size - 8, 8);
        return x == y;
    }
    if (size >= 4) {
        memcpy(&v, a, 4);
        memcpy(&w, b, 4);
        if (v != w)
            return false;
        memcpy(&v, a + size - 4, 4);
        memcpy(&w, b + size - 4, 4);
        return v == w;
    }
    for (size_t i = 0; i < size; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

static inline bool is_named(const Field *field, const char *name, uint32_t size)
{
    return field->name_size == size && is_same(field->name, name, size);
}

/* Scan a field's name and its colon, to where its value begins. A name with escapes is refused. */
static inline const char *scan_name(const char *p, const char *end, Field *field)
{
    if (p >= end || *p != '"')
        return NULL;
    const char *name = p + 1;
    p = scan_plain(name, end);
    if (p >= end || *p != '"')
        return NULL;
    field->name = name;
    field->name_size = (uint32_t)(p - name);
    field->flags = 0;
    if (end - p > 2 && p[1] == ':' && (uint8_t)p[2] > ' ') /* as it mostly is */
        return p + 2;
    p = skip_space(p + 1, end);
    return p < end && *p == ':' ? skip_space(p + 1, end) : NULL;
}

/* Scan the value of a field whose name was scanned. */
static inline const char *scan_field(const char *p, const char *end, Field *field)
{
    const char *text = p;
    uint8_t kind, flags = 0;
    if (p < end && *p == '"') { /* most values are texts or numbers */
        kind = JSON_STRING;
        if ((p = scan_string(p + 1, end, &flags)))
            p++;
    } else if (p < end && is_digit(*p))
        p = scan_number(p, end, &kind, &flags);
    else
        p = scan_value(p, end, 2, &kind, &flags);
    if (p)
        *field = (Field){field->name, text, field->name_size, (uint32_t)(p - text), kind, flags};
    return p;
}

/* Scan from after a field's value to the next name, or with `last` to after the object's brace. */
static inline const char *next_field(const char *p, const char *end, int *last)
{
    *last = false;
    if (end - p > 1 && *p == ',' && (uint8_t)p[1] > ' ') /* as it mostly is */
        return p + 1;
    p = skip_space(p, end);
    if (p < end && *p == ',')
        return skip_space(p + 1, end);
    *last = p < end && *p == '}';
    return *last ? p + 1 : NULL;
}

/* Scan from an object's brace to its first name, or with `last` to after its other brace. */
static inline const char *open_object(const char *p, const char *end, int *last)
{
    *last = false;
    if (p >= end || *p != '{')
        return NULL;
    p = skip_space(p + 1, end);
    *last = p < end && *p == '}';
    return *last ? p + 1 : p;
}

/* Scan a text that is an object and nothing else. `like`: as for scan_row. */
static inline bool scan_object(const char *text, size_t size, Row *row, const Row *like)
{
    const char *end = text + size;
    if (size > INT32_MAX || !is_utf8(text, size))
        return false;
    text = scan_row(skip_space(text, end), end, row, like);
    return text && skip_space(text, end) == end;
}

#endif
