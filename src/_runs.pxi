# How rows are written: run by run over an anchor, past the caches or into them.

# Rows go out as they are, or added to x * scale, or in two parts, of which x is the second: cosines
# and sines, each twice. As `real` or as halves of that. Strides in bytes.
cdef struct Target:
    Py_ssize_t stride
    Py_ssize_t x_stride
    double scale
    bint adds
    bint streams
    bint parts
    bint paired
    Format format

# Rows of consecutive positions over one anchor: `low`, low + 1, ... from it. What they are added to
# lies x_stride apart from x on, or where there are ids that many times x_stride from x on. Where
# they are not to be encoded, rows are x * scale.
cdef struct Run:
    char *out
    const char *x
    const int64_t *ids
    double anchor
    Py_ssize_t low
    Py_ssize_t length
    Py_ssize_t next
    bint encodes


cdef inline const char *x_of(const Run *run, Py_ssize_t row,
                             const Target *target) noexcept nogil:
    # an id is that of a row of x: `within` of _arrays.py
    return run.x + (row if run.ids is NULL else run.ids[row]) * target.x_stride


cdef inline void add_scaled(real *restrict out, const real *restrict x, const real *restrict row,
                            real scale, Py_ssize_t first, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(first, end):
        out[j] = x[j] * scale + row[j]


cdef inline void add_scaled_in_place(real *restrict x, const real *restrict row, real scale,
                                     Py_ssize_t first, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(first, end):
        x[j] = x[j] * scale + row[j]


# Elements `first` to `end` of out = x * scale + row.
cdef inline void add_part(real *out, const real *x, const real *row, real scale,
                          Py_ssize_t first, Py_ssize_t end) noexcept nogil:
    if out == x:
        add_scaled_in_place(out, row, scale, first, end)
    else:
        add_scaled(out, x, row, scale, first, end)


# out = x * scale + row, for a row or for several that are contiguous everywhere; `next` will be
# read after x.
cdef void add_row(char *out, const char *x, const char *next, const real *row, Py_ssize_t size,
                  const Target *target) noexcept nogil:
    cdef real scale = <real> target.scale
    cdef Range done
    done.first = done.end = 0
    if real is float and target.format == FLOAT16:
        add_float16(<uint16_t *> out, <const uint16_t *> x, row, scale, size)
        return
    if real is float and target.format == BFLOAT16:
        add_bfloat16(<uint16_t *> out, <const uint16_t *> x, row, scale, size)
        return
    if target.streams and out != x:
        if real is float:
            done = stream_add_float(<real *> out, <const real *> x, next, row, scale, size)
        else:
            done = stream_add_double(<real *> out, <const real *> x, next, row, scale, size)
    add_part(<real *> out, <const real *> x, row, scale, 0, done.first)
    add_part(<real *> out, <const real *> x, row, scale, done.end, size)


# out = x * scale.
cdef void scale_row(char *out, const char *x, real scale, Py_ssize_t size,
                    const Target *target) noexcept nogil:
    if target.format == FLOAT16:
        scale_float16(<uint16_t *> out, <const uint16_t *> x, <float> scale, size)
    elif target.format == BFLOAT16:
        scale_bfloat16(<uint16_t *> out, <const uint16_t *> x, <float> scale, size)
    elif real is float:
        scale_float(<real *> out, <const real *> x, scale, size)
    else:
        scale_double(<real *> out, <const real *> x, scale, size)


# The columns of a row that wait in `spill`.
cdef void add_spilled(const Row *row, const real *spill, Py_ssize_t first, Py_ssize_t end,
                      const Encoder *e, real scale) noexcept nogil:
    cdef real *out = <real *> row.out
    cdef const real *x = <const real *> row.x
    if e.paired:
        add_part(out, x, spill, scale, 2 * first, 2 * end)
    else:
        add_part(out, x, spill, scale, first, end)
        add_part(out, x, spill, scale, e.n + first, e.n + end)


# Columns `first` to `end` of what `turn` writes, one by one.
cdef void turn_part(const Row *plus, const Row *minus, const double *anchor, const double *offset,
                    Py_ssize_t first, Py_ssize_t end, const Encoder *e, const Target *target,
                    real *spill) noexcept nogil:
    cdef real *to = spill
    cdef real *other = spill + 2 * e.n
    if first == end:
        return
    if not target.adds and plus is not NULL:
        to = <real *> plus.out
    if not target.adds and minus is not NULL:
        other = <real *> minus.out
    if offset is NULL:
        place(to, anchor, e.n, e.paired, first, end)
    else:
        rotate(to, other, anchor, offset, e.n, e.paired, first, end)
    if target.adds and plus is not NULL:
        add_spilled(plus, to, first, end, e, <real> target.scale)
    if target.adds and minus is not NULL:
        add_spilled(minus, other, first, end, e, <real> target.scale)


# The row `offset` after an anchor's and the one before it, as far as they are wanted (not NULL);
# without an offset the anchor's.
cdef void turn(const Row *plus, const Row *minus, const double *anchor, const double *offset,
               const Encoder *e, const Target *target, real *spill) noexcept nogil:
    cdef Range done
    if real is float:
        done = turn_float(plus, minus, anchor, offset, e.n, <float> target.scale, e.paired,
                          target.streams)
    else:
        done = turn_double(plus, minus, anchor, offset, e.n, target.scale, e.paired,
                           target.streams)
    turn_part(plus, minus, anchor, offset, 0, done.first, e, target, spill)
    turn_part(plus, minus, anchor, offset, done.end, e.n, e, target, spill)


# The same by way of `spill`: in halves, which are added to in float and else rounded from double,
# and in parts.
cdef void turn_spilled(const Row *plus, const Row *minus, const double *anchor,
                       const double *offset, const Encoder *e, const Target *target,
                       real *spill) noexcept nogil:
    cdef Target whole = target[0]
    cdef Row to[2]
    cdef const Row *wanted[2]
    cdef Py_ssize_t d = 2 * e.n, i
    whole.adds = whole.streams = False
    wanted[0], wanted[1] = plus, minus
    for i in range(2):
        to[i].out = <char *> (spill + i * d)
        to[i].x = NULL
    turn(&to[0] if plus is not NULL else NULL, &to[1] if minus is not NULL else NULL, anchor,
         offset, e, &whole, spill + 2 * d)
    for i in range(2):
        if wanted[i] is NULL:
            continue
        if real is float and target.adds:
            add_row(wanted[i].out, wanted[i].x, wanted[i].next, spill + i * d, d, target)
        elif target.parts:
            write_parts(wanted[i].out, <char *> wanted[i].x, spill + i * d, e.n, target)
        else:
            round_row(wanted[i].out, spill + i * d, d, target)


# A row in halves of double.
cdef inline void round_row(char *out, const real *row, Py_ssize_t size,
                           const Target *target) noexcept nogil:
    if real is double and target.format == FLOAT16:
        round_float16(<uint16_t *> out, row, size)
    elif real is double:
        round_bfloat16(<uint16_t *> out, row, size)


# The sines of a row and then its cosines, each twice; halves of it are made where it stands.
cdef void write_parts(char *cosines, char *sines, real *row, Py_ssize_t n,
                      const Target *target) noexcept nogil:
    cdef Py_ssize_t size = n * (sizeof(real) if target.format == NATIVE else sizeof(uint16_t))
    cdef char *values = <char *> row
    if target.format != NATIVE:
        round_row(<char *> (row + 4 * n), row, 2 * n, target)
        values = <char *> (row + 4 * n)
    write_twice(sines, values, n, size, target.paired)
    write_twice(cosines, values + size, n, size, target.paired)


cdef inline void write_twice(char *out, const char *values, Py_ssize_t n, Py_ssize_t size,
                             bint paired) noexcept nogil:
    if not paired:
        memcpy(out, values, size)
        memcpy(out + size, values, size)
    elif size == n * <Py_ssize_t> sizeof(uint16_t):
        repeat_paired_16(<uint16_t *> out, <const uint16_t *> values, n)
    elif size == n * <Py_ssize_t> sizeof(uint32_t):
        repeat_paired_32(<uint32_t *> out, <const uint32_t *> values, n)
    else:
        repeat_paired_64(<uint64_t *> out, <const uint64_t *> values, n)


# The rows of a run, two mirrored ones at a time; `next` is what will be read after them.
cdef void write_run(const Run *run, const char *next, Encoder *e, const Target *target,
                    real *spill) noexcept nogil:
    cdef const double *anchor
    cdef const double *origin
    cdef const double *offset
    cdef Py_ssize_t low = run.low, high = run.low + run.length - 1
    cdef Py_ssize_t last = max(high, -low), k
    cdef Row plus, minus
    cdef const Row *up
    cdef const Row *down
    if not run.encodes:
        for k in range(run.length):
            scale_row(run.out + k * target.stride, x_of(run, k, target), <real> target.scale,
                      2 * e.n, target)
        return
    anchor = anchor_row(e, run.anchor)
    plus.x = minus.x = NULL
    for k in range(max(low, -high, 0), last + 1):
        offset = e.offsets + 2 * e.n * k  # k < NEAR: `anchor_of`, by which runs end in `find_run`
        up = &plus if low <= k <= high else NULL
        down = &minus if 0 < k and low <= -k <= high else NULL
        plus.out = run.out + (k - low) * target.stride
        minus.out = run.out - (k + low) * target.stride
        if (target.adds or target.parts) and up is not NULL:
            plus.x = x_of(run, k - low, target)
            plus.next = x_of(run, k + 1 - low, target) if k < high else next
        if (target.adds or target.parts) and down is not NULL:
            minus.x = x_of(run, -k - low, target)
            minus.next = x_of(run, -k - 1 - low, target) if low < -k else next
        origin = anchor
        if k == 0 or (anchor == e.table and down is NULL):
            origin = e.table + 2 * e.n * k if anchor == e.table else anchor
            offset = NULL
        if target.format == NATIVE and not target.parts:
            turn(up, down, origin, offset, e, target, spill)
        else:
            turn_spilled(up, down, origin, offset, e, target, spill)


cdef inline double at(const double *positions, double start, Py_ssize_t row) noexcept nogil:
    return start + row if positions is NULL else positions[row]


# The longest run from `row` on, of those that are encoded or of those that are not.
cdef inline void find_run(Run *run, const double *positions, double start, const uint8_t *mask,
                          Py_ssize_t row, Py_ssize_t count) noexcept nogil:
    cdef double position = at(positions, start, row)
    cdef double anchor = anchor_of(position)
    cdef Py_ssize_t next
    run.anchor = anchor
    run.low = <Py_ssize_t> (position - anchor)
    run.length = 1
    run.encodes = mask is NULL or mask[row] != 0
    for next in range(row + 1, count):
        if mask is not NULL and run.encodes != (mask[next] != 0):
            return
        if run.encodes:
            position = at(positions, start, next)
            if position - anchor != run.low + run.length or anchor_of(position) != anchor:
                return
        run.length += 1


# `count` rows, run by run.
cdef void write_rows(char *out, const char *x, Encoder *e, const Target *target,
                     const double *positions, double start, Py_ssize_t count,
                     real *spill) noexcept nogil:
    cdef Run run
    cdef Py_ssize_t row = 0
    run.ids = NULL
    while row < count:
        find_run(&run, positions, start, NULL, row, count)
        run.out = out + row * target.stride
        run.x = x + row * target.x_stride
        write_run(&run, run.x + run.length * target.x_stride, e, target, spill)
        row += run.length


# Runs over one anchor after one another, so that it is made once: `heads` begins a chain, of which
# Run.next are the links, for each of `size` hashes of an anchor.
cdef void write_window(Run *runs, Py_ssize_t count, Py_ssize_t *heads, Encoder *e,
                       const Target *target, real *spill) noexcept nogil:
    cdef Py_ssize_t size = 1, i, head, next
    cdef const Run *run
    while size < count:  # so size < 2 * count, for which `prepare` has room in `heads`
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
            run = &runs[heads[head]]
            heads[head] = run.next
            next = run.next if run.next >= 0 else min(i + 1, count - 1)
            write_run(run, x_of(&runs[next], 0, target), e, target, spill)
