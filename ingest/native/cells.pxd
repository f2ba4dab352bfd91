# cython: language_level=3
"""The leaf functions in C: cells.h."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from ingest.native.scan cimport Field


cdef extern from "cells.h" nogil:
    bint cell_truth(const Field *field, uint8_t *to)
    bint cell_integer(const Field *field, int64_t bits, int64_t *to)
    bint cell_decimal(const Field *field, int64_t precision, int64_t scale, uint8_t *to)
    bint cell_number(Field *field)
    bint cell_float(double value, float *to)
    bint cell_date(const Field *field, int32_t *to)
    bint cell_time(const Field *field, int64_t *to, bint *cut)
    bint cell_timestamp(const Field *field, bint zoned, int64_t *to, bint *cut)
    char *put_unescaped(char *to, const char *p, const char *end)
