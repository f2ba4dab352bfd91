/* Values in other forms than the ones that are written: what messages have, and other spellings. See values.h. The
   reference is formats/typed.py, with the conversions of connect.py and canal_types.py, and model/spelling.py. */

#include "values.h"

/* -- Numbers in texts ---------------------------------------------------------------------------------------------- */

static bool read_number(Field *field, const char *text, const char *end)
{
    uint8_t kind, flags = 0;
    if (scan_number(text, end, &kind, &flags) != end)
        return false;
    set_text(field, kind, text, end);
    field->flags = flags;
    return true;
}

/* Read a number, which may be in a text. */
bool read_unquoted(Field *field)
{
    if (field->kind != JSON_STRING)
        return is_number(field);
    return read_number(field, field->text + 1, field->text + field->size - 1);
}

/* Put the ends of a text in `p` and `end`, without quotes and blanks. */
static void trim(const Field *field, const char **p, const char **end)
{
    *p = field->text + 1;
    *end = field->text + field->size - 1;
    while (*p < *end && **p == ' ')
        ++*p;
    while (*p < *end && (*end)[-1] == ' ')
        --*end;
}

/* Read a number, which may be in a text, among blanks. */
bool read_trimmed_number(Field *field)
{
    const char *p, *end;
    if (field->kind != JSON_STRING)
        return is_number(field);
    trim(field, &p, &end);
    return p < end && read_number(field, p, end);
}

/* Read an integer like that, which may have zeros behind its point. */
bool read_trimmed_integer(Field *field)
{
    if (!read_trimmed_number(field) || field->flags & HAS_EXPONENT)
        return false;
    const char *end = field->text + field->size, *point = memchr(field->text, '.', field->size);
    for (const char *p = point ? point + 1 : end; p < end; p++)
        if (*p != '0')
            return false;
    set_text(field, JSON_INT, field->text, point ? point : end);
    return true;
}

/* -- Truth values -------------------------------------------------------------------------------------------------- */

static bool set_truth(Field *field, bool truth)
{
    const char *text = truth ? "true" : "false";
    set_text(field, JSON_BOOL, text, text + (truth ? 4 : 5));
    return true;
}

static bool is_word(const char *p, size_t size, const char *word)
{
    if (size != strlen(word))
        return false;
    for (size_t i = 0; i < size; i++) {
        char c = p[i];
        if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != word[i])
            return false;
    }
    return true;
}

/* Read a truth value in a text, among blanks, in any case. */
bool read_trimmed_boolean(Field *field)
{
    const char *p, *end;
    if (field->kind != JSON_STRING)
        return false;
    trim(field, &p, &end);
    for (int truth = 0; truth < 2; truth++)
        if (is_word(p, (size_t)(end - p), truth ? "true" : "false"))
            return set_truth(field, truth);
    return false;
}

/* Read 0, 1, true or false, with quotes or without, or a bit as MySQL writes it. */
bool read_bit(Field *field)
{
    static const char *const words[] = {"1", "true", "TRUE", "b'1'", "\\u0001", "0", "false", "FALSE", "b'0'", "\\u0000"};
    bool quoted = field->kind == JSON_STRING;
    if (field->kind == JSON_OBJECT || field->kind == JSON_ARRAY)
        return false;
    const char *text = field->text + quoted;
    size_t size = field->size - (quoted ? 2 : 0);
    for (int i = 0; i < 10; i++)
        if (strlen(words[i]) == size && !memcmp(text, words[i], size))
            return set_truth(field, i < 5);
    return false;
}

/* -- Dates and times ----------------------------------------------------------------------------------------------- */

/* Read an integer that is not too long. */
static bool read_integer(const Field *field, int64_t *value)
{
    if (field->kind != JSON_INT || field->size > 18)
        return false;
    *value = int_of(field);
    return true;
}

/* Read so many days since 1970. */
bool read_days(Field *field, char **to)
{
    int64_t days;
    char *p = *to;
    *p++ = '"';
    if (!read_integer(field, &days) || !(p = put_date(p, days)))
        return false;
    *p++ = '"';
    return set_made(field, JSON_STRING, to, p);
}

/* Read a count of what is so many microseconds each. */
static bool read_micros(const Field *field, int64_t each, int64_t *micros)
{
    if (!read_integer(field, micros) || *micros > INT64_MAX / each || *micros < -(INT64_MAX / each))
        return false;
    *micros *= each;
    return true;
}

/* Read a time of the day, in units of `each` microseconds. */
bool read_time(Field *field, int64_t each, char **to)
{
    int64_t micros;
    char *p = *to;
    if (!read_micros(field, each, &micros) || micros < 0 || micros >= DAY)
        return false;
    *p++ = '"';
    p = put_time(p, (uint64_t)micros);
    *p++ = '"';
    return set_made(field, JSON_STRING, to, p);
}

/* Read a time since 1970, in units of `each` microseconds. */
bool read_moment(Field *field, int64_t each, char **to)
{
    int64_t micros;
    char *p = *to;
    if (!read_micros(field, each, &micros))
        return false;
    *p++ = '"';
    if (!(p = put_timestamp(p, micros, ' ')))
        return false;
    *p++ = '"';
    return set_made(field, JSON_STRING, to, p);
}

/* Return where a fraction ends without the zeros at its end, and without its point if there is nothing else. */
static char *cut_zeros(char *end)
{
    while (end[-1] == '0')
        end--;
    return end - (end[-1] == '.');
}

/* Read a time stamp with a `T` and the zone `Z`. */
bool read_zoned(Field *field, char **to)
{
    if (field->kind != JSON_STRING || field->flags || !fits_timestamp(field, 'T', true))
        return false;
    size_t size = field->size - 2; /* without `Z"` */
    char *text = *to, *p = text + size;
    memcpy(text, field->text, size);
    text[11] = ' ';
    if (size > 20)
        p = cut_zeros(p);
    *p++ = 'Z';
    *p++ = '"';
    return set_made(field, JSON_STRING, to, p);
}

/* Read a time stamp with a blank that is in UTC and does not say so. */
bool read_utc(Field *field, char **to)
{
    if (field->kind != JSON_STRING || !fits_timestamp(field, ' ', false))
        return false;
    char *text = *to;
    memcpy(text, field->text, field->size - 1);
    memcpy(text + field->size - 1, "Z\"", 2);
    return set_made(field, JSON_STRING, to, text + field->size + 1);
}

/* Read a date and a time, with `T` or a blank, and with `Z` or without where it is zoned. Whether they are a time stamp is
   to be seen then. */
bool read_spelled_timestamp(Field *field, char separator, bool zoned, char **to)
{
    const char *from = field->text + 1;
    int64_t size = (int64_t)field->size - 2;
    if (field->kind != JSON_STRING || field->flags || size < 19 || size > 31)
        return false;
    if (zoned && from[size - 1] == 'Z')
        size--;
    if (size > 29 || (from[10] != 'T' && from[10] != ' '))
        return false;
    char *text = *to, *p = text + size + 1;
    memcpy(text, field->text, (size_t)size + 1);
    text[11] = separator;
    if (size > 19) {
        if (text[20] != '.' || size < 21)
            return false;
        p = cut_zeros(p);
    }
    if (zoned)
        *p++ = 'Z';
    *p++ = '"';
    return set_made(field, JSON_STRING, to, p);
}
