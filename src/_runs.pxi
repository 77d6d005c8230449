# How rows are written: run by run over an anchor, past the caches or into them.

# Rows go out as they are, or added to x * scale. Strides in bytes.
cdef struct Target:
    Py_ssize_t stride
    Py_ssize_t x_stride
    double scale
    bint adds
    bint streams

# Rows of consecutive positions over one anchor: `low`, low + 1, ... from it.
cdef struct Run:
    char *out
    const char *x
    double anchor
    Py_ssize_t low
    Py_ssize_t length
    Py_ssize_t next


# `rotate`, past the caches where the stores of all four halves of rows are aligned alike.
cdef void rotate_streaming(real *plus, real *minus, const double *anchor, const double *offset,
                           Py_ssize_t n, bint paired) noexcept nogil:
    cdef Py_ssize_t size = sizeof(real) * (2 if paired else 1)
    cdef Py_ssize_t end = n, other_end = n
    cdef Py_ssize_t first = aligned_range(plus, size, n, &end)
    if (first != aligned_range(minus, size, n, &other_end)
            or (not paired and first != aligned_range(plus + n, size, n, &other_end))):
        first = end = n
    rotate(plus, minus, anchor, offset, n, paired, 0, first)
    if real is float:
        stream_rotate_float(plus, minus, anchor, offset, n, paired, first, end)
    else:
        stream_rotate_double(plus, minus, anchor, offset, n, paired, first, end)
    rotate(plus, minus, anchor, offset, n, paired, end, n)


cdef inline void add_scaled(real *restrict out, const real *restrict x, const real *restrict row,
                            real scale, Py_ssize_t first, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(first, end):
        out[j] = x[j] * scale + row[j]


cdef inline void add_scaled_in_place(real *restrict x, const real *restrict row, real scale,
                                     Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(size):
        x[j] = x[j] * scale + row[j]


# out = x * scale + row, for a row or for several that are contiguous everywhere.
cdef void add_row(real *out, const real *x, const real *row, Py_ssize_t size,
                  const Target *target) noexcept nogil:
    cdef real scale = <real> target.scale
    cdef Py_ssize_t first, end = size
    if out == x:
        add_scaled_in_place(out, row, scale, size)
    elif target.streams:
        first = aligned_range(out, sizeof(real), size, &end)
        add_scaled(out, x, row, scale, 0, first)
        if real is float:
            stream_add_float(out, x, row, scale, first, end)
        else:
            stream_add_double(out, x, row, scale, first, end)
        add_scaled(out, x, row, scale, end, size)
    else:
        add_scaled(out, x, row, scale, 0, size)


# The rows of a run, two mirrored ones at a time.
cdef void write_run(const Run *run, Encoder *e, const Target *target,
                    real *spill) noexcept nogil:
    cdef const double *anchor = anchor_row(e, run.anchor)
    cdef const double *offset
    cdef Py_ssize_t low = run.low, high = run.low + run.length - 1
    cdef Py_ssize_t d = 2 * e.n, k
    cdef real *plus
    cdef real *minus
    cdef bint up, down
    for k in range(max(low, -high, 0), max(high, -low) + 1):
        offset = e.table + d * k
        up = low <= k <= high
        down = 0 < k and low <= -k <= high
        plus = minus = spill
        if target.adds:
            minus = spill + d
        else:
            if up:
                plus = <real *> (run.out + (k - low) * target.stride)
            if down:
                minus = <real *> (run.out - (k + low) * target.stride)
        if k == 0:
            place(plus, anchor, e.n, e.paired)
        elif anchor == e.table and not down:
            place(plus, offset, e.n, e.paired)
        elif target.streams and not target.adds:
            rotate_streaming(plus, minus, anchor, offset, e.n, e.paired)
        else:
            rotate(plus, minus, anchor, offset, e.n, e.paired, 0, e.n)
        if target.adds:
            if up:
                add_row(<real *> (run.out + (k - low) * target.stride),
                        <const real *> (run.x + (k - low) * target.x_stride), plus, d, target)
            if down:
                add_row(<real *> (run.out - (k + low) * target.stride),
                        <const real *> (run.x - (k + low) * target.x_stride), minus, d, target)


cdef inline double at(const double *positions, double start, Py_ssize_t row) noexcept nogil:
    return start + row if positions is NULL else positions[row]


# The longest run from `row` on.
cdef inline void find_run(Run *run, const double *positions, double start, Py_ssize_t row,
                          Py_ssize_t count) noexcept nogil:
    cdef double position = at(positions, start, row)
    cdef double anchor = anchor_of(position)
    run.anchor = anchor
    run.low = <Py_ssize_t> (position - anchor)
    run.length = 1
    while row + run.length < count:
        position = at(positions, start, row + run.length)
        if position - anchor != run.low + run.length or anchor_of(position) != anchor:
            return
        run.length += 1


# `count` rows, run by run.
cdef void write_rows(char *out, Encoder *e, const Target *target, const double *positions,
                     double start, Py_ssize_t count, real *spill) noexcept nogil:
    cdef Run run
    cdef Py_ssize_t row = 0
    run.x = NULL
    while row < count:
        find_run(&run, positions, start, row, count)
        run.out = out + row * target.stride
        write_run(&run, e, target, spill)
        row += run.length


# Runs over one anchor after one another, so that it is made once: `heads` begins a chain, of which
# Run.next are the links, for each of `size` hashes of an anchor.
cdef void write_window(Run *runs, Py_ssize_t count, Py_ssize_t *heads, Encoder *e,
                       const Target *target, real *spill) noexcept nogil:
    cdef Py_ssize_t size = 1, i, head
    while size < count:
        size *= 2
    for i in range(size):
        heads[i] = -1
    for i in range(count - 1, -1, -1):
        head = (<int64_t> runs[i].anchor // NEAR) & (size - 1)
        runs[i].next = heads[head]
        heads[head] = i
    for i in range(count):
        head = (<int64_t> runs[i].anchor // NEAR) & (size - 1)
        while heads[head] >= 0:
            write_run(&runs[heads[head]], e, target, spill)
            heads[head] = runs[heads[head]].next
