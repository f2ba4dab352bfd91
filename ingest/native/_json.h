/* JSON as the hot loop reads it: what is no plain JSON is not for us, and never is that more lenient than Python is. */

#ifndef INGEST_FLOW_JSON_H
#define INGEST_FLOW_JSON_H

#include <Python.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define MAX_DEPTH 64
#define MAX_FIELDS 1024

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
    const char *end;  /* up to here there is something to read */
    Py_ssize_t size;
    int count, alike; /* so many fields are as those of another row: see `scan_row` */
    Field fields[MAX_FIELDS];
} Row;

#define EACH(c) (0x0101010101010101ULL * (uint8_t)(c))
#define HIGH 0x8080808080808080ULL

static bool is_utf8(const char *text, Py_ssize_t size)
{
#ifdef __SSE2__ /* most messages are ASCII */
    if (size >= 16) {
        __m128i last = _mm_loadu_si128((const __m128i *)(text + size - 16)), bits = last;
        Py_ssize_t i = 0;
        for (; i + 64 <= size; i += 64) {
            const __m128i *at = (const __m128i *)(text + i);
            __m128i first = _mm_or_si128(_mm_loadu_si128(at), _mm_loadu_si128(at + 1));
            bits = _mm_or_si128(bits, _mm_or_si128(first, _mm_or_si128(_mm_loadu_si128(at + 2), _mm_loadu_si128(at + 3))));
        }
        for (; i + 16 <= size; i += 16)
            bits = _mm_or_si128(bits, _mm_loadu_si128((const __m128i *)(text + i)));
        if (!_mm_movemask_epi8(bits))
            return true;
    }
#endif
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

static inline const char *skip_space(const char *p, const char *end)
{
    while (p < end && (uint8_t)*p <= ' ' && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

static int hex4(const char *p)
{
    int code = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int nibble = c >= '0' && c <= '9'   ? c - '0'
                     : c >= 'a' && c <= 'f' ? c - 'a' + 10
                     : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                            : -1;
        if (nibble < 0)
            return -1;
        code = code << 4 | nibble;
    }
    return code;
}

/* To the first byte of a string that is a quote, a backslash or a control character, or to `end`. */
static inline const char *scan_plain(const char *p, const char *end)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1F);
    for (; end - p >= 16; p += 16) {
        __m128i now = _mm_loadu_si128((const __m128i *)p);
        __m128i hits = _mm_or_si128(_mm_cmpeq_epi8(now, quote), _mm_cmpeq_epi8(now, slash));
        int hit = _mm_movemask_epi8(_mm_or_si128(hits, _mm_cmpeq_epi8(_mm_min_epu8(now, control), now)));
        if (hit)
            return p + __builtin_ctz((unsigned)hit);
    }
#endif
    while (p < end && *p != '"' && *p != '\\' && (uint8_t)*p >= 0x20)
        p++;
    return p;
}

static const char *scan_escapes(const char *p, const char *end, uint8_t *flags);

/* From after the opening quote to the closing one; NULL for what is no string. */
static inline const char *scan_string(const char *p, const char *end, uint8_t *flags)
{
    p = scan_plain(p, end);
    return p < end && *p == '"' ? p : scan_escapes(p, end, flags);
}

/* The same, from a byte that is not plain. */
static __attribute__((noinline)) const char *scan_escapes(const char *p, const char *end, uint8_t *flags)
{
    for (;; p = scan_plain(p, end)) {
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

static inline const char *skip_digits(const char *p, const char *end)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; end - p >= 8; p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        word ^= EACH('0'); /* digits are 0 to 9 now */
        uint64_t others = ((word + EACH(0x76)) | word) & HIGH; /* what one carries over is behind it */
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
    *kind = INT;
    if (p < end && *p == '-')
        p++;
    if (p >= end || !is_digit(*p))
        return NULL;
    if (*p == '0')
        p++;
    else
        p = skip_digits(p, end);
    if (p < end && *p == '.') {
        *kind = NUMBER;
        if (++p >= end || !is_digit(*p))
            return NULL;
        p = skip_digits(p, end);
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        *kind = NUMBER;
        *flags |= EXPONENT;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (p >= end || !is_digit(*p))
            return NULL;
        p = skip_digits(p, end);
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

/* Whether bytes are the same; without a call, as there are few of them. */
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

/* A field's name and its colon, to where its value begins; NULL for anything else, or a name with escapes. */
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

static inline const char *scan_field(const char *p, const char *end, Field *field)
{
    const char *text = p;
    uint8_t kind, flags = 0;
    if (p < end && *p == '"') { /* most values are texts or numbers */
        kind = STRING;
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

/* From after a field's value to the next name, or with `last` to after the object's brace. */
static inline const char *next_field(const char *p, const char *end, bool *last)
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

/* From an object's brace to its first name, or with `last` to after its other brace; NULL for anything else. */
static inline const char *open_object(const char *p, const char *end, bool *last)
{
    *last = false;
    if (p >= end || *p != '{')
        return NULL;
    p = skip_space(p + 1, end);
    *last = p < end && *p == '}';
    return *last ? p + 1 : p;
}

/* How many bytes at the beginning are the same. */
static inline size_t count_same(const char *a, const char *b, size_t most)
{
    size_t i = 0;
#ifdef __SSE2__
    for (; i + 16 <= most; i += 16) {
        __m128i one = _mm_loadu_si128((const __m128i *)(a + i)), other = _mm_loadu_si128((const __m128i *)(b + i));
        int same = _mm_movemask_epi8(_mm_cmpeq_epi8(one, other));
        if (same != 0xFFFF)
            return i + (size_t)__builtin_ctz(~(unsigned)same);
    }
#endif
    while (i < most && a[i] == b[i])
        i++;
    return i;
}

/* Fields that are as those of another row are, from row->count on, each to the byte after it: there is nothing to look
   for in what is the same. If there is none, `value` is where the next one's value begins if it has the same name. */
static inline int take_alike(const char *p, const char *end, Row *row, const Row *like, const char **value)
{
    int first = row->count, next = first;
    const char *from = like->fields[first].name - 1;
    Py_ssize_t most = end - p < like->end - from ? end - p : like->end - from;
    const char *to = from + count_same(p, from, (size_t)most);
    for (; next < like->count && like->fields[next].text + like->fields[next].size < to; next++) {
        row->fields[next] = like->fields[next];
        row->fields[next].name += p - from;
        row->fields[next].text += p - from;
    }
    const Field *other = &like->fields[first];
    if (next == first && to >= other->text && (p += other->text - from) < end && (uint8_t)*p > ' ') {
        row->fields[first].name = p - (other->text - other->name);
        row->fields[first].name_size = other->name_size;
        *value = p;
    }
    return next - first;
}

/* An object with its fields, from its brace to after the other; NULL for anything else, or names with escapes. `like` is
   a row that it may be like, or NULL: its text is still there. */
static const char *scan_row(const char *p, const char *end, Row *row, const Row *like)
{
    bool last;
    row->text = p;
    row->end = end;
    row->count = row->alike = 0;
    if (!(p = open_object(p, end, &last)))
        return NULL;
    while (!last) {
        Field *field = &row->fields[row->count];
        const char *value = NULL;
        int alike = like && row->count < like->count ? take_alike(p, end, row, like, &value) : 0;
        if (alike) {
            row->alike += alike;
            row->count += alike;
            p = field[alike - 1].text + field[alike - 1].size;
        } else if (row->count == MAX_FIELDS || (!value && !(value = scan_name(p, end, field))) ||
                   !(p = scan_field(value, end, field)))
            return NULL;
        else
            row->count++;
        if (!(p = next_field(p, end, &last)))
            return NULL;
    }
    row->size = p - row->text;
    return p;
}

#endif
