/* How records pass without objects: from a source to the hot loop, and from there to a sink.

   What is a list of records otherwise may have an attribute `raw`, a capsule of RawRecords; what takes records may have
   one that is a capsule of a RawSink. What is in a capsule lives as long as the object that it is of. */

#ifndef INGEST_MODEL_RAW_H
#define INGEST_MODEL_RAW_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#define RAW_RECORDS "ingest.model.raw.records"
#define RAW_SINK "ingest.model.raw.sink"

typedef struct {
    const char *key, *value; /* NULL: there is none */
    size_t key_size, value_size;
    int64_t offset;
} RawRecord;

typedef struct {
    const RawRecord *records; /* of one split, in order */
    Py_ssize_t count;
} RawRecords;

typedef struct {
    void *self;
    /* Copy a record to a destination of the sink's; false with an error set. Needs the GIL. */
    bool (*put)(void *self, PyObject *destination, const RawRecord *record);
} RawSink;

/* The bytes of a key or a value, or None. */
static inline PyObject *bytes_of(const char *text, size_t size)
{
    return text ? PyBytes_FromStringAndSize(text, (Py_ssize_t)size) : Py_NewRef(Py_None);
}

#endif
