/* Values by their bytes: decimals, whose bytes messages have, and bytes, for which messages have characters or a number.
   See values.h. The reference is formats/typed.py, with the conversions of connect.py and canal_types.py. */

#include "values.h"

/* -- Decimals ------------------------------------------------------------------------------------------------------ */

/* Most digits behind a decimal's point, and most zeros before it: with all else that is no more than MAX_MADE */
#define MAX_SCALE 38
#define MAX_ZEROS 16
/* Most bytes of an integer */
#define MAX_BYTES 16

typedef struct {
    char room[40];
    const char *digits; /* none: it is zero */
    int64_t size;
    bool minus;
} Unscaled;

/* Read an integer by its bytes, most significant first. */
static bool read_integer(const uint8_t *bytes, int64_t count, Unscaled *made)
{
    if (count < 1 || count > MAX_BYTES)
        return false;
    made->minus = bytes[0] >> 7;
    unsigned __int128 value = made->minus ? ~(unsigned __int128)0 : 0;
    for (int64_t i = 0; i < count; i++)
        value = value << 8 | bytes[i];
    if (made->minus)
        value = -value;
    char *end = made->room + sizeof made->room, *start = end;
    for (; value; value /= 10)
        *--start = (char)('0' + (int)(value % 10));
    made->digits = start;
    made->size = end - start;
    return true;
}

/* Read an integer by its bytes in base64. */
static bool read_integer_bytes(const Field *field, Unscaled *made)
{
    uint8_t bytes[MAX_BYTES];
    if (field->kind != JSON_STRING || field->flags)
        return false;
    return read_integer(bytes, read_base64(field->text + 1, field->size - 2, bytes, MAX_BYTES), made);
}

/* Write a number with all its digits, `scale` of them behind its point, and return where that ends. */
static char *put_decimal(char *p, const Unscaled *number, int64_t scale)
{
    int64_t size = number->size, whole = size - scale;
    if (number->minus)
        *p++ = '-';
    if (scale < 0) {
        if (!size)
            *p++ = '0';
        memcpy(p, number->digits, (size_t)size);
        p += size;
        for (int64_t i = scale; i < 0 && size; i++)
            *p++ = '0';
        return p;
    }
    if (whole <= 0)
        *p++ = '0';
    else {
        memcpy(p, number->digits, (size_t)whole);
        p += whole;
    }
    if (!scale)
        return p;
    *p++ = '.';
    for (int64_t i = whole; i < 0; i++)
        *p++ = '0';
    int64_t rest = whole > 0 ? scale : size;
    memcpy(p, number->digits + (size - rest), (size_t)rest);
    return p + rest;
}

/* Write a number by its bytes, most significant first, and return where that ends; NULL for what the reference has to look
   at. Without digits that it may have at most (`precision` 0) a scale that is no type's is right, too. `to` has MAX_MADE
   bytes of room. */
char *put_unscaled(char *to, const uint8_t *bytes, size_t count, int64_t precision, int64_t scale)
{
    Unscaled number;
    if (scale > MAX_SCALE || scale < -MAX_ZEROS || count > MAX_BYTES || !read_integer(bytes, (int64_t)count, &number))
        return NULL;
    if (precision && (scale < 0 || scale > precision || number.size > precision))
        return NULL;
    return put_decimal(to, &number, scale);
}

/* Read a number, or one by its bytes. */
bool read_unscaled(Field *field, int64_t precision, int64_t scale, char **to)
{
    Unscaled number;
    if (is_number(field))
        return fits_decimal(field, precision, scale);
    if (scale < 0 || scale > precision || precision > MAX_SCALE || !read_integer_bytes(field, &number))
        return false;
    if (number.size > precision)
        return false;
    return set_made(field, scale ? JSON_NUMBER : JSON_INT, to, put_decimal(*to, &number, scale));
}

static bool set_decimal_text(Field *field, const Unscaled *number, int64_t scale, char **to)
{
    char *p = *to;
    if (scale > MAX_SCALE || scale < -MAX_ZEROS)
        return false;
    *p++ = '"';
    p = put_decimal(p, number, scale);
    *p++ = '"';
    return set_made(field, JSON_STRING, to, p);
}

/* Read a number, or one by its bytes, as a text. */
bool read_unscaled_text(Field *field, int64_t scale, char **to)
{
    Unscaled number;
    if (!is_number(field))
        return read_integer_bytes(field, &number) && set_decimal_text(field, &number, scale, to);
    char *p = *to;
    *p++ = '"';
    memcpy(p, field->text, field->size);
    p += field->size;
    *p++ = '"';
    return set_made(field, JSON_STRING, to, p);
}

/* Read an object with a scale and a number by its bytes, as a text. */
bool read_variable(Field *field, char **to)
{
    Field scale = {0}, value = {0}, member;
    const char *end = field->text + field->size;
    int last = 0;
    if (field->kind != JSON_OBJECT)
        return false;
    const char *p = open_object(field->text, end, &last);
    while (p && !last) {
        if (!(p = scan_name(p, end, &member)))
            return false;
        bool is_scale = is_named(&member, "scale", 5);
        Field *found = is_scale ? &scale : &value;
        if ((!is_scale && !is_named(&member, "value", 5)) || found->text || !(p = scan_field(p, end, &member)))
            return false;
        *found = member;
        p = next_field(p, end, &last);
    }
    Unscaled number;
    if (!p || !scale.text || !value.text || scale.kind != JSON_INT || scale.size > 3)
        return false;
    return read_integer_bytes(&value, &number) && set_decimal_text(field, &number, int_of(&scale), to);
}

/* -- Bytes --------------------------------------------------------------------------------------------------------- */

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

typedef struct { /* bytes on their way to base64 */
    char *to;
    uint32_t bits, count;
} Base64;

static void put_byte(Base64 *made, uint8_t byte)
{
    made->bits = made->bits << 8 | byte;
    if (++made->count % 3 == 0)
        for (int shift = 18; shift >= 0; shift -= 6)
            *made->to++ = ALPHABET[made->bits >> shift & 63];
}

/* Write what is left, and return where that ends. */
static char *end_base64(Base64 *made)
{
    int left = (int)(made->count % 3);
    if (left) {
        uint32_t bits = made->bits << (left == 1 ? 16 : 8) & 0xFFFFFF;
        for (int i = 0; i < 4; i++)
            *made->to++ = i <= left ? ALPHABET[bits >> (18 - 6 * i) & 63] : '=';
    }
    return made->to;
}

/* Write bytes as base64, without quotes, and return where that ends. */
char *put_base64(char *to, const char *from, size_t size)
{
    Base64 made = {to, 0, 0};
    for (size_t i = 0; i < size; i++)
        put_byte(&made, (uint8_t)from[i]);
    return end_base64(&made);
}

/* Read a number without a sign, with quotes or without, as so many bytes in base64: at most 8. */
bool read_bits(Field *field, int64_t width, char **to)
{
    bool quoted = field->kind == JSON_STRING;
    if (!quoted && field->kind != JSON_INT)
        return false;
    const char *p = field->text + quoted, *end = field->text + field->size - quoted;
    if (p == end || end - p > 20)
        return false;
    unsigned __int128 value = 0;
    for (; p < end; p++) {
        if (!is_digit(*p))
            return false;
        value = value * 10 + (unsigned)(*p - '0');
    }
    if (value >> (8 * width))
        return false;
    Base64 made = {*to, 0, 0};
    *made.to++ = '"';
    for (int64_t i = width - 1; i >= 0; i--)
        put_byte(&made, (uint8_t)(value >> (8 * i)));
    char *after = end_base64(&made);
    *after++ = '"';
    return set_made(field, JSON_STRING, to, after);
}

/* Return the byte of an escape, from its backslash on, and go to its last character; -1 for what is past U+00FF. */
static int read_escape(const char **at)
{
    static const char letters[] = "bfnrt", bytes[] = "\b\f\n\r\t";
    const char *letter = ++*at;
    if (*letter != 'u') {
        const char *found = memchr(letters, *letter, 5);
        return found ? bytes[found - letters] : *letter;
    }
    int code = 0;
    for (int i = 1; i <= 4; i++) {
        char c = letter[i];
        code = code << 4 | (is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    *at += 4;
    return code > 0xFF ? -1 : code;
}

/* Read a text whose characters stand for bytes, as base64. */
bool read_latin(Field *field, char **to)
{
    if (field->kind != JSON_STRING)
        return false;
    Base64 made = {*to, 0, 0};
    *made.to++ = '"';
    for (const char *c = field->text + 1, *end = field->text + field->size - 1; c < end; c++) {
        int byte = (uint8_t)*c;
        if (byte == '\\') {
            if ((byte = read_escape(&c)) < 0)
                return false;
        } else if (byte >= 0x80) {
            if (byte > 0xC3)
                return false; /* past U+00FF; what follows is there, as this is UTF-8 */
            byte = (uint8_t)(byte << 6 | (*++c & 0x3F));
        }
        put_byte(&made, (uint8_t)byte);
    }
    char *after = end_base64(&made);
    *after++ = '"';
    return set_made(field, JSON_STRING, to, after);
}

/* -- Texts --------------------------------------------------------------------------------------------------------- */

/* Return the number of four characters, which are digits of 16. */
static uint32_t hex4(const char *p)
{
    uint32_t code = 0;
    for (int i = 0; i < 4; i++)
        code = code << 4 | (uint32_t)(is_digit(p[i]) ? p[i] - '0' : (p[i] | 0x20) - 'a' + 10);
    return code;
}

static char *put_character(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t heads[] = {0, 0xC0, 0xE0, 0xF0};
    *to++ = (char)(heads[more] | code >> 6 * more);
    while (more--)
        *to++ = (char)(0x80 | (code >> 6 * more & 0x3F));
    return to;
}

/* Write the characters of a text that was scanned, without its quotes, and return where that ends. They have no more
   bytes than the text has. */
char *put_unescaped(char *to, const char *p, const char *end)
{
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    while (p < end) {
        const char *stop = scan_plain(p, end);
        memcpy(to, p, (size_t)(stop - p));
        to += stop - p;
        if (stop == end)
            break;
        p = stop + 2;
        if (stop[1] != 'u') {
            *to++ = bytes[(const char *)memchr(names, stop[1], sizeof names) - names];
            continue;
        }
        uint32_t code = hex4(p);
        p += 4;
        if (code >= 0xD800 && code < 0xDC00) { /* half a pair: the other half follows */
            code = 0x10000 + ((code - 0xD800) << 10) + (hex4(p + 2) - 0xDC00);
            p += 6;
        }
        to = put_character(to, code);
    }
    return to;
}
