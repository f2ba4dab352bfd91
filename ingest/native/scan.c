/* See scan.h. */

#define _GNU_SOURCE /* memmem */
#include "scan.h"

/* -- UTF-8 --------------------------------------------------------------------------------------------------------- */

static bool is_ascii(const char *text, size_t size)
{
#if VECTORS
    if (size >= VECTOR_BYTES) {
        Vector bits = vector_at(text + size - VECTOR_BYTES);
        size_t i = 0;
        for (; i + 4 * VECTOR_BYTES <= size; i += 4 * VECTOR_BYTES) {
            const char *at = text + i;
            Vector first = vector_or(vector_at(at), vector_at(at + VECTOR_BYTES));
            Vector other = vector_or(vector_at(at + 2 * VECTOR_BYTES), vector_at(at + 3 * VECTOR_BYTES));
            bits = vector_or(bits, vector_or(first, other));
        }
        for (; i + VECTOR_BYTES <= size; i += VECTOR_BYTES)
            bits = vector_or(bits, vector_at(text + i));
        return vector_is_ascii(bits);
    }
#endif
    for (size_t i = 0; i < size; i++)
        if ((uint8_t)text[i] >= 0x80)
            return false;
    return true;
}

/* Return how many bytes a character has that begins here, or 0 where it is none. */
static int size_of_character(const uint8_t *p, const uint8_t *end)
{
    uint8_t c = *p;
    int more = c < 0x80 ? 0 : c >= 0xC2 && c < 0xE0 ? 1 : c >= 0xE0 && c < 0xF0 ? 2 : c >= 0xF0 && c < 0xF5 ? 3 : -1;
    if (more < 0 || end - p <= more)
        return 0;
    for (int i = 1; i <= more; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    /* overlong forms, surrogates, and what is past U+10FFFF */
    if ((c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F) || (c == 0xF0 && p[1] < 0x90) ||
        (c == 0xF4 && p[1] > 0x8F))
        return 0;
    return more + 1;
}

/* Return whether bytes are UTF-8. Most messages are ASCII. */
bool is_utf8(const char *text, size_t size)
{
    if (is_ascii(text, size))
        return true;
    const uint8_t *p = (const uint8_t *)text, *end = p + size;
    while (p < end) {
        uint64_t word;
        if (end - p >= 8 && (memcpy(&word, p, 8), !(word & 0x8080808080808080ULL))) {
            p += 8;
            continue;
        }
        int bytes = size_of_character(p, end);
        if (!bytes)
            return false;
        p += bytes;
    }
    return true;
}

/* Return whether a text is somewhere in another one. */
bool has_text(const char *text, size_t size, const char *part, size_t part_size)
{
    return memmem(text, size, part, part_size) != NULL;
}

/* -- Strings ------------------------------------------------------------------------------------------------------- */

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

/* Scan `\uXXXX`, or two of them that are a pair. */
static const char *scan_code_point(const char *p, const char *end)
{
    int code = end - p < 6 ? -1 : hex4(p + 2);
    if (code < 0 || (code >= 0xDC00 && code < 0xE000))
        return NULL;
    p += 6;
    if (code < 0xD800 || code >= 0xDC00)
        return p;
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u') /* half a pair: the other half has to follow */
        return NULL;
    code = hex4(p + 2);
    return code >= 0xDC00 && code < 0xE000 ? p + 6 : NULL;
}

/* Scan the rest of a string, from a byte that is not plain, to its closing quote. */
__attribute__((noinline)) const char *scan_escapes(const char *p, const char *end, uint8_t *flags)
{
    for (;; p = scan_plain(p, end)) {
        if (p >= end || (uint8_t)*p < 0x20)
            return NULL;
        if (*p == '"')
            return p;
        *flags |= HAS_ESCAPES;
        if (end - p < 2)
            return NULL;
        if (p[1] != 'u' && !memchr("\"\\/bfnrt", p[1], 8))
            return NULL;
        if (p[1] != 'u')
            p += 2;
        else if (!(p = scan_code_point(p, end)))
            return NULL;
    }
}

/* -- Values -------------------------------------------------------------------------------------------------------- */

/* Scan an object or an array, from its bracket on. */
static const char *scan_nested(const char *p, const char *end, int depth, bool object)
{
    const char close = object ? '}' : ']';
    uint8_t inner, ignored = 0;
    if (depth >= MAX_DEPTH)
        return NULL;
    p = skip_space(p + 1, end);
    if (p < end && *p == close)
        return p + 1;
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
        if (*p == close)
            return p + 1;
        if (*p != ',')
            return NULL;
        p = skip_space(p + 1, end);
    }
}

/* Scan any value at a depth. NULL also for what is nested too deep. */
const char *scan_value(const char *p, const char *end, int depth, uint8_t *kind, uint8_t *flags)
{
    if (p >= end)
        return NULL;
    switch (*p) {
    case '"':
        *kind = JSON_STRING;
        p = scan_string(p + 1, end, flags);
        return p ? p + 1 : NULL;
    case 'n':
        *kind = JSON_NULL;
        return end - p >= 4 && !memcmp(p, "null", 4) ? p + 4 : NULL;
    case 't':
        *kind = JSON_BOOL;
        return end - p >= 4 && !memcmp(p, "true", 4) ? p + 4 : NULL;
    case 'f':
        *kind = JSON_BOOL;
        return end - p >= 5 && !memcmp(p, "false", 5) ? p + 5 : NULL;
    case '{': case '[':
        *kind = *p == '{' ? JSON_OBJECT : JSON_ARRAY;
        return scan_nested(p, end, depth, *p == '{');
    default:
        return scan_number(p, end, kind, flags);
    }
}

/* -- Rows ---------------------------------------------------------------------------------------------------------- */

/* Return how many bytes at the beginning are the same. */
static inline size_t count_same(const char *a, const char *b, size_t most)
{
    size_t i = 0;
#if VECTORS
    for (; i + VECTOR_BYTES <= most; i += VECTOR_BYTES) {
        Bits unlike = vector_unlike(vector_at(a + i), vector_at(b + i));
        if (unlike)
            return i + (size_t)first_place(unlike);
    }
#endif
    while (i < most && a[i] == b[i])
        i++;
    return i;
}

/* Take fields that are as those of another row are, from row->count on, each to the byte after it, and return how many:
   there is nothing to look for in what is the same. If there is none, `value` is where the next one's value begins if it
   has the same name. */
static inline int take_alike(const char *p, const char *end, Row *row, const Row *like, const char **value)
{
    int first = row->count, next = first;
    const char *from = like->fields[first].name - 1;
    ptrdiff_t most = end - p < like->end - from ? end - p : like->end - from;
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

/* Scan an object with its fields; names with escapes are refused. `like` is a row that it may be like, or NULL: its text
   is still there. */
const char *scan_row(const char *p, const char *end, Row *row, const Row *like)
{
    int last;
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

/* -- Values that Debezium does not have ---------------------------------------------------------------------------- */

static const char UNAVAILABLE[] = "__debezium_unavailable_value";
static const char UNAVAILABLE_BYTES[] = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==";
static const char UNAVAILABLE_NUMBERS[] =
    "95,95,100,101,98,101,122,105,117,109,95,117,110,97,118,97,105,108,97,98,108,101,95,118,97,108,117,101";
static const char UNAVAILABLE_UUID[] = "b68a35a7-17ad-35b3-af2a-ae46edb4545a";
_Static_assert(sizeof UNAVAILABLE + 1 == MIN_UNAVAILABLE, "the text with its quotes");

/* Return whether there may be `__`, or what base64 makes of it at a text's beginning. */
static bool is_suspect(const char *text, size_t size)
{
#if VECTORS
    if (size > VECTOR_BYTES) {
        size_t last = size - VECTOR_BYTES - 1;
        for (size_t i = 0;; i = i + VECTOR_BYTES > last ? last : i + VECTOR_BYTES) {
            Vector now = vector_at(text + i), next = vector_at(text + i + 1);
            Vector plain = vector_and(vector_is(now, '_'), vector_is(next, '_'));
            Vector coded = vector_and(vector_is(now, 'X'), vector_is(next, '1'));
            if (vector_bits(vector_or(plain, coded)))
                return true;
            if (i == last)
                return false;
        }
    }
#endif
    for (size_t i = 0; i + 1 < size; i++)
        if ((text[i] == '_' && text[i + 1] == '_') || (text[i] == 'X' && text[i + 1] == '1'))
            return true;
    return false;
}

/* Return whether there is what Debezium writes in the place of a value that it does not have: numbers and UUIDs only in
   arrays. */
bool is_unavailable(const char *text, size_t size)
{
    if (size && text[0] == '[' &&
        (memmem(text, size, UNAVAILABLE_NUMBERS, sizeof UNAVAILABLE_NUMBERS - 1) ||
         memmem(text, size, UNAVAILABLE_UUID, sizeof UNAVAILABLE_UUID - 1)))
        return true;
    if (!is_suspect(text, size))
        return false;
    return memmem(text, size, UNAVAILABLE, sizeof UNAVAILABLE - 1) ||
           memmem(text, size, UNAVAILABLE_BYTES, sizeof UNAVAILABLE_BYTES - 1);
}
