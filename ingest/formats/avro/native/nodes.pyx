# cython: language_level=3, boundscheck=False, wraparound=False
"""A schema as a list of nodes; see nodes.pxd."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free

cdef enum:
    MOST_BITS = 64


cdef class AvroNodes:
    """The nodes of one schema, from `AvroNodeSpec`s; raises ValueError or TypeError where they do not fit each other."""

    def __cinit__(self, nodes):
        cdef AvroNode *node
        self.spec = nodes = tuple(nodes)
        self.nodes = <AvroNode *> PyMem_Calloc(<size_t> len(nodes) + 1, sizeof(AvroNode))
        if not self.nodes:
            raise MemoryError
        self.count = len(nodes)
        for i, spec in enumerate(nodes):
            self.fill(&self.nodes[<int> i], spec)
        if not self.count or (self.nodes[0].codec != AVRO_RECORD and self.nodes[0].codec != AVRO_UNION):
            raise ValueError("the first node is neither a record nor a union")

    cdef int fill(self, AvroNode *node, object spec) except -1:
        """Fill a node; raises ValueError or TypeError."""
        cdef Py_ssize_t places = len(spec.nodes), texts = len(spec.texts), most = max(places, texts)
        cdef Py_ssize_t i
        node.codec, node.first, node.second, node.size = spec.codec, spec.first, spec.second, spec.size
        node.nodes = <int *> PyMem_Calloc(<size_t> most + 1, sizeof(int))
        node.texts = <Text *> PyMem_Calloc(<size_t> most + 1, sizeof(Text))
        if not node.nodes or not node.texts:
            raise MemoryError
        for i in range(places):
            node.nodes[i] = spec.nodes[i]
            if not 0 <= node.nodes[i] < self.count:
                raise ValueError("a place of no node")
        for i in range(texts):
            text = spec.texts[i]
            if type(text) is not bytes:
                raise TypeError("a text that is not bytes")
            node.texts[i].text, node.texts[i].size = PyBytes_AS_STRING(text), <size_t> PyBytes_GET_SIZE(text)
        node.count = <int> most
        self.check(node, places, texts)
        return 0

    cdef int check(self, const AvroNode *node, Py_ssize_t places, Py_ssize_t texts) except -1:
        cdef bint inner = node.codec >= <int> AVRO_RECORD
        if not 0 <= node.codec < <int> AVRO_CODECS:
            raise ValueError("no such codec")
        if (node.codec == AVRO_RECORD and places != texts) or (node.codec == AVRO_UNION and places < 1):
            raise ValueError("a record without names, or a union without branches")
        if (node.codec == AVRO_ARRAY or node.codec == AVRO_MAP) and places != 1:
            raise ValueError("an array or a map has one node")
        if not inner and places:
            raise ValueError("a value with other values in it")
        if (node.codec == AVRO_INTEGER and not 1 <= node.first <= MOST_BITS) or node.size < -1:
            raise ValueError("numbers that there are not")
        if (node.codec == AVRO_TIME or node.codec == AVRO_MOMENT) and node.first < 1:
            raise ValueError("no unit")
        if node.codec == AVRO_RECORD and node.first < 0:
            raise ValueError("members fewer than none")
        if node.codec == AVRO_DECIMAL and node.first < 1:
            raise ValueError("no digits")
        return 0

    def __dealloc__(self):
        cdef int i
        if self.nodes:
            for i in range(self.count):
                PyMem_Free(self.nodes[i].nodes)
                PyMem_Free(self.nodes[i].texts)
        PyMem_Free(self.nodes)
