/* The hot loop's common case in C: messages in, records of keyed rows out.

   A message goes through here only if it is plainly right: JSON without doubt, a known table, values that fit their
   columns. Whatever is not -- drift, dirt, a shape that is rare -- is left to the Python code, which is the rule book:
   `take` stops before such a message. So what is here may always say "not me" and must never be more lenient than Python
   is. tests/property/test_native.py compares the two.

   One call at a time: a worker has one thread that does this. The GIL is held throughout, but while a plan is made or a
   sink has no room; who comes in then is refused (`enter`). Nothing is kept between calls but what the objects hold, and
   counters until `settle`.

   _json.h reads texts, _tables.h checks and writes rows, _typed.h reads values whose types the messages tell, _messages.h
   finds their tables, _lanes.h is the way of a message to records, which _layout.h puts together where they are no mere
   rows; _handover.h takes rows apart for expressions, and _answers.h makes records of what comes back. They are one unit
   to the compiler. */

#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE /* memmem */
#include <Python.h>

#include "_answers.h"
#include "_lanes.h"

static PyMethodDef table_methods[] = {
    {"answer", (PyCFunction)table_answer, METH_VARARGS, "Let rows be made of results, by a program."},
    {"feed", (PyCFunction)table_feed, METH_VARARGS, "Let rows go to expressions, by a program."},
    {"lay_out", (PyCFunction)table_lay_out, METH_VARARGS, "Let records be put together of pieces."},
    {"ready", (PyCFunction)table_ready, METH_O, "Where its records go that pass expressions by."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot table_slots[] = {
    {Py_tp_doc, "How rows of one table are checked and written; made from the schemas of both sides."},
    {Py_tp_dealloc, table_dealloc},
    {Py_tp_new, table_new},
    {Py_tp_methods, table_methods},
    {0, NULL},
};
static PyType_Spec table_spec = {"ingest.native._native.Table", sizeof(Table), 0, Py_TPFLAGS_DEFAULT, table_slots};

static int module_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    PyObject *table = PyType_FromModuleAndSpec(module, &table_spec, NULL);
    PyObject *lane = PyType_FromModuleAndSpec(module, &lane_spec, NULL);
    PyObject *rows = PyType_FromModuleAndSpec(module, &rows_spec, NULL);
    PyObject *saying = PyType_FromModuleAndSpec(module, &saying_spec, NULL);
    state->key = PyUnicode_InternFromString("key");
    state->value = PyUnicode_InternFromString("value");
    state->offset = PyUnicode_InternFromString("offset");
    state->raw = PyUnicode_InternFromString("raw");
    state->inserted = PyUnicode_InternFromString("inserted");
    state->updated = PyUnicode_InternFromString("updated");
    state->deleted = PyUnicode_InternFromString("deleted");
    if (!table || !lane || !rows || !saying || !state->key || !state->value || !state->offset || !state->raw ||
        !state->inserted || !state->updated || !state->deleted)
        return -1;
    state->table_type = (PyTypeObject *)table;
    state->rows_type = (PyTypeObject *)rows;
    state->saying_type = (PyTypeObject *)saying;
    if (PyModule_AddObjectRef(module, "Rows", rows) || PyModule_AddObjectRef(module, "Table", table) ||
        PyModule_AddObjectRef(module, "Lane", lane) || PyModule_AddObjectRef(module, "Saying", saying))
        return -1;
    Py_DECREF(lane);
    return 0;
}

static void module_free(void *module)
{
    State *state = PyModule_GetState((PyObject *)module);
    Py_CLEAR(state->table_type);
    Py_CLEAR(state->rows_type);
    Py_CLEAR(state->saying_type);
    Py_CLEAR(state->key);
    Py_CLEAR(state->value);
    Py_CLEAR(state->offset);
    Py_CLEAR(state->raw);
    Py_CLEAR(state->inserted);
    Py_CLEAR(state->updated);
    Py_CLEAR(state->deleted);
    count_touched(state, false);
    PyMem_Free(state->touched);
    PyMem_Free(state->scratch);
    PyMem_Free(state->row);
    PyMem_Free(state->made);
}

static PyMethodDef module_methods[] = {
    {"drain", drain, METH_VARARGS,
     "Put the records of rows[start:] with results in `out`; where that ends, and what was counted."},
    {"settle", settle, METH_NOARGS, "Tell the plans what was counted since the last time."},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_native", "The hot loop's common case.", sizeof(State), module_methods, module_slots, NULL, NULL,
    module_free,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&module); }
