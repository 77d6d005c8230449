# How pairs of columns are turned: by rows of their sines and then their cosines.

cdef extern from "_pairs.h" nogil:
    void turn_split_float(float *, const float *, const float *, const float *, Py_ssize_t n)
    void turn_split_double(double *, const double *, const double *, const double *, Py_ssize_t n)
    void turn_paired_float(float *, const float *, const float *, const float *, Py_ssize_t n)
    void turn_paired_double(double *, const double *, const double *, const double *, Py_ssize_t n)


cdef inline void turn_columns(real *out, const real *x, const real *row, Py_ssize_t n,
                              bint paired) noexcept nogil:
    if real is float:
        if paired:
            turn_paired_float(out, x, row, row + n, n)
        else:
            turn_split_float(out, x, row, row + n, n)
    else:
        if paired:
            turn_paired_double(out, x, row, row + n, n)
        else:
            turn_split_double(out, x, row, row + n, n)


# The first 2 * n columns of a row; halves in float, for which there is room in `wide`.
cdef inline void turn_row(char *out, const char *x, const real *row, Py_ssize_t n, bint paired,
                          Format format, real *wide) noexcept nogil:
    if real is float and format == FLOAT16:
        widen_float16(wide, <const uint16_t *> x, 2 * n)
        turn_columns(wide, wide, row, n, paired)
        narrow_float16(<uint16_t *> out, wide, 2 * n)
    elif real is float and format == BFLOAT16:
        widen_bfloat16(wide, <const uint16_t *> x, 2 * n)
        turn_columns(wide, wide, row, n, paired)
        narrow_bfloat16(<uint16_t *> out, wide, 2 * n)
    else:
        turn_columns(<real *> out, <const real *> x, row, n, paired)


# Past the caches, rows are made in `scratch`, which holds one.
cdef void turn_block(const Block *out, const Block *x, const Block *rows, bint paired,
                     Format format, real *wide, char *scratch) noexcept nogil:
    cdef Py_ssize_t size = out.width * out.itemsize, turned = rows.width * out.itemsize
    cdef Py_ssize_t each = out.items // max(rows.items, 1), item, row
    cdef const char *source
    cdef char *target
    cdef char *made
    for item in range(out.items):
        for row in range(out.rows):
            source = row_of(x, item, row)
            target = <char *> row_of(out, item, row)
            made = target if scratch is NULL or target == source else scratch
            turn_row(made, source, <const real *> row_of(rows, item // each, row),
                     rows.width // 2, paired, format, wide)
            if turned < size and made != source:
                memcpy(made + turned, source + turned, size - turned)
            if made != target:
                stream_copy(target, made, source + AHEAD, size)


def turn_pairs(cnp.ndarray out not None, cnp.ndarray x not None, cnp.ndarray rows not None,
               bint paired, bint stream):
    cdef Block to, source, by
    cdef Format format = format_of(out)
    cdef bint double
    cdef size_t row
    cdef void *memory
    cdef void *wide
    cdef char *scratch
    check_out("out", out)
    check_out("rows", rows)
    check_rows("x", x, cnp.PyArray_DIM(out, 0), cnp.PyArray_DIM(out, 1), cnp.PyArray_DIM(out, 2),
               cnp.PyArray_TYPE(out))
    to, source, by = block_of(out), block_of(x), block_of(rows)
    if not (by.rows == to.rows and by.width <= to.width and by.items and to.items % by.items == 0
            and cnp.PyArray_TYPE(rows) == (
                cnp.NPY_FLOAT64 if cnp.PyArray_TYPE(out) == cnp.NPY_FLOAT64 else cnp.NPY_FLOAT32)):
        refuse("rows")
    double = by.itemsize == sizeof(double)
    row = whole_lines(to.width * to.itemsize)
    memory = malloc(LINE + row + by.width * sizeof(float))
    if memory is NULL:
        raise MemoryError("posenc: no memory for a row of scratch")
    scratch = <char *> whole_lines(<size_t> memory)
    wide = scratch + row
    if not stream:
        scratch = NULL
    with nogil:
        if double:
            turn_block(&to, &source, &by, paired, format, <double *> wide, scratch)
        else:
            turn_block(&to, &source, &by, paired, format, <float *> wide, scratch)
        if stream:
            stream_fence()
    free(memory)


def tables(cnp.ndarray cosines not None, cnp.ndarray sines not None, double start,
           cnp.ndarray positions, encoder, bint paired):
    cdef Arrays arrays
    cdef Target target
    check_out("sines", sines)
    check_sums(cosines, sines, None, positions, None)
    arrays = arrays_of(cosines, sines, None, start, positions, None)
    target = target_of(cosines, sines, &arrays, False, 1.0)
    target.adds = False
    target.parts = True
    target.paired = paired
    write_to(cosines, &arrays, &target, encoder, frequencies_of(encoder))
