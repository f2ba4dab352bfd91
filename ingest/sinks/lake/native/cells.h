/* Values of JSON as a column of Arrow holds them: binary numbers, days, microseconds, bytes. Nothing here knows a Python
   object. The reference is sinks/lake/values.py.

   A function takes a field that was scanned, and puts its value in `*to`. It returns false for what the reference has to
   look at. With `*cut` it says that a time was finer than a microsecond. */

#ifndef INGEST_LAKE_CELLS_H
#define INGEST_LAKE_CELLS_H

#include "values.h"

/* Most bytes of a number in a text; the limit of digits in model/spelling.py is no lower */
#define MAX_SPELLED 1000

bool cell_truth(const Field *field, uint8_t *to);
bool cell_integer(const Field *field, int64_t bits, int64_t *to);
bool cell_decimal(const Field *field, int64_t precision, int64_t scale, uint8_t *to);
bool cell_number(Field *field);
bool cell_float(double value, float *to);
bool cell_date(const Field *field, int32_t *to);
bool cell_time(const Field *field, int64_t *to, int *cut);
bool cell_timestamp(const Field *field, bool zoned, int64_t *to, int *cut);

#endif
