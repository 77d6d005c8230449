"""The sinusoidal encoding: `Sinusoidal`, and the module-level calls over a cached one."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Literal, SupportsIndex, cast, get_args

import numpy as np
import numpy.typing as npt

from . import (
    _arrays,
    _backend,
    _checks,
    _formats,
    _frequencies,
    _fused_add,
    _pieces,
    _planner,
    _recent,
)
from ._plan import Plan

Array = npt.NDArray[Any]
Layout = Literal["interleaved", "split"]
Odd = Literal["error", "trim", "ceil", "zero"]
# Keywords that say what the frequencies are, as `frequencies` does.
_OF_FREQUENCIES = ("base", "shift", "odd", "freq_scale")

# The keywords of a convention, in the order of the fields, and their conversion to Python's own types.
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "base": lambda base: _checks.finite("base", base, positive=True),
    "shift": lambda shift: _checks.finite("shift", shift),
    "odd": lambda odd: _checks.choice("odd", odd, get_args(Odd)),
    "freq_scale": lambda scale: _checks.finite("freq_scale", scale, positive=True),
    "layout": lambda layout: _checks.choice("layout", layout, get_args(Layout)),
    "cos_first": lambda cos_first: _checks.boolean("cos_first", cos_first),
    "amplitude": lambda by: _checks.finite("amplitude", by) + 0.0,  # -0.0 is 0.0
    "frequencies": lambda of: None if of is None else _arrays.as_vector("frequencies", of),
}


def _converted(convention: dict[str, Any]) -> dict[str, Any]:
    return {name: _CONVERSIONS[name](value) for name, value in convention.items()}


class Source:
    """The rows of a convention: a `_fused_add.Source`."""

    dtype: None = None

    def __init__(self, width: int, plan: Plan) -> None:
        self.width = width
        self.plan = plan

    @property
    def nbytes(self) -> int:
        return self.plan.nbytes

    @property
    def kernel(self) -> Callable[..., None]:
        return _backend.kernels.add

    @property
    def operand(self) -> Plan:
        return self.plan

    def as_positions(self, positions: npt.ArrayLike) -> Array:
        return _arrays.as_positions(positions, self.plan.max_position)

    def resolve(
        self, start: int, positions: Array | None, rows: tuple[int, ...], of: str
    ) -> tuple[float, Array | None]:
        if positions is None:
            return _arrays.check_start(start, rows[-1], self.plan.max_position, of), None
        return 0.0, _arrays.check_broadcast("positions", positions, rows)

    def gathered(self) -> dict[str, Array]:
        return {}

    def table(
        self,
        length: SupportsIndex,
        start: SupportsIndex,
        dtype: npt.DTypeLike,
        workers: SupportsIndex,
    ) -> Array:
        rows = _checks.integer("length", length, least=0)
        first = _checks.integer("start", start)
        begin = _arrays.check_start(first, rows, self.plan.max_position)
        threads = _pieces.count(workers)
        out = _arrays.empty((rows, self.width), _formats.float_dtype(dtype))
        self.write(out, begin, None, threads)
        return out

    def fill(self, out: Array, start: SupportsIndex, workers: SupportsIndex) -> Array:
        first = _checks.integer("start", start)
        threads = _pieces.count(workers)
        # No code but ours and NumPy's from here on.
        plain = _arrays.output(out)
        if _arrays.last_axis("out", plain) != self.width:
            raise ValueError(
                f"out must have last axis {self.width}, got shape {_checks.shown(plain.shape)}"
            )
        begin = _arrays.check_start(first, plain.shape[-2], self.plan.max_position, "out")
        self.write(plain, begin, None, threads)
        return out

    def encode(
        self,
        positions: npt.ArrayLike,
        dtype: npt.DTypeLike | None,
        out: Array | None,
        workers: SupportsIndex,
    ) -> Array:
        wanted = None if dtype is None else _formats.float_dtype(dtype)
        where = self.as_positions(positions)
        _arrays.few_axes("positions", where)
        threads = _pieces.count(workers)
        # No code but ours and NumPy's from here on.
        out, plain = _arrays.result(out, (*where.shape, self.width), wanted, "positions")
        if not where.ndim:
            plain, where = plain[np.newaxis], where[np.newaxis]
        self.write(plain, 0.0, where, threads)
        return out

    def write(
        self, out: Array, start: float, positions: npt.NDArray[np.float64] | None, workers: int
    ) -> None:
        """``out = PE``, of arguments that were checked."""
        kernel = functools.partial(
            _backend.kernels.fill,
            _formats.kernel_bits(out),
            start,
            positions,
            self.plan,
            _arrays.use_streaming_stores(out),
        )
        _pieces.run(kernel, *_arrays.rows_of(out), workers)


@dataclass(frozen=True, repr=False)
class Sinusoidal:
    """A sinusoidal positional encoding of one width, prepared for hot loops.

    ``PE(p, 2i) = sin(p / base^(2i/d_model))`` and ``PE(p, 2i+1) = cos(p / base^(2i/d_model))``, as
    in section 3.5 of Vaswani et al., "Attention Is All You Need" (arXiv:1706.03762). The keywords
    give the variants in use: with D the number of pairs,

        ``amplitude * (sin | cos)(p * freq_scale * base^(-i / (D - shift)))``

    or any `frequencies`. `preset` has the variants of frameworks by name.

    An instance is frozen, hashable and picklable. It holds a plan of 96 rows in float64, which is
    shared between instances of the conventions used last. There is no longest sequence: rows are
    computed when a call needs them, and the row of a position has the same bits in every call.

    Parameters
    ----------
    d_model : int
        Width of the encoding: even, unless `odd` says more, and at most 65536.
    base : float, default 10000.0
        Finite and positive. The wavelengths grow from 2*pi towards 2*pi*base. The bounds on the
        error are promised for bases from 1 to 1e100; below about 0.64 the positions that can still
        be resolved end before 2**53, and those beyond are a `ValueError`.
    shift : float, default 0.0
        Finite. With 1.0 the slowest frequency is ``freq_scale / base`` itself. Where D is not
        larger, all frequencies are `freq_scale`.
    odd : {'error', 'trim', 'ceil', 'zero'}, default 'error'
        What to do with an odd `d_model`. 'trim': the last cosine is left out, and D is d_model/2.
        'ceil': the same, but D is the number of pairs, (d_model + 1)/2. 'zero': the last column is
        0, and D is (d_model - 1)/2.
    freq_scale : float, default 1.0
        Finite and positive, a factor on all frequencies: ``2*pi`` for full turns.
    layout : {'interleaved', 'split'}, default 'interleaved'
        ``sin, cos, sin, cos, ...`` as in the paper, or all sines and then all cosines.
    cos_first : bool, default False
        Whether cosines come where the sines would.
    amplitude : float, default 1.0
        Finite, a factor on every entry, applied in float64.
    frequencies : array_like of float64, shape (d_model / 2,), optional
        Angular frequencies, taken as exact, instead of `base`, `shift`, `odd` and `freq_scale`.

    Raises
    ------
    TypeError
        If `d_model` is not an integer, `cos_first` no bool, or a number not real.
    ValueError
        If `d_model` is less than 1, more than 65536, or odd where `odd` says nothing of it, a number is
        out of its bounds, `odd` or `layout` is none of those named, or `frequencies` have another
        shape, are not finite, or come with a keyword that they replace.

    Examples
    --------
    >>> import numpy as np
    >>> import posenc
    >>> encoding = posenc.Sinusoidal(6)
    >>> encoding.table(4).round(4)
    array([[ 0.    ,  1.    ,  0.    ,  1.    ,  0.    ,  1.    ],
           [ 0.8415,  0.5403,  0.0464,  0.9989,  0.0022,  1.    ],
           [ 0.9093, -0.4161,  0.0927,  0.9957,  0.0043,  1.    ],
           [ 0.1411, -0.99  ,  0.1388,  0.9903,  0.0065,  1.    ]])
    >>> posenc.Sinusoidal(6, base=500.0, layout="split")
    Sinusoidal(d_model=6, base=500.0, layout='split')
    >>> posenc.Sinusoidal(5, odd="zero").table(2).round(4)
    array([[0.    , 1.    , 0.    , 1.    , 0.    ],
           [0.8415, 0.5403, 0.01  , 1.    , 0.    ]])
    """

    d_model: int
    base: float = field(default=10000.0, kw_only=True)
    shift: float = field(default=0.0, kw_only=True)
    odd: Odd = field(default="error", kw_only=True)
    freq_scale: float = field(default=1.0, kw_only=True)
    layout: Layout = field(default="interleaved", kw_only=True)
    cos_first: bool = field(default=False, kw_only=True)
    amplitude: float = field(default=1.0, kw_only=True)
    # kept as a tuple of floats
    frequencies: npt.ArrayLike | None = field(default=None, kw_only=True)

    _source: Source = field(init=False, compare=False)

    def __post_init__(self) -> None:
        width = _checks.integer("d_model", self.d_model, 1, _checks.MOST_COLUMNS)
        given = {name: getattr(self, name) for name in _CONVERSIONS}
        for name, value in {"d_model": width, **_converted(given)}.items():
            object.__setattr__(self, name, value)
        frequencies = self._geometric() if self.frequencies is None else self._explicit()

        def prepare() -> Source:
            interleaved = self.layout == "interleaved"
            plan = _planner.make_plan(frequencies(), interleaved, self.cos_first, self.amplitude)
            return Source(self.d_model, plan)

        key = _key(self.d_model, self._convention())
        object.__setattr__(self, "_source", _recent.get(key, prepare))

    def _geometric(self) -> Callable[[], _frequencies.QuarterTurns]:
        d_model, odd = self.d_model, self.d_model % 2
        if odd and self.odd == "error":
            raise ValueError(
                f"d_model must be even, sines and cosines come in pairs, got {d_model}; "
                "odd= has other rules"
            )
        pairs = d_model // 2 if self.odd == "zero" else (d_model + 1) // 2
        if not pairs:
            raise ValueError(f"d_model must be at least 2 where odd='zero', got {d_model}")
        divisor = d_model / 2 if self.odd in ("trim", "error") else pairs
        arguments = (self.base, pairs, divisor, self.shift, self.freq_scale)
        return functools.partial(_frequencies.geometric, *arguments)

    def _explicit(self) -> Callable[[], _frequencies.QuarterTurns]:
        frequencies = cast(tuple[float, ...], self.frequencies)
        for name in _OF_FREQUENCIES:
            if getattr(self, name) != _DEFAULTS[name]:
                raise ValueError(f"frequencies stand for {name} too, got both")
        if 2 * len(frequencies) != self.d_model:
            raise ValueError(
                f"frequencies must be half of d_model = {self.d_model}, got {len(frequencies)}"
            )
        return functools.partial(_frequencies.explicit, frequencies)

    def _convention(self) -> dict[str, Any]:
        """The keywords that are not the default."""
        keywords = {name: getattr(self, name) for name in _CONVERSIONS}
        return {name: value for name, value in keywords.items() if value != _DEFAULTS[name]}

    def __repr__(self) -> str:
        shown = {"d_model": self.d_model, **self._convention()}
        return f"Sinusoidal({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def __reduce__(self) -> tuple[Callable[[], "Sinusoidal"], tuple[()]]:
        # Without the plan, which is made again where the instance is unpickled.
        return functools.partial(type(self), self.d_model, **self._convention()), ()

    def __setstate__(self, state: object) -> None:
        raise TypeError("Sinusoidal takes no state: it is unpickled by its arguments")

    @classmethod
    def preset(cls, name: str, d_model: SupportsIndex, **overrides: Any) -> "Sinusoidal":
        """The encoding of a framework, by its name.

        Parameters
        ----------
        name : str
            One of `posenc.presets`, which says what each is. A preset holds the formula alone:
            neither where its framework begins to count nor what it does with padding.
        d_model : int
            Width of the encoding.
        **overrides
            Keywords of `Sinusoidal` that replace those of the preset.

        Raises
        ------
        ValueError
            If there is no such preset; and as `Sinusoidal` does.

        Examples
        --------
        >>> import posenc
        >>> posenc.Sinusoidal.preset("fairseq", 7)
        Sinusoidal(d_model=7, shift=1.0, odd='zero', layout='split')
        """
        from . import _presets  # here, as few ask for it

        width = _checks.integer("d_model", d_model, 1, _checks.MOST_COLUMNS)
        _check_keywords(cls.preset, overrides)
        keywords = _presets.convention(name, width)
        if overrides.get("frequencies") is not None:
            keywords = {key: keywords[key] for key in keywords if key not in _OF_FREQUENCIES}
        return cls(width, **{**keywords, **overrides})

    def table(
        self,
        length: SupportsIndex,
        *,
        start: SupportsIndex = 0,
        dtype: npt.DTypeLike = np.float64,
        workers: SupportsIndex = 1,
    ) -> Array:
        """A new table of consecutive positions: `posenc.positional_encoding`, prepared."""
        return self._source.table(length, start, dtype, workers)

    def fill(self, out: Array, *, start: SupportsIndex = 0, workers: SupportsIndex = 1) -> Array:
        """Fill `out` in place and return it: `posenc.fill`, prepared."""
        return self._source.fill(out, start, workers)

    def encode(
        self,
        positions: npt.ArrayLike,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        workers: SupportsIndex = 1,
    ) -> Array:
        """The rows of any positions: `posenc.encode`, prepared."""
        return self._source.encode(positions, dtype, out, workers)

    def add(
        self,
        x: npt.ArrayLike,
        *,
        start: SupportsIndex = 0,
        positions: npt.ArrayLike | None = None,
        mask: npt.ArrayLike | None = None,
        scale: float = 1.0,
        out: Array | None = None,
        workers: SupportsIndex = 1,
    ) -> Array:
        """``x * scale + PE`` in one pass: `posenc.add`, prepared."""
        source = self._source
        # A small call without faults, as of one token, is checked and done in the kernel. Of odd widths
        # a plan alone does not say which is right.
        if (
            positions is None
            and mask is None
            and not source.width % 2
            and _backend.kernels.try_add_small(out, x, start, scale, workers, source.plan)
        ):
            return cast(Array, out)
        return _fused_add.add(source, x, start, positions, mask, scale, out, workers)

    def embed(
        self,
        ids: npt.ArrayLike,
        weight: npt.ArrayLike,
        *,
        start: SupportsIndex = 0,
        positions: npt.ArrayLike | None = None,
        mask: npt.ArrayLike | None = None,
        scale: float = 1.0,
        out: Array | None = None,
        workers: SupportsIndex = 1,
    ) -> Array:
        """``weight[ids] * scale + PE`` in one pass: `posenc.embed`, prepared."""
        return _fused_add.embed(
            self._source, ids, "weight", weight, start, positions, mask, scale, out, workers
        )


_DEFAULTS = {f.name: f.default for f in fields(Sinusoidal) if f.kw_only}


def _check_keywords(call: Callable[..., Any], convention: dict[str, Any]) -> None:
    """TypeError where a call's further keywords are not all keywords of a convention."""
    for name in convention:
        if name not in _CONVERSIONS:
            own = [
                parameter.name
                for parameter in inspect.signature(call).parameters.values()
                if parameter.kind is parameter.KEYWORD_ONLY
            ]
            raise TypeError(
                f"{call.__name__}() got an unexpected keyword argument {_checks.shown(name)}; "
                f"it takes {', '.join([*own, *_CONVERSIONS])}"
            )


def converted(call: Callable[..., Any], convention: dict[str, Any]) -> dict[str, Any]:
    """A call's keywords of a convention, each of which is converted once."""
    _check_keywords(call, convention)
    return _converted(convention)


def prepared(
    call: Callable[..., Any], d_model: SupportsIndex, convention: dict[str, Any]
) -> Source:
    """The rows for a call of the module, by its keywords of a convention."""
    keywords = converted(call, convention)
    return source_of(_checks.integer("d_model", d_model, 1, _checks.MOST_COLUMNS), keywords)


def source_of(width: int, keywords: dict[str, Any]) -> Source:
    """The rows of a convention whose keywords are converted."""
    return _recent.get(_key(width, keywords), lambda: Sinusoidal(width, **keywords)._source)


def _key(d_model: int, convention: dict[str, Any]) -> tuple[Any, ...]:
    """The key of a source in `_recent`."""
    others = [
        (name, convention[name])
        for name in _CONVERSIONS
        if name in convention and convention[name] != _DEFAULTS[name]
    ]
    return (Source, d_model, *others)


def positional_encoding(
    length: SupportsIndex,
    d_model: SupportsIndex,
    *,
    start: SupportsIndex = 0,
    dtype: npt.DTypeLike = np.float64,
    workers: SupportsIndex = 1,
    **convention: Any,
) -> Array:
    """A new table of the sinusoidal encodings of consecutive positions.

    ``PE(p, 2i) = sin(p / base^(2i/d_model))`` and ``PE(p, 2i+1) = cos(p / base^(2i/d_model))``
    (Vaswani et al. 2017, arXiv:1706.03762, section 3.5).

    Parameters
    ----------
    length : int
        Number of rows, 0 or more.
    d_model : int
        Number of columns: even unless `odd` says more, 2 to 65536.
    start : int, default 0
        Position of the first row, negative ones included. Row r is the encoding of ``start + r``
        and has the same bits whatever `start` and `length` are.
    dtype : {float64, float32, float16, bfloat16}, default float64
        Every float32 entry is the one nearest to the exact value, but where that lies within 2**-50
        of the middle between two; float64 entries are within 2**-50 of it. float16 and bfloat16
        (of ml_dtypes, or ``"bfloat16"`` where that is installed) are rounded from float64, once.
    workers : int, default 1
        Number of threads, as in `scipy.fft`: negative values count from the number of CPUs (-1 is
        all of them). The result does not depend on it, and no thread outlives the call.
    **convention
        The keywords of `Sinusoidal`: `base`, `layout` and more.

    Returns
    -------
    ndarray of `dtype`, shape (length, d_model)
        Fresh, writeable, C-contiguous, its data aligned to 64 bytes.

    Raises
    ------
    TypeError
        If an argument has the wrong type: a float for a number of rows, a dtype that is no float.
    ValueError
        If `length` is negative, `d_model` less than 2, more than 65536 or odd where `odd` says nothing
        of it, `workers` 0 or beyond the CPUs from below, a position beyond 2**53 in magnitude, or the
        convention out of its bounds.

    Examples
    --------
    >>> import posenc
    >>> posenc.positional_encoding(2, 4)
    array([[0.        , 1.        , 0.        , 1.        ],
           [0.84147098, 0.54030231, 0.00999983, 0.99995   ]])
    """
    source = prepared(positional_encoding, d_model, convention)
    return source.table(length, start, dtype, workers)


def fill(
    out: Array, *, start: SupportsIndex = 0, workers: SupportsIndex = 1, **convention: Any
) -> Array:
    """Fill an array with the encodings of consecutive positions, in place.

    Parameters
    ----------
    out : ndarray of float64, float32, float16 or bfloat16, shape (..., length, d_model)
        Row r of every leading item becomes the encoding of ``start + r``. Native byte order,
        writeable, aligned, unit stride on the last axis; any other strides whose elements do not
        overlap, so a slice of columns or of a packed buffer will do.
    start, workers, **convention
        As in `positional_encoding`.

    Returns
    -------
    ndarray
        `out` itself.

    Raises
    ------
    TypeError
        If `out` is not an array, or its dtype not one of the four.
    ValueError
        If `out` has less than two axes, an odd last axis, or cannot be written in place; and as
        `positional_encoding` does. Nothing has been written then.

    Examples
    --------
    >>> import numpy as np
    >>> import posenc
    >>> batch = np.empty((2, 3, 4), dtype=np.float32)
    >>> posenc.fill(batch, start=7) is batch
    True
    >>> batch[1, 0]
    array([0.6569866 , 0.75390226, 0.06994285, 0.997551  ], dtype=float32)
    """
    width = _arrays.last_axis("out", _arrays.output(out))
    return prepared(fill, width, convention).fill(out, start, workers)


def encode(
    positions: npt.ArrayLike,
    d_model: SupportsIndex,
    *,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    workers: SupportsIndex = 1,
    **convention: Any,
) -> Array:
    """The encodings of any positions: repeated, unordered, negative or fractional.

    Parameters
    ----------
    positions : array_like of bool, int or float
        Finite and at most 2**53 in magnitude. A whole number has the same bits as an integer and as
        a float.
    d_model : int
        Width of the encodings: even, 2 or more.
    dtype : {float64, float32, float16, bfloat16}, optional
        That of `out`, else float64.
    out : ndarray of `dtype`, shape positions.shape + (d_model,), optional
        Where to put the result, on the terms of `fill`.
    workers, **convention
        As in `positional_encoding`.

    Returns
    -------
    ndarray of `dtype`, shape positions.shape + (d_model,)
        `out`, or a fresh array as from `positional_encoding`.

    Raises
    ------
    TypeError
        If `positions` are not real numbers, or `out` not an array of `dtype`.
    ValueError
        If a position is NaN, infinite or beyond 2**53, or `out` has another shape or cannot be
        written in place; and as `positional_encoding` does. Nothing has been written then.

    Examples
    --------
    >>> import posenc
    >>> posenc.encode([-1, 0.5], 4).round(4)
    array([[-0.8415,  0.5403, -0.01  ,  1.    ],
           [ 0.4794,  0.8776,  0.005 ,  1.    ]])
    """
    return prepared(encode, d_model, convention).encode(positions, dtype, out, workers)


def add(
    x: npt.ArrayLike,
    *,
    start: SupportsIndex = 0,
    positions: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
    scale: float = 1.0,
    out: Array | None = None,
    workers: SupportsIndex = 1,
    **convention: Any,
) -> Array:
    """Embeddings with their encodings added, ``x * scale + PE``, in one pass over memory.

    Parameters
    ----------
    x : array_like of float64, float32, float16 or bfloat16, shape (..., length, d_model)
        Embeddings, of any strides, byte order or alignment, read-only or not.
    start : int, default 0
        Position of the first row of every sequence.
    positions : array_like of bool, int or float, shape (..., length), optional
        Positions of the rows instead, as in `encode`: their last axis is that of the sequence,
        their leading axes broadcast to those of `x`.
    mask : array_like of bool, or of integers that are 0 and 1, shape (..., length), optional
        Where it is False the row gets no encoding, ``x * scale``, as fairseq's zero rows for
        padding do. It broadcasts as `positions` do, and moves no position: see
        `posenc.positions.from_mask`.
    scale : float, default 1.0
        Factor on `x`, rounded once to its dtype, in 16 bits to float32: ``sqrt(d_model)`` in the
        paper.
    out : ndarray, shape and dtype of `x`, optional
        Where to put the result, on the terms of `fill`; ``out=x`` works in place.
    workers, **convention
        As in `positional_encoding`.

    Returns
    -------
    ndarray, shape and dtype of `x` (in native byte order)
        `out`, or a fresh array as from `positional_encoding`. It has the bits of
        ``x * x.dtype.type(scale) + positional_encoding(length, d_model, dtype=x.dtype)``; in 16
        bits, of that in float32 and rounded once.

    Raises
    ------
    TypeError
        If `x` is of none of the four, `scale` no real scalar, `mask` neither bool nor integers, or
        `out` not an array of the dtype of `x`.
    ValueError
        If `x` has less than two axes or an odd last one, `positions` or `mask` do not fit `x`,
        `positions` come with a `start`, `mask` has other numbers than 0 and 1, or `out` has another
        shape, overlaps `x` in part or cannot be written in place; and as `positional_encoding`
        does. Nothing has been written then.

    Examples
    --------
    >>> import numpy as np
    >>> import posenc
    >>> tokens = np.ones((1, 2, 4))
    >>> posenc.add(tokens)
    array([[[1.        , 2.        , 1.        , 2.        ],
            [1.84147098, 1.54030231, 1.00999983, 1.99995   ]]])

    Two documents packed into one row, each counting from 0:

    >>> packed = posenc.add(np.zeros((1, 5, 4)), positions=[[0, 1, 2, 0, 1]])
    >>> bool((packed[0, 3:] == packed[0, :2]).all())
    True
    """
    given = _arrays.as_array("x", x)
    width = _arrays.last_axis("x", _arrays.as_embeddings(given))
    source = prepared(add, width, convention)
    return _fused_add.add(source, given, start, positions, mask, scale, out, workers)


def embed(
    ids: npt.ArrayLike,
    weight: npt.ArrayLike,
    *,
    start: SupportsIndex = 0,
    positions: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
    scale: float = 1.0,
    out: Array | None = None,
    workers: SupportsIndex = 1,
    **convention: Any,
) -> Array:
    """Token ids to encoded embeddings, ``weight[ids] * scale + PE``, in one pass over memory.

    Parameters
    ----------
    ids : array_like of int, shape (..., length)
        Rows of `weight`.
    weight : array_like of float64, float32, float16 or bfloat16, shape (rows, d_model)
        Embeddings of all tokens, of any strides, byte order or alignment, read-only or not.
    start, positions, mask, scale, workers, **convention
        As in `add`, whose `x` would be ``weight[ids]``.
    out : ndarray, shape ids.shape + (d_model,), dtype of `weight`, optional
        Where to put the result, on the terms of `fill`.

    Returns
    -------
    ndarray of the dtype of `weight`, shape ids.shape + (d_model,)
        `out`, or a fresh array as from `positional_encoding`: the bits of ``add(weight[ids])``.

    Raises
    ------
    IndexError
        If an id is negative or beyond `weight`; the message has the first such and its index.
    TypeError
        If `ids` are not integers; and as `add` does.
    ValueError
        If `ids` have no axis, `weight` has not two, or `out` shares memory with it; and as `add`
        does. Nothing has been written then.

    Examples
    --------
    >>> import numpy as np
    >>> import posenc
    >>> weight = np.zeros((50, 4), dtype=np.float32)
    >>> posenc.embed([[7, 49, 7]], weight).shape
    (1, 3, 4)
    """
    table = _arrays.as_array("weight", weight)
    width = _arrays.as_table("weight", table).shape[-1]
    source = prepared(embed, width, convention)
    return _fused_add.embed(
        source, ids, "weight", table, start, positions, mask, scale, out, workers
    )
