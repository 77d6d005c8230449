# Positions of tokens in packed and in padded sequences.

# Both C-contiguous, with an axis or more; `by`, which says how to count, has the dtype of that
# number.
cdef int check_counts(cnp.ndarray out, cnp.ndarray by, int dtype) except -1:
    if not (is_of(out, cnp.NPY_INT64) and cnp.PyArray_ISCARRAY(out) and is_of(by, dtype)
            and cnp.PyArray_ISCARRAY_RO(by) and cnp.PyArray_NDIM(out) > 0):
        refuse("out")
    return 0


cdef void count_lengths(int64_t *out, const int64_t *lengths, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t k
    for i in range(count):
        for k in range(lengths[i]):
            out[k] = k
        out += lengths[i]


cdef void count_from(int64_t *out, const uint8_t *begins, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t position = 0
    for i in range(size):
        position = 0 if begins[i] else position + 1
        out[i] = position


cdef void count_kept_rows(int64_t *out, const uint8_t *keep, Py_ssize_t size, Py_ssize_t length,
                          int64_t base, int64_t pad) noexcept nogil:
    cdef Py_ssize_t first, i
    cdef int64_t beyond
    for first from 0 <= first < size by length:
        beyond = base - pad
        for i in range(first, first + length):
            beyond += keep[i]
            # without a branch, which would be mispredicted where padding is scattered
            out[i] = pad + (beyond & -<int64_t> keep[i])
