/* Records from librdkafka, and to it, without a Python object for each.

   The Kafka client of Python makes the consumer or the producer and does all else; this file takes records from it in
   batches and gives records to it. It gets at librdkafka by librdkafka's own ways: it is a plugin of it
   (`plugin.library.paths`), which the client loads by `conf_init` while it is made. All that librdkafka calls back is in
   C from then on: errors and failed deliveries are noted, and asked for from Python. So the Python client's own callbacks
   are never called, and must not be given to it; nothing of its insides is relied upon.

   librdkafka's headers are not in the client's packages; what is needed of them is declared here, as they promise to
   keep it. */

#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE /* dladdr */
#include <Python.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

#include "../native/raw.h"

/* -- librdkafka ---------------------------------------------------------------------------------------------------- */

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;

typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

typedef struct {
    int vtype;
    union {
        const char *cstr;
        rd_kafka_topic_t *rkt;
        int i;
        int32_t i32;
        int64_t i64;
        struct {
            void *mem;
            size_t size;
        } mem;
        rd_kafka_headers_t *headers;
        void *ptr;
        char _pad[64];
    } u;
} rd_kafka_vu_t;

enum { V_TOPIC = 1, V_RKT, V_PARTITION, V_VALUE, V_KEY, V_OPAQUE, V_MSGFLAGS, V_TIMESTAMP, V_HEADER, V_HEADERS };
enum { MSG_F_COPY = 2 };
enum { ERR_QUEUE_FULL = -184, ERR_FATAL = -150, ERR_UNKNOWN = -1 };
enum { CONF_OK = 0 };

/* X(what it gives, its name without `rd_kafka_`, what it takes) */
#define FUNCTIONS(X)                                                                                                   \
    X(int, conf_set, (rd_kafka_conf_t *, const char *, const char *, char *, size_t))                                  \
    X(void, conf_set_dr_msg_cb, (rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *)))         \
    X(void, conf_set_error_cb, (rd_kafka_conf_t *, void (*)(rd_kafka_t *, int, const char *, void *)))                 \
    X(void, conf_set_log_cb, (rd_kafka_conf_t *, void (*)(const rd_kafka_t *, int, const char *, const char *)))       \
    X(int, conf_interceptor_add_on_new,                                                                                \
      (rd_kafka_conf_t *, const char *, int (*)(rd_kafka_t *, const rd_kafka_conf_t *, void *, char *, size_t),        \
       void *))                                                                                                        \
    X(int, conf_interceptor_add_on_conf_destroy, (rd_kafka_conf_t *, const char *, int (*)(void *), void *))           \
    X(int, interceptor_add_on_acknowledgement,                                                                         \
      (rd_kafka_t *, const char *, int (*)(rd_kafka_t *, rd_kafka_message_t *, void *), void *))                       \
    X(int, fatal_error, (rd_kafka_t *, char *, size_t))                                                                \
    X(int, poll, (rd_kafka_t *, int))                                                                                  \
    X(rd_kafka_topic_t *, topic_new, (rd_kafka_t *, const char *, rd_kafka_topic_conf_t *))                            \
    X(void, topic_destroy, (rd_kafka_topic_t *))                                                                       \
    X(const char *, topic_name, (const rd_kafka_topic_t *))                                                            \
    X(int, produce,                                                                                                    \
      (rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *))                                \
    X(int, last_error, (void))                                                                                         \
    X(rd_kafka_error_t *, produceva, (rd_kafka_t *, const rd_kafka_vu_t *, size_t))                                    \
    X(int, error_code, (const rd_kafka_error_t *))                                                                     \
    X(void, error_destroy, (rd_kafka_error_t *))                                                                       \
    X(rd_kafka_headers_t *, headers_new, (size_t))                                                                     \
    X(rd_kafka_headers_t *, headers_copy, (const rd_kafka_headers_t *))                                                \
    X(void, headers_destroy, (rd_kafka_headers_t *))                                                                   \
    X(int, header_add, (rd_kafka_headers_t *, const char *, ssize_t, const void *, ssize_t))                           \
    X(int, header_get_all, (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *))               \
    X(rd_kafka_queue_t *, queue_get_consumer, (rd_kafka_t *))                                                          \
    X(void, queue_destroy, (rd_kafka_queue_t *))                                                                       \
    X(ssize_t, consume_batch_queue, (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t))                          \
    X(void, message_destroy, (rd_kafka_message_t *))                                                                   \
    X(const char *, message_errstr, (const rd_kafka_message_t *))                                                      \
    X(int64_t, message_timestamp, (const rd_kafka_message_t *, int *))                                                 \
    X(int, message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **))                                       \
    X(int32_t, message_leader_epoch, (const rd_kafka_message_t *))

static struct {
#define X(gives, name, takes) gives(*name) takes;
    FUNCTIONS(X)
#undef X
} rd;

static bool find_functions(void *library)
{
#define X(gives, name, takes)                                                                                          \
    if (!(*(void **)&rd.name = dlsym(library, "rd_kafka_" #name)))                                                     \
        return false;
    FUNCTIONS(X)
#undef X
    return true;
}

/* -- What librdkafka's threads note -------------------------------------------------------------------------------- */

#define MOST_NOTES 8
#define MOST_TEXT 512
#define MOST_NAME 250

typedef struct {
    int code;
    bool fatal;
    char text[MOST_TEXT];
} Note;

/* Of one client; there as long as its configuration or a Client needs it */
typedef struct Noted {
    pthread_mutex_t lock;
    int holders; /* under `all_lock` */
    struct Noted *next;
    rd_kafka_t *rk;
    int notes; /* the newest are kept */
    Note note[MOST_NOTES];
    long failures;
    int failed; /* code of the first failure that nobody asked for yet, or 0 */
    char topic[MOST_NAME];
    int32_t partition;
} Noted;

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static Noted *all;
static _Thread_local Noted *newest; /* what was made last in this thread, and is not taken yet */

static void let_go(Noted *noted)
{
    pthread_mutex_lock(&all_lock);
    bool last = !--noted->holders;
    for (Noted **at = &all; last && *at; at = &(*at)->next)
        if (*at == noted) {
            *at = noted->next;
            break;
        }
    pthread_mutex_unlock(&all_lock);
    if (last) {
        pthread_mutex_destroy(&noted->lock);
        free(noted);
    }
}

static void copy_text(char *to, const char *from, size_t room)
{
    size_t size = from ? strnlen(from, room - 1) : 0;
    memcpy(to, from ? from : "", size);
    to[size] = 0;
}

static void on_error(rd_kafka_t *rk, int code, const char *reason, void *Py_UNUSED(opaque))
{
    char text[MOST_TEXT];
    bool fatal = code == ERR_FATAL;
    if (fatal)
        code = rd.fatal_error(rk, text, sizeof text);
    else
        copy_text(text, reason, sizeof text);
    pthread_mutex_lock(&all_lock);
    Noted *noted = all;
    while (noted && noted->rk != rk)
        noted = noted->next;
    if (noted) {
        pthread_mutex_lock(&noted->lock);
        if (noted->notes == MOST_NOTES)
            memmove(noted->note, noted->note + 1, sizeof(Note) * --noted->notes);
        Note *note = &noted->note[noted->notes++];
        note->code = code;
        note->fatal = fatal;
        memcpy(note->text, text, sizeof text);
        pthread_mutex_unlock(&noted->lock);
    }
    pthread_mutex_unlock(&all_lock);
}

static void on_log(const rd_kafka_t *Py_UNUSED(rk), int Py_UNUSED(level), const char *Py_UNUSED(facility),
                   const char *Py_UNUSED(text))
{
}

static int on_acknowledgement(rd_kafka_t *Py_UNUSED(rk), rd_kafka_message_t *message, void *opaque)
{
    Noted *noted = opaque;
    if (!message->err)
        return 0;
    pthread_mutex_lock(&noted->lock);
    noted->failures++;
    if (!noted->failed) {
        noted->failed = message->err;
        copy_text(noted->topic, message->rkt ? rd.topic_name(message->rkt) : "", sizeof noted->topic);
        noted->partition = message->partition;
    }
    pthread_mutex_unlock(&noted->lock);
    return 0;
}

/* What failed was noted already: see above */
static void on_delivery(rd_kafka_t *Py_UNUSED(rk), const rd_kafka_message_t *Py_UNUSED(message), void *Py_UNUSED(opaque))
{
}

static int on_new(rd_kafka_t *rk, const rd_kafka_conf_t *conf, void *opaque, char *Py_UNUSED(text), size_t Py_UNUSED(size))
{
    Noted *noted = opaque;
    /* The Python client has set its own since `conf_init`. They may only be called while one of its methods runs, so
       that any event would end the process. No thread has been started yet: the client's configuration may be changed. */
    rd_kafka_conf_t *own = (rd_kafka_conf_t *)conf;
    rd.conf_set_error_cb(own, on_error);
    rd.conf_set_dr_msg_cb(own, on_delivery);
    rd.conf_set_log_cb(own, on_log);
    noted->rk = rk;
    newest = noted;
    return rd.interceptor_add_on_acknowledgement(rk, "ingest", on_acknowledgement, noted);
}

static int on_conf_destroy(void *opaque)
{
    if (newest == opaque)
        newest = NULL;
    let_go(opaque);
    return 0;
}

/* librdkafka calls this when a client's configuration names this file as a plugin. */
int conf_init(rd_kafka_conf_t *conf, void **Py_UNUSED(opaque), char *text, size_t size)
{
    Dl_info caller;
    void *library = NULL;
    if (dladdr(__builtin_return_address(0), &caller) && caller.dli_fname)
        library = dlopen(caller.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    bool found = library && find_functions(library);
    if (library)
        dlclose(library); /* it stays: it is running */
    Noted *noted = found ? calloc(1, sizeof *noted) : NULL;
    if (!noted) {
        copy_text(text, found ? "no memory" : "this librdkafka does not have what is needed", size);
        return -1;
    }
    pthread_mutex_init(&noted->lock, NULL);
    noted->holders = 1;
    pthread_mutex_lock(&all_lock);
    noted->next = all;
    all = noted;
    pthread_mutex_unlock(&all_lock);
    if (rd.conf_interceptor_add_on_conf_destroy(conf, "ingest", on_conf_destroy, noted)) {
        let_go(noted);
        copy_text(text, "no interceptor could be added", size);
        return -1;
    }
    /* Deliveries that went well are nobody's concern; consumers take no notice of it */
    if (rd.conf_set(conf, "delivery.report.only.error", "true", text, size) != CONF_OK)
        return -1;
    return rd.conf_interceptor_add_on_new(conf, "ingest", on_new, noted);
}

/* -- A client ------------------------------------------------------------------------------------------------------ */

/* Where records go, and what they have beside key and value */
typedef struct {
    rd_kafka_topic_t *topic; /* or NULL: it is known by its name only */
    const char *name;
    int32_t partition;           /* or -1: by the key */
    int64_t millis;              /* since 1970; 0: now */
    rd_kafka_headers_t *headers; /* or NULL */
} Target;

#define RECENT 256
/* Destinations that are kept: some are made for a record */
#define MAX_TARGETS 20000
#define MAX_CONSUMED 1000000

/* The GIL guards it. Its methods let go of it, or call Python: those that write refuse to be entered meanwhile, and it is
   not closed then. */
typedef struct {
    PyObject_HEAD
    bool busy;     /* a record is being written */
    int consuming; /* so many threads wait for records */
    PyObject *owner;  /* keeps the client of librdkafka alive; NULL once this one is closed */
    PyObject *writer; /* what knows the destinations, and says what an error means */
    Noted *noted;
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    PyObject *places; /* of destinations in `targets` */
    Target *targets;
    Py_ssize_t count, size;
    Py_ssize_t batches; /* that are there yet */
    struct {
        PyObject *destination;
        Py_ssize_t place;
    } recent[RECENT];
    RawSink sink;
} Client;

typedef struct {
    PyTypeObject *client, *records, *record;
} State;

static struct PyModuleDef module;

static State *state_of(PyTypeObject *type) { return PyModule_GetState(PyType_GetModuleByDef(type, &module)); }

static bool is_open(const Client *self)
{
    if (!self->rk)
        PyErr_SetString(PyExc_RuntimeError, "the client is closed");
    return self->rk != NULL;
}

/* Begin to write; false with an error where that is not done yet somewhere else. */
static bool begin(Client *self)
{
    if (self->busy)
        PyErr_SetString(PyExc_RuntimeError, "the client is writing already: it was entered again from what it calls, or "
                                            "from another thread");
    return !self->busy && (self->busy = is_open(self));
}

static void forget_targets(Client *self)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        rd.topic_destroy(self->targets[i].topic);
        if (self->targets[i].headers)
            rd.headers_destroy(self->targets[i].headers);
    }
    self->count = 0;
    for (int i = 0; i < RECENT; i++)
        Py_CLEAR(self->recent[i].destination);
    if (self->places)
        PyDict_Clear(self->places);
}

/* Let go of what is librdkafka's, which must happen before the client of Python is closed. */
static void client_shut(Client *self)
{
    self->rk = NULL; /* nothing gets in from here on */
    forget_targets(self);
    Py_CLEAR(self->places);
    if (self->queue)
        rd.queue_destroy(self->queue);
    self->queue = NULL;
    Py_CLEAR(self->writer);
    Py_CLEAR(self->owner);
}

static int client_traverse(Client *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->owner);
    Py_VISIT(self->writer);
    Py_VISIT(self->places);
    for (int i = 0; i < RECENT; i++)
        Py_VISIT(self->recent[i].destination);
    return 0;
}

static int client_clear(Client *self)
{
    client_shut(self);
    return 0;
}

static void client_dealloc(Client *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    client_shut(self);
    PyMem_Free(self->targets);
    if (self->noted)
        let_go(self->noted);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static bool put(void *client, PyObject *destination, const RawRecord *record);

/* Client(owner, writer): `owner` was made last in this thread, by a configuration that names this file as a plugin. */
static PyObject *client_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *owner, *writer;
    if (!PyArg_ParseTuple(args, "OO", &owner, &writer))
        return NULL;
    if (!newest) {
        PyErr_SetString(PyExc_RuntimeError, "no client was made by this plugin");
        return NULL;
    }
    Client *self = (Client *)type->tp_alloc(type, 0);
    if (!self || !(self->places = PyDict_New())) {
        Py_XDECREF(self);
        return NULL;
    }
    self->noted = newest;
    newest = NULL;
    pthread_mutex_lock(&all_lock);
    self->noted->holders++;
    pthread_mutex_unlock(&all_lock);
    self->rk = self->noted->rk;
    self->owner = Py_NewRef(owner);
    self->writer = Py_NewRef(writer);
    self->sink = (RawSink){self, put};
    return (PyObject *)self;
}

static PyObject *client_busy(Client *self, PyObject *Py_UNUSED(ignored)) { return PyBool_FromLong(self->batches > 0); }

static PyObject *client_close(Client *self, PyObject *Py_UNUSED(ignored))
{
    if (self->busy || self->consuming || self->batches) {
        PyErr_SetString(PyExc_RuntimeError, self->batches ? "there are records of this client"
                                                          : "the client is in use: it can be closed when that has ended");
        return NULL;
    }
    client_shut(self);
    Py_RETURN_NONE;
}

static PyObject *client_notes(Client *self, PyObject *Py_UNUSED(ignored))
{
    Note notes[MOST_NOTES];
    pthread_mutex_lock(&self->noted->lock);
    int count = self->noted->notes;
    memcpy(notes, self->noted->note, sizeof(Note) * (size_t)count);
    self->noted->notes = 0;
    pthread_mutex_unlock(&self->noted->lock);
    PyObject *out = PyTuple_New(count);
    for (int i = 0; out && i < count; i++) {
        PyObject *text = PyUnicode_DecodeUTF8(notes[i].text, (Py_ssize_t)strlen(notes[i].text), "replace");
        PyObject *note = text ? Py_BuildValue("(iNO)", notes[i].code, text, notes[i].fatal ? Py_True : Py_False) : NULL;
        if (!note)
            Py_CLEAR(out);
        else
            PyTuple_SET_ITEM(out, i, note);
    }
    return out;
}

static PyObject *client_failures(Client *self, PyObject *Py_UNUSED(ignored))
{
    char topic[MOST_NAME];
    pthread_mutex_lock(&self->noted->lock);
    long count = self->noted->failures;
    int code = self->noted->failed;
    int32_t partition = self->noted->partition;
    memcpy(topic, self->noted->topic, sizeof topic);
    self->noted->failed = 0;
    pthread_mutex_unlock(&self->noted->lock);
    return code ? Py_BuildValue("(l(isi))", count, code, topic, partition) : Py_BuildValue("(lO)", count, Py_None);
}

/* -- Writing ------------------------------------------------------------------------------------------------------- */

/* A list of names and values as librdkafka has it; NULL with an error. */
static rd_kafka_headers_t *headers_of(PyObject *given)
{
    PyObject *all_of = PySequence_Tuple(given);
    if (!all_of)
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(all_of);
    rd_kafka_headers_t *made = rd.headers_new((size_t)count);
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *name, *value;
        Py_ssize_t name_size, size;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(all_of, i), "s#z#", &name, &name_size, &value, &size)) {
            rd.headers_destroy(made);
            made = NULL;
            break;
        }
        rd.header_add(made, name, name_size, value, value ? size : 0);
    }
    Py_DECREF(all_of);
    return made;
}

/* Where a destination is in `targets`, which it is added to; -1 with an error. */
static Py_ssize_t add_target(Client *self, PyObject *destination)
{
    PyObject *known = PyDict_GetItemWithError(self->places, destination);
    if (known)
        return PyLong_AsSsize_t(known);
    PyObject *found = PyErr_Occurred() ? NULL : PyObject_CallMethod(self->writer, "resolve", "(O)", destination);
    if (!found)
        return -1;
    const char *topic;
    PyObject *headers, *place = NULL;
    Target target = {0};
    if (self->count == MAX_TARGETS)
        forget_targets(self);
    bool good = PyArg_ParseTuple(found, "siO", &topic, &target.partition, &headers) && is_open(self);
    if (good && self->count == self->size) {
        Py_ssize_t size = self->size ? self->size * 2 : 16;
        Target *more = PyMem_Realloc(self->targets, (size_t)size * sizeof(Target));
        if (more) {
            self->targets = more;
            self->size = size;
        } else {
            PyErr_NoMemory();
            good = false;
        }
    }
    good = good && (headers == Py_None || (target.headers = headers_of(headers)));
    if (good && !(target.topic = rd.topic_new(self->rk, topic, NULL))) {
        PyErr_Format(PyExc_RuntimeError, "librdkafka does not take the topic %s", topic);
        good = false;
    }
    place = good ? PyLong_FromSsize_t(self->count) : NULL;
    good = place && !PyDict_SetItem(self->places, destination, place);
    Py_XDECREF(place);
    Py_DECREF(found);
    if (!good) {
        if (target.headers)
            rd.headers_destroy(target.headers);
        if (target.topic)
            rd.topic_destroy(target.topic);
        return -1;
    }
    self->targets[self->count] = target;
    return self->count++;
}

/* The target of a destination; NULL with an error. */
static const Target *target_of(Client *self, PyObject *destination)
{
    size_t slot = ((uintptr_t)destination >> 4) % RECENT;
    if (self->recent[slot].destination == destination)
        return &self->targets[self->recent[slot].place];
    Py_ssize_t place = add_target(self, destination);
    if (place < 0)
        return NULL;
    Py_XSETREF(self->recent[slot].destination, Py_NewRef(destination));
    self->recent[slot].place = place;
    return &self->targets[place];
}

/* Offer a record to librdkafka: 0, or why it does not take it. */
static int offer(Client *self, const Target *to, const RawRecord *record)
{
    void *key = (void *)record->key, *value = (void *)record->value;
    if (to->topic && !to->headers && !to->millis) { /* as it mostly is: the cheapest way */
        int failed = rd.produce(to->topic, to->partition, MSG_F_COPY, value, record->value_size, key, record->key_size, NULL);
        int code = failed ? rd.last_error() : 0;
        return failed && !code ? ERR_UNKNOWN : code;
    }
    rd_kafka_headers_t *own = to->headers ? rd.headers_copy(to->headers) : NULL;
    rd_kafka_vu_t parts[] = {
        {V_TOPIC, {.cstr = to->name}},
        {V_PARTITION, {.i32 = to->partition}},
        {V_TIMESTAMP, {.i64 = to->millis}},
        {V_MSGFLAGS, {.i = MSG_F_COPY}},
        {V_KEY, {.mem = {key, record->key_size}}},
        {V_VALUE, {.mem = {value, record->value_size}}},
        {V_HEADERS, {.headers = own}}, /* the last: it may be left out */
    };
    if (to->topic)
        parts[0] = (rd_kafka_vu_t){V_RKT, {.rkt = to->topic}};
    rd_kafka_error_t *error = rd.produceva(self->rk, parts, own ? 7 : 6);
    if (!error)
        return 0;
    if (own)
        rd.headers_destroy(own);
    int code = rd.error_code(error);
    rd.error_destroy(error);
    return code;
}

/* Give a record to librdkafka; waits while the queue is full. False with an error. */
static bool give(Client *self, const Target *given, const RawRecord *record)
{
    Target to = *given; /* what is called below may add to `targets`, and move them */
    while (true) {
        int code = offer(self, &to, record);
        if (!code)
            return true;
        const char *name = to.topic ? rd.topic_name(to.topic) : to.name;
        PyObject *none = NULL;
        if (code != ERR_QUEUE_FULL)
            none = PyObject_CallMethod(self->writer, "refused", "(isn)", code, name, (Py_ssize_t)record->value_size);
        else {
            Py_BEGIN_ALLOW_THREADS
            rd.poll(self->rk, 2);
            Py_END_ALLOW_THREADS
            pthread_mutex_lock(&self->noted->lock);
            bool news = self->noted->failed || self->noted->notes;
            pthread_mutex_unlock(&self->noted->lock);
            if (PyErr_CheckSignals())
                return false;
            if (!news)
                continue;
            none = PyObject_CallMethod(self->writer, "check", "(O)", self);
        }
        Py_XDECREF(none);
        if (!none)
            return false;
        if (code != ERR_QUEUE_FULL) {
            PyErr_Format(PyExc_RuntimeError, "librdkafka did not take a record for %s: code %d", name, code);
            return false;
        }
    }
}

static bool put(void *client, PyObject *destination, const RawRecord *record)
{
    Client *self = client;
    if (!begin(self))
        return false;
    const Target *target = target_of(self, destination);
    bool good = target && give(self, target, record);
    self->busy = false;
    return good;
}

typedef struct {
    Py_buffer key, value;
} Held;

static bool hold(PyObject *given, Py_buffer *buffer, const char **text, size_t *size)
{
    *text = NULL;
    *size = 0;
    buffer->obj = NULL;
    if (given == Py_None)
        return true;
    if (PyObject_GetBuffer(given, buffer, PyBUF_SIMPLE))
        return false;
    *text = buffer->buf ? buffer->buf : "";
    *size = (size_t)buffer->len;
    return true;
}

static bool hold_both(PyObject *key, PyObject *value, Held *held, RawRecord *record)
{
    if (!hold(key, &held->key, &record->key, &record->key_size))
        return false;
    if (hold(value, &held->value, &record->value, &record->value_size))
        return true;
    PyBuffer_Release(&held->key);
    return false;
}

static void release(Held *held)
{
    PyBuffer_Release(&held->key);
    PyBuffer_Release(&held->value);
}

static PyObject *client_write(Client *self, PyObject *records)
{
    PyObject *given = PySequence_Fast(records, "records are a sequence");
    if (!given)
        return NULL;
    bool good = true;
    for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(given); i++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(given, i)); /* what is called may change the list */
        Held held;
        RawRecord record;
        good = PyTuple_Check(item) && PyTuple_GET_SIZE(item) == 3;
        if (!good)
            PyErr_SetString(PyExc_TypeError, "a record is a destination, a key and a value");
        else if ((good = hold_both(PyTuple_GET_ITEM(item, 1), PyTuple_GET_ITEM(item, 2), &held, &record))) {
            good = put(self, PyTuple_GET_ITEM(item, 0), &record);
            release(&held);
        }
        Py_DECREF(item);
    }
    Py_DECREF(given);
    if (!good)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *client_send(Client *self, PyObject *args)
{
    const char *topic;
    PyObject *key, *value, *headers, *time;
    Held held;
    RawRecord record;
    if (!PyArg_ParseTuple(args, "sOOOO", &topic, &key, &value, &headers, &time))
        return NULL;
    int64_t millis = time == Py_None ? 0 : PyLong_AsLongLong(time);
    if (PyErr_Occurred())
        return NULL;
    rd_kafka_headers_t *made = NULL;
    if (headers != Py_None && !(made = headers_of(headers)))
        return NULL;
    bool good = hold_both(key, value, &held, &record);
    if (good && !(good = begin(self)))
        release(&held);
    if (good) {
        good = give(self, &(Target){.name = topic, .partition = -1, .millis = millis, .headers = made}, &record);
        self->busy = false;
        release(&held);
    }
    if (made)
        rd.headers_destroy(made);
    if (!good)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *client_sink(Client *self, void *Py_UNUSED(closure)) { return PyCapsule_New(&self->sink, RAW_SINK, NULL); }

/* -- Reading ------------------------------------------------------------------------------------------------------- */

/* What was taken at once; the GIL guards the count */
typedef struct {
    Py_ssize_t holders;
    PyObject *client; /* records are gone before their consumer is */
    size_t count;
    rd_kafka_message_t *messages[];
} Batch;

static void batch_free(Batch *batch)
{
    if (--batch->holders)
        return;
    for (size_t i = 0; i < batch->count; i++)
        rd.message_destroy(batch->messages[i]);
    ((Client *)batch->client)->batches--;
    Py_DECREF(batch->client);
    PyMem_Free(batch);
}

typedef struct {
    PyObject_HEAD
    Batch *batch;
    rd_kafka_message_t **messages;
    RawRecord *raw;
    RawRecords whole;
} Records;

typedef struct {
    PyObject_HEAD
    Batch *batch;
    rd_kafka_message_t *message;
} Record;

static void records_dealloc(Records *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyMem_Free(self->messages);
    PyMem_Free(self->raw);
    if (self->batch)
        batch_free(self->batch);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static void record_dealloc(Record *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (self->batch)
        batch_free(self->batch);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* Room for so many records of a batch. */
static Records *records_new(PyTypeObject *type, Batch *batch, Py_ssize_t count)
{
    Records *made = (Records *)type->tp_alloc(type, 0);
    if (!made)
        return NULL;
    made->messages = PyMem_Malloc((size_t)(count ? count : 1) * sizeof(*made->messages));
    made->raw = PyMem_Malloc((size_t)(count ? count : 1) * sizeof(RawRecord));
    if (!made->messages || !made->raw) {
        Py_DECREF(made);
        PyErr_NoMemory();
        return NULL;
    }
    made->batch = batch;
    batch->holders++;
    made->whole.records = made->raw;
    return made;
}

static void records_add(Records *self, rd_kafka_message_t *message)
{
    self->messages[self->whole.count] = message;
    self->raw[self->whole.count++] = (RawRecord){
        message->key, message->payload, message->key ? message->key_len : 0, message->payload ? message->len : 0,
        message->offset,
    };
}

static Py_ssize_t records_length(Records *self) { return self->whole.count; }

static PyObject *records_item(Records *self, Py_ssize_t at)
{
    if (at < 0 || at >= self->whole.count) {
        PyErr_SetString(PyExc_IndexError, "no such record");
        return NULL;
    }
    PyTypeObject *type = state_of(Py_TYPE(self))->record;
    Record *made = (Record *)type->tp_alloc(type, 0);
    if (!made)
        return NULL;
    made->batch = self->batch;
    made->batch->holders++;
    made->message = self->messages[at];
    return (PyObject *)made;
}

static PyObject *records_subscript(Records *self, PyObject *at)
{
    if (PyIndex_Check(at)) {
        Py_ssize_t i = PyNumber_AsSsize_t(at, PyExc_IndexError);
        if (i == -1 && PyErr_Occurred())
            return NULL;
        return records_item(self, i < 0 ? i + self->whole.count : i);
    }
    Py_ssize_t start, stop, step;
    if (!PySlice_Check(at) || PySlice_Unpack(at, &start, &stop, &step) < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "an index or a slice");
        return NULL;
    }
    Py_ssize_t count = PySlice_AdjustIndices(self->whole.count, &start, &stop, step);
    Records *made = records_new(Py_TYPE(self), self->batch, count);
    for (Py_ssize_t i = 0; made && i < count; i++)
        records_add(made, self->messages[start + i * step]);
    return (PyObject *)made;
}

static PyObject *records_raw(Records *self, void *Py_UNUSED(closure))
{
    return PyCapsule_New(&self->whole, RAW_RECORDS, NULL);
}

static PyObject *record_key(Record *self, PyObject *Py_UNUSED(ignored))
{
    return bytes_of(self->message->key, self->message->key_len);
}

static PyObject *record_value(Record *self, PyObject *Py_UNUSED(ignored))
{
    return bytes_of(self->message->payload, self->message->len);
}

static PyObject *record_topic(Record *self, PyObject *Py_UNUSED(ignored))
{
    return PyUnicode_FromString(rd.topic_name(self->message->rkt));
}

static PyObject *record_partition(Record *self, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(self->message->partition);
}

static PyObject *record_offset(Record *self, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLongLong(self->message->offset);
}

static PyObject *record_timestamp(Record *self, PyObject *Py_UNUSED(ignored))
{
    int kind;
    int64_t millis = rd.message_timestamp(self->message, &kind);
    return Py_BuildValue("(iL)", kind, (long long)millis);
}

static PyObject *record_leader_epoch(Record *self, PyObject *Py_UNUSED(ignored))
{
    int32_t epoch = rd.message_leader_epoch(self->message);
    return epoch < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(epoch);
}

static PyObject *record_headers(Record *self, PyObject *Py_UNUSED(ignored))
{
    rd_kafka_headers_t *headers;
    if (rd.message_headers(self->message, &headers))
        return Py_NewRef(Py_None);
    PyObject *out = PyList_New(0);
    const char *name;
    const void *value;
    size_t size;
    for (size_t i = 0; out && !rd.header_get_all(headers, i, &name, &value, &size); i++) {
        PyObject *text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
        PyObject *given = bytes_of(value, size);
        PyObject *pair = text && given ? PyTuple_Pack(2, text, given) : NULL;
        if (!pair || PyList_Append(out, pair))
            Py_CLEAR(out);
        Py_XDECREF(text);
        Py_XDECREF(given);
        Py_XDECREF(pair);
    }
    return out;
}

typedef struct {
    const rd_kafka_topic_t *topic;
    int32_t partition;
    Py_ssize_t count;
    Records *records;
} Group;

/* What of a batch is of each split, in the order of their first records: a list of (topic, partition, records), and one
   of the errors that came in their place: (topic, partition, code, text). */
static PyObject *grouped(PyTypeObject *type, Batch *batch)
{
    Group *groups = PyMem_Calloc(batch->count ? batch->count : 1, sizeof(Group));
    Py_ssize_t *of = PyMem_Malloc((batch->count ? batch->count : 1) * sizeof(Py_ssize_t));
    PyObject *found = PyList_New(0), *errors = PyList_New(0), *out = NULL;
    Py_ssize_t count = 0, last = 0;
    bool good = groups && of && found && errors;
    if (!groups || !of)
        PyErr_NoMemory();
    for (size_t i = 0; good && i < batch->count; i++) {
        const rd_kafka_message_t *message = batch->messages[i];
        of[i] = -1;
        if (message->err) {
            PyObject *error = Py_BuildValue(
                "(siis)", message->rkt ? rd.topic_name(message->rkt) : "", message->partition, message->err,
                rd.message_errstr(message));
            good = error && !PyList_Append(errors, error);
            Py_XDECREF(error);
            continue;
        }
        if (last >= count || groups[last].topic != message->rkt || groups[last].partition != message->partition) {
            for (last = 0; last < count; last++)
                if (groups[last].topic == message->rkt && groups[last].partition == message->partition)
                    break;
            if (last == count)
                groups[count++] = (Group){message->rkt, message->partition, 0, NULL};
        }
        groups[last].count++;
        of[i] = last;
    }
    for (Py_ssize_t g = 0; good && g < count; g++)
        good = (groups[g].records = records_new(type, batch, groups[g].count)) != NULL;
    for (size_t i = 0; good && i < batch->count; i++)
        if (of[i] >= 0)
            records_add(groups[of[i]].records, batch->messages[i]);
    for (Py_ssize_t g = 0; good && g < count; g++) {
        PyObject *group = Py_BuildValue("(siO)", rd.topic_name(groups[g].topic), groups[g].partition, groups[g].records);
        good = group && !PyList_Append(found, group);
        Py_XDECREF(group);
    }
    if (good)
        out = PyTuple_Pack(2, found, errors);
    for (Py_ssize_t g = 0; g < count; g++)
        Py_XDECREF(groups[g].records);
    Py_XDECREF(found);
    Py_XDECREF(errors);
    PyMem_Free(groups);
    PyMem_Free(of);
    return out;
}

static PyObject *client_consume(Client *self, PyTypeObject *type, PyObject *const *args, Py_ssize_t given, PyObject *names)
{
    Py_ssize_t most = given == 2 && !names ? PyLong_AsSsize_t(args[0]) : 0;
    long millis = most > 0 ? PyLong_AsLong(args[1]) : 0;
    if (PyErr_Occurred() || !is_open(self))
        return NULL;
    if (most <= 0 || most > MAX_CONSUMED || millis < 0 || millis > INT_MAX) {
        PyErr_SetString(PyExc_TypeError, "consume(most: int, milliseconds: int), of records a million at most");
        return NULL;
    }
    if (!self->queue && !(self->queue = rd.queue_get_consumer(self->rk))) {
        PyErr_SetString(PyExc_RuntimeError, "this is no consumer");
        return NULL;
    }
    Batch *batch = PyMem_Malloc(sizeof(Batch) + (size_t)most * sizeof(rd_kafka_message_t *));
    if (!batch)
        return PyErr_NoMemory();
    ssize_t count;
    self->consuming++;
    Py_BEGIN_ALLOW_THREADS
    count = rd.consume_batch_queue(self->queue, (int)millis, batch->messages, (size_t)most);
    Py_END_ALLOW_THREADS
    self->consuming--;
    batch->holders = 1;
    batch->client = Py_NewRef(self);
    self->batches++;
    batch->count = count > 0 ? (size_t)count : 0;
    PyObject *out = grouped(state_of(type)->records, batch);
    batch_free(batch);
    return out;
}

/* -- The module ---------------------------------------------------------------------------------------------------- */

static PyMethodDef client_methods[] = {
    {"busy", (PyCFunction)client_busy, METH_NOARGS, "Whether there are records that were taken from it."},
    {"close", (PyCFunction)client_close, METH_NOARGS, "Let go of what is librdkafka's: before the owner is closed."},
    {"notes", (PyCFunction)client_notes, METH_NOARGS, "Errors since the last time: (code, text, whether it is fatal)."},
    {"failures", (PyCFunction)client_failures, METH_NOARGS,
     "How many deliveries failed, and (code, topic, partition) of the first one since the last time, or None."},
    {"write", (PyCFunction)client_write, METH_O, "Queue records: destination, key, value."},
    {"send", (PyCFunction)client_send, METH_VARARGS, "Queue one record: topic, key, value, headers, milliseconds."},
    {"consume", (PyCFunction)(void (*)(void))client_consume, METH_METHOD | METH_FASTCALL | METH_KEYWORDS,
     "Take at most so many records in so many milliseconds: by split, and errors."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef client_getset[] = {
    {"raw", (getter)client_sink, NULL, "A capsule: where records go in C.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot client_slots[] = {
    {Py_tp_doc, "Client(owner, writer): the ways of a Kafka client that need no object for a record."},
    {Py_tp_dealloc, client_dealloc},
    {Py_tp_traverse, client_traverse},
    {Py_tp_clear, client_clear},
    {Py_tp_new, client_new},
    {Py_tp_methods, client_methods},
    {Py_tp_getset, client_getset},
    {0, NULL},
};
static PyType_Spec client_spec = {
    "ingest.kafka._client.Client", sizeof(Client), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, client_slots,
};

static PyGetSetDef records_getset[] = {
    {"raw", (getter)records_raw, NULL, "A capsule: the records in C.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot records_slots[] = {
    {Py_tp_doc, "Consecutive records of one split."},
    {Py_tp_dealloc, records_dealloc},
    {Py_sq_length, records_length},
    {Py_sq_item, records_item},
    {Py_mp_length, records_length},
    {Py_mp_subscript, records_subscript},
    {Py_tp_getset, records_getset},
    {0, NULL},
};
static PyType_Spec records_spec = {
    "ingest.kafka._client.Records", sizeof(Records), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    records_slots,
};

static PyMethodDef record_methods[] = {
    {"key", (PyCFunction)record_key, METH_NOARGS, "The key's bytes."},
    {"value", (PyCFunction)record_value, METH_NOARGS, "The value's bytes."},
    {"topic", (PyCFunction)record_topic, METH_NOARGS, "The topic."},
    {"partition", (PyCFunction)record_partition, METH_NOARGS, "The partition."},
    {"offset", (PyCFunction)record_offset, METH_NOARGS, "The offset."},
    {"timestamp", (PyCFunction)record_timestamp, METH_NOARGS, "Kind and milliseconds."},
    {"headers", (PyCFunction)record_headers, METH_NOARGS, "Names and values, or None."},
    {"leader_epoch", (PyCFunction)record_leader_epoch, METH_NOARGS, "The epoch of the leader, or None."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot record_slots[] = {
    {Py_tp_doc, "One record."},
    {Py_tp_dealloc, record_dealloc},
    {Py_tp_methods, record_methods},
    {0, NULL},
};
static PyType_Spec record_spec = {
    "ingest.kafka._client.Record", sizeof(Record), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    record_slots,
};

static int module_exec(PyObject *made)
{
    State *state = PyModule_GetState(made);
    state->client = (PyTypeObject *)PyType_FromModuleAndSpec(made, &client_spec, NULL);
    state->records = (PyTypeObject *)PyType_FromModuleAndSpec(made, &records_spec, NULL);
    state->record = (PyTypeObject *)PyType_FromModuleAndSpec(made, &record_spec, NULL);
    if (!state->client || !state->records || !state->record)
        return -1;
    return PyModule_AddObjectRef(made, "Client", (PyObject *)state->client) ||
           PyModule_AddObjectRef(made, "Records", (PyObject *)state->records);
}

static void module_free(void *made)
{
    State *state = PyModule_GetState((PyObject *)made);
    Py_CLEAR(state->client);
    Py_CLEAR(state->records);
    Py_CLEAR(state->record);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_client", "Records from librdkafka and to it.", sizeof(State), NULL, module_slots, NULL, NULL,
    module_free,
};

PyMODINIT_FUNC PyInit__client(void) { return PyModuleDef_Init(&module); }
