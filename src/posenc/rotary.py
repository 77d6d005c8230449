"""Rotary position embeddings: `Rotary`, which turns pairs of columns of queries and keys."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, SupportsIndex, get_args

import numpy as np
import numpy.typing as npt

from . import _arrays, _backend, _frequencies, _rope_config, _workers
from ._encoder import Encoder

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Layout = Literal["half", "interleaved"]

# Bytes of a tile of sines and cosines, which turns every item of a batch while it is in cache.
_TILE = 1 << 18
# Axes of positions that there may be.
_MOST_AXES = 64
# Rows over one anchor, which a tile should not part.
_ROWS = 64


@dataclass(frozen=True)
class Rotary:
    """Rotary position embeddings of one width, prepared for hot loops.

    At position p, pair i of the first `dim` columns turns by the angle ``p * base^(-2i/dim)``, as in
    section 3.4.2 of Su et al., "RoFormer" (arXiv:2104.09864): ``(a, b)`` becomes
    ``(a * cos - b * sin, b * cos + a * sin)``.

    An instance is frozen, hashable and picklable. There is no longest sequence, and no state: what
    a call returns depends on its arguments alone.

    Parameters
    ----------
    dim : int
        Number of columns that turn: even, 2 or more.
    base : float or None, default 10000.0
        Finite and positive, as in `posenc.Sinusoidal`; None where there are `frequencies`.
    layout : {'half', 'interleaved'}, default 'half'
        Pair i is columns i and ``dim / 2 + i``, as in GPT-NeoX and most of transformers, or columns
        2i and ``2i + 1``, as in the paper, GPT-J and most of Llama's own code. Weights made for one
        of them are nonsense in the other.
    frequencies : array_like of int or float, shape (dim / 2,), optional
        Angular frequencies instead of those of `base`, taken as exact. As an attribute they are
        always there: an array of float64 that is read-only.
    attention : float, default 1.0
        Factor on sines and cosines, finite and positive: YaRN's magnitude.
    axes : array_like of int, shape (dim / 2,), optional
        Which of several positions turns each pair, counted from 0: time, height and width in
        multimodal models. Then `positions` have an axis for them in front.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `dim` is odd or less than 2, `layout` is not one of the two, or another argument is out
        of its bounds.

    Examples
    --------
    >>> import numpy as np
    >>> import posenc
    >>> rotary = posenc.Rotary(4)
    >>> cos, sin = rotary.tables(2)
    >>> sin
    array([[0.        , 0.        , 0.        , 0.        ],
           [0.84147098, 0.00999983, 0.84147098, 0.00999983]])
    >>> queries = np.ones((8, 2, 4), dtype=np.float32)     # heads, length, width
    >>> rotary.rotate(queries)[0].astype(np.float64).round(4)
    array([[ 1.    ,  1.    ,  1.    ,  1.    ],
           [-0.3012,  0.99  ,  1.3818,  1.0099]])
    >>> rotary.rotate(queries[:, -1:], start=77, out=queries[:, -1:]).shape    # one more token
    (8, 1, 4)
    """

    dim: int
    base: float | None = field(default=10000.0, kw_only=True)
    layout: Layout = field(default="half", kw_only=True)
    frequencies: Any = field(default=None, kw_only=True, repr=False, compare=False)
    attention: float = field(default=1.0, kw_only=True)
    axes: Any = field(default=None, kw_only=True)

    # What compares and pickles in place of the array.
    _given: tuple[float, ...] | None = field(init=False, repr=False)
    _paired: bool = field(init=False, repr=False, compare=False)
    _encoder: Encoder = field(init=False, repr=False, compare=False)
    _parts: tuple[tuple[Array, Encoder], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        dim = _arrays.integer("dim", self.dim, least=1)
        if dim % 2:
            raise ValueError(f"dim must be even, columns turn in pairs, got {dim}")
        put("dim", dim)
        _arrays.choice("layout", self.layout, get_args(Layout))
        put("_paired", self.layout == "interleaved")
        put("attention", _arrays.finite("attention", self.attention, positive=True))
        given, base = self.frequencies, self.base
        if given is None or (base is not None and _is_plain(given, base, dim // 2)):
            if base is None:
                raise ValueError("base must be given where frequencies are not, got None")
            put("base", _arrays.finite("base", base, positive=True))
            put("_given", None)
            schedule = _frequencies.geometric(self.base, dim // 2)
            put("frequencies", _fixed(_frequencies.radians(self.base, dim // 2)))
        else:
            if base is not None and base != 10000.0:
                raise ValueError(f"base must be None where frequencies are given, got {base}")
            own = _arrays.vector("frequencies", given)
            if len(own) != dim // 2:
                raise ValueError(f"frequencies must have shape ({dim // 2},), got ({len(own)},)")
            put("base", None)
            put("_given", own)
            schedule = _frequencies.explicit(own)
            put("frequencies", _fixed(own))
        put("axes", None if self.axes is None else _pairs_axes(self.axes, dim // 2))
        put("_encoder", _frequencies.written(schedule, paired=False, amplitude=self.attention))
        put("_parts", tuple(self._split(schedule)))

    def _split(self, schedule: _frequencies.Schedule) -> Iterator[tuple[Array, Encoder]]:
        """For each axis of positions the pairs that it turns, and what makes their rows."""
        if self.axes is not None:
            for axis in range(max(self.axes) + 1):
                pairs = np.flatnonzero(np.equal(self.axes, axis))
                part = _frequencies.part(schedule, pairs)
                yield pairs, _frequencies.written(part, paired=False, amplitude=self.attention)

    def __reduce__(self) -> tuple[Callable[[], "Rotary"], tuple[()]]:
        # Without what is prepared: it is made anew where the instance is unpickled.
        make = functools.partial(
            type(self),
            self.dim,
            base=self.base,
            layout=self.layout,
            frequencies=self._given,
            attention=self.attention,
            axes=self.axes,
        )
        return make, ()

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        *,
        layer_type: str | None = None,
        head_dim: SupportsIndex | None = None,
        max_position_embeddings: SupportsIndex | None = None,
        rope_theta: float | None = None,
        seq_len: SupportsIndex | None = None,
        layout: Layout | None = None,
    ) -> "Rotary":
        """The rotation of a model in Hugging Face transformers: its own, or a ValueError.

        What the class of the config's ``model_type`` fills in is filled in, as transformers 5.24
        has it: widths, partial factors, thetas, the layout and the order of the axes. Without a
        ``model_type``, or with one that is not known, the keys alone are read.

        Parameters
        ----------
        config : mapping
            The whole of a ``config.json``; or ``config.rope_parameters``, best with the
            ``model_type``: ``{**config.rope_parameters, "model_type": ...}``. Of a model of several
            parts ``text_config`` is read. ``rope_type`` is one of default, linear, dynamic, yarn,
            longrope (also called su), llama3, proportional and axial. A ``rope_scaling`` stands
            above ``rope_parameters``, but for the theta, the partial factor and the sections, in
            which both must agree. Values that are null say nothing.
        layer_type : str, optional
            Which layers, where these have parameters of their own: ``"full_attention"``.
        head_dim, max_position_embeddings, rope_theta : number, optional
            Those of the model, above what the config says. The width and the theta are needed
            always, the length where the type scales by it.
        seq_len : int, optional
            Length of the sequence, for dynamic and longrope; by default that of the training. The
            result depends on nothing that was asked for before.
        layout : {'half', 'interleaved'}, optional
            By default the model's: that of its class or of ``rope_interleave``, as in DeepSeek, and
            'half' where neither is known.

        Returns
        -------
        Rotary
            With the frequencies of `ROPE_INIT_FUNCTIONS` in transformers 5.24, in float64, and its
            attention factor; two equal ``mscale`` of yarn cancel, as there and in DeepSeek's own
            code. Of latent attention it is the rotation of the ``qk_rope_head_dim`` columns.

        Raises
        ------
        TypeError
            If `config` is no mapping, or a value of it has the wrong type.
        ValueError
            If ``rope_type`` is unknown, keys are missing, contradict one another or are out of
            their bounds, or the model turns as no `Rotary` does. So it is for a key that is not
            understood: any in the rope parameters, and beside them those with rope, mrope, rotary,
            theta, yarn or ntk for a word. ``attn_factor`` is one, as libraries differ on it. The
            key is named.

        Examples
        --------
        >>> import posenc
        >>> config = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
        >>> posenc.Rotary.from_config(config, head_dim=4).frequencies
        array([0.25  , 0.0025])
        """
        if not isinstance(config, Mapping):
            raise TypeError(f"config must be a mapping, got {type(config).__name__}")
        given = {
            "head_dim": head_dim,
            "max_position_embeddings": max_position_embeddings,
            "rope_theta": rope_theta,
            "seq_len": seq_len,
        }
        given = {key: value for key, value in given.items() if value is not None}
        rope = _rope_config.from_config(config, given, layer_type)
        return cls(
            rope.dim,
            base=rope.base,
            layout=rope.layout if layout is None else layout,
            frequencies=rope.frequencies,
            attention=rope.attention,
            axes=rope.axes,
        )

    def tables(
        self,
        length: SupportsIndex | None = None,
        *,
        start: SupportsIndex = 0,
        positions: npt.ArrayLike | None = None,
        dtype: npt.DTypeLike | None = None,
        out: tuple[Array, Array] | None = None,
    ) -> tuple[Array, Array]:
        """Cosines and sines, each twice as the layout says, for rotations that are done elsewhere.

        Parameters
        ----------
        length : int, optional
            Number of positions; may be left out where `positions` say it.
        start : int, default 0
            Position of the first row.
        positions : array_like of bool, int or float, shape (...), optional
            Any positions instead, as in `posenc.encode`; with `axes` of shape (axes, ...).
        dtype : {float64, float32, float16, bfloat16}, optional
            That of `out`, else float64.
        out : two ndarrays of `dtype`, shape (length, dim) or (..., dim), optional
            Where to put cosines and sines, on the terms of `posenc.fill`.

        Returns
        -------
        cos, sin : ndarray of `dtype`, shape (length, dim) or (..., dim)
            Times `attention`: made in float64 and rounded once. `out`, or fresh arrays.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If `length` is negative or not that of `positions`, these come with a `start`, or are
            out of the bounds of `posenc.encode`, or `out` has another shape or cannot be written
            in place. Nothing has been written then.
        """
        wanted = None if dtype is None else _arrays.float_dtype(dtype)
        rows = 0
        if positions is None:
            rows = _arrays.integer("length", length, least=0)  # type: ignore[arg-type]
        first, where = self._places(start, positions, rows)
        shape = where[0].shape if where else (rows,)
        if length is not None and shape[-1:] != (_arrays.integer("length", length),):
            raise ValueError(f"length must be that of positions, got {length} for shape {shape}")
        plain, given = self._outputs(out, (*shape, self.dim), wanted)
        if not shape:
            plain = [array[np.newaxis] for array in plain]
            where = [array[np.newaxis] for array in where]
        plain = [_arrays.plain_halves(array) for array in plain]
        batches: list[Any] = _arrays.batches(max(len(shape) - 1, 0), *plain, *where)

        def work(batch: int, items: slice, rows: slice) -> None:
            cos, sin, *at = (array[items, rows] for array in batches[batch])
            if len(at) < 2:  # without positions, those of all axes are the same
                begin, own = first + rows.start, at[0] if at else None
                _backend.kernels.tables(cos, sin, begin, own, self._encoder, self._paired)
            else:
                self._tables_of_axes(cos, sin, at)

        if plain[0].size:
            items, count, width = batches[0][0].shape
            size = 2 * width * plain[0].itemsize
            _workers.run(work, (len(batches), items, count), size, 1)
        return given

    def _tables_of_axes(self, cos: Array, sin: Array, at: Sequence[Floats]) -> None:
        for where, (pairs, encoder) in zip(at, self._parts, strict=True):
            count = pairs.size
            if not count:
                continue
            cosines, sines = (
                _arrays.empty((*cos.shape[:2], 2 * count), cos.dtype) for _ in range(2)
            )
            _backend.kernels.tables(cosines, sines, 0.0, where, encoder, False)
            for table, values in ((cos, cosines), (sin, sines)):
                for column in range(2):
                    columns = 2 * pairs + column if self._paired else pairs + column * self.dim // 2
                    table[..., columns] = values[..., :count]

    def rotate(
        self,
        x: npt.ArrayLike,
        *,
        start: SupportsIndex = 0,
        positions: npt.ArrayLike | None = None,
        out: Array | None = None,
        inverse: bool = False,
        workers: SupportsIndex = 1,
    ) -> Array:
        """Queries or keys with their first `dim` columns turned, in one pass over memory.

        Parameters
        ----------
        x : array_like of float64, float32, float16 or bfloat16, shape (..., length, width)
            Of any strides, byte order or alignment, read-only or not. Columns from `dim` on stay
            as they are. Where heads come after the length, ``x.swapaxes(1, 2)`` is as fast.
        start : int, default 0
            Position of the first row of every sequence.
        positions : array_like of bool, int or float, shape (length,) or (..., length), optional
            Positions of the rows instead: one axis for all sequences, or all axes of `x` but the
            last, of which those that lead broadcast: (batch, 1, length) where there are heads. With
            `axes`, an axis for them comes in front.
        out : ndarray, shape and dtype of `x`, optional
            Where to put the result, on the terms of `posenc.fill`; ``out=x`` works in place.
        inverse : bool, default False
            Turn back. `attention` is not undone, but comes on top once more.
        workers : int, default 1
            Number of threads, as in `posenc.add`.

        Returns
        -------
        ndarray, shape and dtype of `x` (in native byte order)
            `out`, or a fresh array. It has the bits of ``x1 * cos - x2 * sin`` and
            ``x2 * cos + x1 * sin`` in NumPy, with the `tables` of the dtype of `x`; in 16 bits, of
            that in float32 and rounded once.

        Raises
        ------
        TypeError
            If `x` is of none of the four dtypes, `inverse` no bool, or `out` not an array of the
            dtype of `x`.
        ValueError
            If `x` has less than two axes or `dim` columns, `positions` do not fit it or come with a
            `start`, or `out` has another shape, overlaps `x` in part or cannot be written in place.
            Nothing has been written then.
        """
        x = _arrays.addend(x)
        if x.shape[-1] < self.dim:
            raise ValueError(f"x must have last axis {self.dim} or more, got shape {x.shape}")
        first, where = self._places(start, positions, x.shape[-2])
        spread = [_spread_over(x.shape[:-1], each) for each in where]
        inverse = _arrays.boolean("inverse", inverse)
        threads = _workers.count(workers)
        out, plain, x = _arrays.beside(x, out)
        if not plain.size:
            return out
        plain, x = _arrays.plain_halves(plain), _arrays.plain_halves(x)
        dtype = _arrays.working(plain.dtype)
        batches, each = _batches(plain, x, where, spread)
        stream = _arrays.streams(plain)

        def work(batch: int, items: slice, rows: slice) -> None:
            to, source, *whole = batches[batch]
            at = [every[items, rows] for every in whole]
            count, begin = items.stop - items.start, items.start
            for some, piece, tile in self._tiles(count, rows, dtype, first, at):
                if inverse:
                    sines = tile[..., : self.dim // 2]
                    np.negative(sines, out=sines)
                served = slice(each * (begin + some.start), each * (begin + some.stop))
                _backend.kernels.turn_pairs(
                    to[served, piece], source[served, piece], tile, self._paired, stream
                )

        items, length, width = batches[0][0].shape
        shape = len(batches), items // each, length
        _workers.run(work, shape, each * width * plain.itemsize, threads)
        return out

    def _places(
        self, start: SupportsIndex, positions: npt.ArrayLike | None, length: int
    ) -> tuple[float, list[Floats]]:
        """The checked position of the first row, and positions for each axis or none."""
        first, where = _arrays.places(start, positions, length, self._encoder.limit)
        if where is None:
            return first, []
        if self.axes is None:
            return first, [where]
        if not where.ndim or len(where) < len(self._parts):
            raise ValueError(
                f"positions must have shape ({len(self._parts)} or more, ...), one for each of the axes, "
                f"got shape {where.shape}"
            )
        return first, list(where[: len(self._parts)])

    def _outputs(
        self, out: tuple[Array, Array] | None, shape: tuple[int, ...], dtype: np.dtype[Any] | None
    ) -> tuple[list[Array], tuple[Array, Array]]:
        """Two arrays to write to, and the same as they came."""
        if out is None:
            wanted = dtype or np.dtype(np.float64)
            out = _arrays.empty(shape, wanted), _arrays.empty(shape, wanted)
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise TypeError(f"out must be two arrays, for cosines and sines, got {out!r}")
        cos, sin = out
        first = _arrays.output(cos, shape, dtype)
        second = _arrays.output(sin, shape, first.dtype)
        if _arrays.overlap(first, second):
            raise ValueError("out must be two arrays that share no memory")
        return [first, second], (cos, sin)

    def _tiles(
        self, count: int, rows: slice, dtype: np.dtype[Any], start: float, at: Sequence[Floats]
    ) -> Iterator[tuple[slice, slice, Array]]:
        """Some of `count` items, some of `rows`, and the sines and cosines of their positions.

        Where all items have the same positions it is one for all of them.
        """
        shared = count == 1 or all(each.strides[0] == 0 for each in at)
        row_bytes = self.dim * dtype.itemsize
        step = max(_TILE // row_bytes // _ROWS * _ROWS, _ROWS)
        length = rows.stop - rows.start
        together = count if shared else max(_TILE // (min(step, length) * row_bytes), 1)
        for piece in _workers.slices(length, step):
            for items in _workers.slices(count, together):
                some = slice(1) if shared else items
                of_rows = [each[some, piece] for each in at]
                size = (1 if shared else items.stop - items.start, piece.stop - piece.start)
                first = rows.start + piece.start
                tile = self._rows(size, dtype, start + first, of_rows)
                yield items, slice(first, rows.start + piece.stop), tile

    def _rows(
        self, shape: tuple[int, int], dtype: np.dtype[Any], start: float, at: Sequence[Floats]
    ) -> Array:
        """Sines and then cosines of the pairs, times `attention`, rounded once."""
        rows = _arrays.empty((*shape, self.dim), dtype)
        if len(at) < 2:  # without positions, those of all axes are the same
            _fill(rows, start, at[0] if at else None, self._encoder)
        else:
            for where, (pairs, encoder) in zip(at, self._parts, strict=True):
                if pairs.size:
                    part = _arrays.empty((*shape, 2 * pairs.size), dtype)
                    _fill(part, start, where, encoder)
                    rows[..., pairs] = part[..., : pairs.size]
                    rows[..., self.dim // 2 + pairs] = part[..., pairs.size :]
        return rows


def _is_plain(frequencies: Any, base: float, count: int) -> bool:
    """Whether these are the attribute of a rotation by `base`, as `dataclasses.replace` hands on."""
    return isinstance(frequencies, np.ndarray) and np.array_equal(
        frequencies, _frequencies.radians(base, count)
    )


def _fixed(values: npt.ArrayLike) -> Floats:
    """An array that nobody can change."""
    return np.frombuffer(np.asarray(values, np.float64).tobytes())


def _fill(rows: Array, start: float, at: Floats | None, encoder: Encoder) -> None:
    _backend.kernels.fill(_arrays.plain_halves(rows), start, at, encoder, False)


def _batches(
    out: Array, x: Array, positions: list[Floats], spread: list[Floats]
) -> tuple[list[Any], int]:
    """As `_arrays.batches`, and how many items in turn the same positions serve there."""
    lead = out.ndim - 2
    batches: list[Any] = _arrays.batches(lead, out, x, *spread)
    whole: list[Any] = _arrays.batches(lead, out, x)
    if len(batches) == len(whole):
        return batches, 1
    # Heads often share positions that differ from one sequence to the next.
    shape = (1,) * (out.ndim - 1 - positions[0].ndim) + positions[0].shape[:-1]
    own = next((axis for axis in range(lead, 0, -1) if shape[axis - 1] != 1), 0)
    if shape[:own] != out.shape[:own]:
        return batches, 1
    merged = [each.reshape(-1, each.shape[-1]) for each in positions]
    return [(*whole[0], *merged)], math.prod(out.shape[own:-2])


def _spread_over(rows: tuple[int, ...], positions: Floats) -> Floats:
    if positions.ndim not in (1, len(rows)):
        raise ValueError(
            f"positions must have one axis, or all of x but the last, here {len(rows)}, "
            f"got shape {positions.shape}"
        )
    return _arrays.spread("positions", positions, rows)


def _pairs_axes(values: npt.ArrayLike, count: int) -> tuple[int, ...]:
    axes = _arrays.integers("axes", values)
    if axes.shape != (count,):
        raise ValueError(f"axes must have shape ({count},), one for each pair, got {axes.shape}")
    if not (axes.min() >= 0 and axes.max() < _MOST_AXES):
        wrong = axes[(axes < 0) | (axes >= _MOST_AXES)][0]
        raise ValueError(f"axes must be at least 0 and below {_MOST_AXES}, got {wrong}")
    return tuple(map(int, axes))
