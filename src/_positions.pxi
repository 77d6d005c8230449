# How tokens are counted: positions in packed and in padded sequences.

# Both C-contiguous; what is counted by has the dtype of that number.
cdef int check_counts(cnp.ndarray out, cnp.ndarray by, int dtype) except -1:
    if not (is_of(out, cnp.NPY_INT64) and cnp.PyArray_ISCARRAY(out) and is_of(by, dtype)
            and cnp.PyArray_ISCARRAY_RO(by)):
        refuse("out")
    return 0


def runs(cnp.ndarray out not None, cnp.ndarray lengths not None):
    cdef int64_t *to = <int64_t *> cnp.PyArray_DATA(out)
    cdef const int64_t *length = <const int64_t *> cnp.PyArray_DATA(lengths)
    cdef Py_ssize_t count = cnp.PyArray_SIZE(lengths), i
    cdef int64_t k, total = 0
    check_counts(out, lengths, cnp.NPY_INT64)
    for i in range(count):
        total += length[i]
    if total != cnp.PyArray_SIZE(out):
        refuse("lengths")
    with nogil:
        for i in range(count):
            for k in range(length[i]):
                to[k] = k
            to += length[i]


def segments(cnp.ndarray out not None, cnp.ndarray begins not None):
    cdef int64_t *to = <int64_t *> cnp.PyArray_DATA(out)
    cdef const uint8_t *begin = <const uint8_t *> cnp.PyArray_DATA(begins)
    cdef Py_ssize_t size = cnp.PyArray_SIZE(out), i
    cdef int64_t position = 0
    check_counts(out, begins, cnp.NPY_BOOL)
    if cnp.PyArray_SIZE(begins) != size:
        refuse("begins")
    with nogil:
        for i in range(size):
            position = 0 if begin[i] else position + 1
            to[i] = position


def counts(cnp.ndarray out not None, cnp.ndarray keep not None, int64_t base, int64_t pad):
    cdef int64_t *to = <int64_t *> cnp.PyArray_DATA(out)
    cdef const uint8_t *kept = <const uint8_t *> cnp.PyArray_DATA(keep)
    cdef Py_ssize_t size = cnp.PyArray_SIZE(out)
    cdef Py_ssize_t length = cnp.PyArray_DIM(out, cnp.PyArray_NDIM(out) - 1), first, i
    cdef int64_t beyond
    check_counts(out, keep, cnp.NPY_BOOL)
    if cnp.PyArray_SIZE(keep) != size:
        refuse("keep")
    with nogil:
        for first from 0 <= first < size by length:
            beyond = base - pad
            for i in range(first, first + length):
                beyond += kept[i]
                # without a branch: pads with holes between them would be mispredicted
                to[i] = pad + (beyond & -<int64_t> kept[i])
