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
    _cache,
    _checks,
    _formats,
    _frequencies,
    _fused_add,
    _pieces,
    _planner,
)
from ._arrays import Array
from ._plan import Plan

Layout = Literal["interleaved", "split"]
Odd = Literal["error", "trim", "ceil", "zero"]
# Keywords that say what the frequencies are, as `frequencies` does.
_FREQUENCY_KEYWORDS = ("base", "shift", "odd", "freq_scale")

# The keywords of a convention, in the order of the fields, and their conversion to Python types.
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


def _convert(convention: dict[str, Any]) -> dict[str, Any]:
    return {name: _CONVERSIONS[name](value) for name, value in convention.items()}


class Source:
    """The rows of a convention: a `_fused_add.Source`."""

    dtype: None = None

    def __init__(self, width: int, plan: Plan) -> None:
        self.width = width
        self.plan = self.rows = plan

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
        done: Array | None = _backend.kernels.try_table(
            length, start, dtype, workers, self.plan, self.width
        )
        if done is not None:
            return done
        rows = _checks.integer("length", length, least=0)
        first = _checks.integer("start", start)
        begin = _arrays.check_start(first, rows, self.plan.max_position)
        threads = _pieces.thread_count(workers)
        out = _arrays.empty((rows, self.width), _formats.float_dtype(dtype))
        self.write(out, begin, None, threads)
        return out

    def fill(self, out: Array, start: SupportsIndex, workers: SupportsIndex) -> Array:
        done: Array | None = _backend.kernels.try_fill(out, start, workers, self.plan, self.width)
        if done is not None:
            return done
        first = _checks.integer("start", start)
        threads = _pieces.thread_count(workers)
        # No code but ours and NumPy's from here on.
        plain = _arrays.as_output(out)
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
        done: Array | None = _backend.kernels.try_encode(
            out, positions, dtype, workers, self.plan, self.width
        )
        if done is not None:
            return done
        wanted = None if dtype is None else _formats.float_dtype(dtype)
        own_positions = self.as_positions(positions)
        _arrays.check_ndim("positions", own_positions)
        threads = _pieces.thread_count(workers)
        # No code but ours and NumPy's from here on.
        out, plain = _arrays.prepare_out(
            out, (*own_positions.shape, self.width), wanted, "positions"
        )
        if not own_positions.ndim:
            plain, own_positions = plain[np.newaxis], own_positions[np.newaxis]
        self.write(plain, 0.0, own_positions, threads)
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
    """A sinusoidal positional encoding of one width, with the set-up done once.

    ``PE(p, 2i) = sin(p / base^(2i/d_model))`` and ``PE(p, 2i+1) = cos(p / base^(2i/d_model))``, as
    in section 3.5 of Vaswani et al., "Attention Is All You Need" (arXiv:1706.03762). The keywords
    give other variants: with D = d_model/2, pair i of the columns holds

        ``amplitude * (sin | cos)(p * freq_scale * base^(-i / (D - shift)))``

    or the sine and cosine for frequency i of `frequencies`. `preset` returns the variant of a
    framework.

    An instance is immutable, hashable and picklable. It holds 96 precomputed rows in float64, which
    instances of the same convention share where possible. There is no maximum length: other rows
    are computed when a call needs them, and the row of a position has the same bits in every call.

    Parameters
    ----------
    d_model : int
        Width of the encoding, at most 65536. It must be even unless `odd` is given.
    base : float, default 10000.0
        Finite and positive. The wavelengths grow from 2*pi towards 2*pi*base. The error bounds hold
        for bases from 1 to 1e100. For bases below about 0.64, the largest position is less than
        2**53; larger ones raise a `ValueError`.
    shift : float, default 0.0
        Finite. With 1.0 the lowest frequency is exactly ``freq_scale / base``. If D is not larger
        than `shift`, all frequencies are `freq_scale`.
    odd : {'error', 'trim', 'ceil', 'zero'}, default 'error'
        What to do with an odd `d_model`. 'trim': the last cosine is left out, and D is d_model/2.
        'ceil': the same, but D is the number of pairs, (d_model + 1)/2. 'zero': the last column is
        0, and D is (d_model - 1)/2.
    freq_scale : float, default 1.0
        Finite and positive: a factor on all frequencies, such as ``2*pi`` for positions in whole
        turns.
    layout : {'interleaved', 'split'}, default 'interleaved'
        ``sin, cos, sin, cos, ...`` as in the paper, or all sines and then all cosines.
    cos_first : bool, default False
        Whether sines and cosines are exchanged, so that cosines come first.
    amplitude : float, default 1.0
        Finite: a factor on every entry, applied in float64.
    frequencies : array_like of float64, shape (d_model / 2,), optional
        Angular frequencies, taken as exact, in place of `base`, `shift`, `odd` and `freq_scale`.

    Raises
    ------
    TypeError
        If `d_model` is not an integer, `cos_first` is not a bool, or another number is not real.
    ValueError
        If `d_model` is less than 1, more than 65536, or odd while `odd` is 'error'; if a number is
        out of bounds, or `odd` or `layout` is not one of its options; or if `frequencies` have the
        wrong shape, are not finite, or are given together with a keyword that they replace.

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
        width = _checks.integer("d_model", self.d_model, 1, _checks.MAX_COLUMNS)
        given = {name: getattr(self, name) for name in _CONVERSIONS}
        for name, value in {"d_model": width, **_convert(given)}.items():
            object.__setattr__(self, name, value)
        frequencies = self._geometric() if self.frequencies is None else self._explicit()

        def prepare() -> Source:
            interleaved = self.layout == "interleaved"
            plan = _planner.make_plan(frequencies(), interleaved, self.cos_first, self.amplitude)
            return Source(self.d_model, plan)

        key = _key(self.d_model, self._convention())
        object.__setattr__(self, "_source", _cache.get(key, prepare))

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
        for name in _FREQUENCY_KEYWORDS:
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
        # The plan is not pickled: unpickling makes it again.
        return functools.partial(type(self), self.d_model, **self._convention()), ()

    def __setstate__(self, state: object) -> None:
        raise TypeError("Sinusoidal takes no state: it is unpickled by its arguments")

    @classmethod
    def preset(cls, name: str, d_model: SupportsIndex, **overrides: Any) -> "Sinusoidal":
        """Return the encoding of a framework, by name.

        Parameters
        ----------
        name : str
            One of the names in `posenc.presets`, which describes them. A preset gives the formula
            only: not the position of the framework's first token, nor its treatment of padding.
        d_model : int
            Width of the encoding.
        **overrides
            Keywords of `Sinusoidal` that replace those of the preset.

        Raises
        ------
        ValueError
            If there is no such preset; and as for `Sinusoidal`.

        Examples
        --------
        >>> import posenc
        >>> posenc.Sinusoidal.preset("fairseq", 7)
        Sinusoidal(d_model=7, shift=1.0, odd='zero', layout='split')
        """
        from . import _presets  # here, as few ask for it

        width = _checks.integer("d_model", d_model, 1, _checks.MAX_COLUMNS)
        _check_keywords(cls.preset, overrides)
        keywords = _presets.convention(name, width)
        if overrides.get("frequencies") is not None:
            keywords = {key: keywords[key] for key in keywords if key not in _FREQUENCY_KEYWORDS}
        return cls(width, **{**keywords, **overrides})

    def table(
        self,
        length: SupportsIndex,
        *,
        start: SupportsIndex = 0,
        dtype: npt.DTypeLike = np.float64,
        workers: SupportsIndex = 1,
    ) -> Array:
        """Return a new table for consecutive positions, as `posenc.positional_encoding` does."""
        return self._source.table(length, start, dtype, workers)

    def fill(self, out: Array, *, start: SupportsIndex = 0, workers: SupportsIndex = 1) -> Array:
        """Fill `out` in place and return it, as `posenc.fill` does."""
        return self._source.fill(out, start, workers)

    def encode(
        self,
        positions: npt.ArrayLike,
        *,
        dtype: npt.DTypeLike | None = None,
        out: Array | None = None,
        workers: SupportsIndex = 1,
    ) -> Array:
        """Return the encodings of any positions, as `posenc.encode` does."""
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
        """Return ``x * scale + PE``, computed in one pass, as `posenc.add` does."""
        return _fused_add.add(self._source, x, start, positions, mask, scale, out, workers)

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
        """Return ``weight[ids] * scale + PE``, computed in one pass, as `posenc.embed` does."""
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


def convert_keywords(call: Callable[..., Any], convention: dict[str, Any]) -> dict[str, Any]:
    """A call's keywords of a convention, each of which is converted once."""
    _check_keywords(call, convention)
    return _convert(convention)


def source_for(
    call: Callable[..., Any], d_model: SupportsIndex, convention: dict[str, Any]
) -> Source:
    """The rows for a call of the module, by its keywords of a convention."""
    if not convention and type(d_model) is int:
        source: Source | None = _cache.find((Source, d_model))
        if source is not None:
            return source
    keywords = convert_keywords(call, convention)
    return source_of(_checks.integer("d_model", d_model, 1, _checks.MAX_COLUMNS), keywords)


def source_of(width: int, keywords: dict[str, Any]) -> Source:
    """The rows of a convention whose keywords are converted."""
    return _cache.get(_key(width, keywords), lambda: Sinusoidal(width, **keywords)._source)


def _key(d_model: int, convention: dict[str, Any]) -> tuple[Any, ...]:
    """The key of a source in `_cache`."""
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
    """Return a new table of the sinusoidal encodings of consecutive positions.

    ``PE(p, 2i) = sin(p / base^(2i/d_model))`` and ``PE(p, 2i+1) = cos(p / base^(2i/d_model))``
    (Vaswani et al. 2017, arXiv:1706.03762, section 3.5).

    Parameters
    ----------
    length : int
        Number of rows, 0 or more.
    d_model : int
        Number of columns, at most 65536. It must be even unless the keyword `odd` is given.
    start : int, default 0
        Position of the first row, which may be negative. Row r is the encoding of ``start + r``,
        and has the same bits whatever `start` and `length` are.
    dtype : {float64, float32, float16, bfloat16}, default float64
        Every float32 entry is the float32 nearest to the exact value, unless the exact value lies
        within 2**-50 of the midpoint of two; every float64 entry is within 2**-50 of the exact
        value. float16 and bfloat16 are rounded once from float64. bfloat16 is that of ml_dtypes, or
        the string ``"bfloat16"`` where ml_dtypes is installed.
    workers : int, default 1
        Number of threads, as in `scipy.fft`: negative values count from the number of CPUs (-1 is
        all of them). The result does not depend on it, and no thread outlives the call.
    **convention
        The keywords of `Sinusoidal`: `base`, `layout` and so on.

    Returns
    -------
    ndarray of `dtype`, shape (length, d_model)
        A new array: writeable, C-contiguous, with its data aligned to 64 bytes.

    Raises
    ------
    TypeError
        If an argument has the wrong type, such as a float as `length` or an integer `dtype`.
    ValueError
        If `length` is negative; `d_model` is less than 1, more than 65536, or odd while `odd` is
        'error'; `workers` is 0, or negative and beyond the number of CPUs; a position exceeds 2**53
        in magnitude; or a keyword of the convention is out of bounds.

    Examples
    --------
    >>> import posenc
    >>> posenc.positional_encoding(2, 4)
    array([[0.        , 1.        , 0.        , 1.        ],
           [0.84147098, 0.54030231, 0.00999983, 0.99995   ]])
    """
    source = source_for(positional_encoding, d_model, convention)
    return source.table(length, start, dtype, workers)


def fill(
    out: Array, *, start: SupportsIndex = 0, workers: SupportsIndex = 1, **convention: Any
) -> Array:
    """Fill an array with the encodings of consecutive positions, in place.

    Parameters
    ----------
    out : ndarray of float64, float32, float16 or bfloat16, shape (..., length, d_model)
        Row r along the second to last axis becomes the encoding of ``start + r``. The array must be
        writeable and aligned, in native byte order, with unit stride on the last axis and without
        elements that overlap; a slice of columns, or of a packed buffer, is accepted.
    start, workers, **convention
        As in `positional_encoding`.

    Returns
    -------
    ndarray
        `out` itself.

    Raises
    ------
    TypeError
        If `out` is not an array, or its dtype is not one of the four.
    ValueError
        If `out` has fewer than two axes, an odd last axis, or cannot be written in place; and as
        for `positional_encoding`. Nothing has been written if an error is raised.

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
    width = _arrays.usual_width(out) or _arrays.last_axis("out", _arrays.as_output(out))
    return source_for(fill, width, convention).fill(out, start, workers)


def encode(
    positions: npt.ArrayLike,
    d_model: SupportsIndex,
    *,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    workers: SupportsIndex = 1,
    **convention: Any,
) -> Array:
    """Return the encodings of any positions: repeated, unordered, negative or fractional.

    Parameters
    ----------
    positions : array_like of bool, int or float
        Finite, and at most 2**53 in magnitude. The result is the same, to the bit, for a whole
        number given as an integer or as a float.
    d_model : int
        Width of the encodings, as in `positional_encoding`.
    dtype : {float64, float32, float16, bfloat16}, optional
        By default the dtype of `out`, or float64 without `out`.
    out : ndarray of `dtype`, shape positions.shape + (d_model,), optional
        Where to write the result. It must meet the requirements of `fill`.
    workers, **convention
        As in `positional_encoding`.

    Returns
    -------
    ndarray of `dtype`, shape positions.shape + (d_model,)
        `out`, or a new array as from `positional_encoding`.

    Raises
    ------
    TypeError
        If `positions` are not real numbers, or `out` is not an array of `dtype`.
    ValueError
        If a position is NaN, infinite or beyond 2**53 in magnitude, or `out` has the wrong shape or
        cannot be written in place; and as for `positional_encoding`. Nothing has been written if an
        error is raised.

    Examples
    --------
    >>> import posenc
    >>> posenc.encode([-1, 0.5], 4).round(4)
    array([[-0.8415,  0.5403, -0.01  ,  1.    ],
           [ 0.4794,  0.8776,  0.005 ,  1.    ]])
    """
    return source_for(encode, d_model, convention).encode(positions, dtype, out, workers)


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
    """Return embeddings plus encodings, ``x * scale + PE``, computed in one pass over memory.

    Parameters
    ----------
    x : array_like of float64, float32, float16 or bfloat16, shape (..., length, d_model)
        Embeddings, with any strides, byte order or alignment; they may be read-only.
    start : int, default 0
        Position of the first row of every sequence.
    positions : array_like of bool, int or float, shape (..., length), optional
        Position of each row, in place of `start`, as in `encode`. The last axis has the length of
        the sequences; the leading axes broadcast to those of `x`.
    mask : array_like of bool, or of integers that are 0 and 1, shape (..., length), optional
        Where it is False no encoding is added, and the row is ``x * scale``, as padding is in
        fairseq. It broadcasts like `positions`, and does not affect the positions of other rows:
        for these see `posenc.positions.from_mask`.
    scale : float, default 1.0
        Factor on `x`, such as ``sqrt(d_model)`` in the paper. It is rounded once to the dtype of
        `x`, or to float32 if that has 16 bits.
    out : ndarray, shape and dtype of `x`, optional
        Where to write the result. It must meet the requirements of `fill`, and may be `x`.
    workers, **convention
        As in `positional_encoding`.

    Returns
    -------
    ndarray, shape and dtype of `x` (in native byte order)
        `out`, or a new array as from `positional_encoding`. It has the bits of
        ``x * x.dtype.type(scale) + positional_encoding(length, d_model, dtype=x.dtype)``. In 16
        bits it is computed in float32 and rounded once.

    Raises
    ------
    TypeError
        If the dtype of `x` is not one of the four, `scale` is not a real scalar, `mask` is neither
        bool nor integers, or `out` is not an array of the dtype of `x`.
    ValueError
        If `x` has fewer than two axes or an odd last axis; `positions` or `mask` do not broadcast
        to `x`; `positions` are given together with `start`; `mask` has values other than 0 and 1;
        or `out` has the wrong shape, overlaps `x` in part or cannot be written in place; and as for
        `positional_encoding`. Nothing has been written if an error is raised.

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
    width = _arrays.usual_width(given) or _arrays.last_axis("x", _arrays.as_embeddings(given))
    source = source_for(add, width, convention)
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
    """Return embeddings of token ids plus encodings, ``weight[ids] * scale + PE``, in one pass.

    Parameters
    ----------
    ids : array_like of int, shape (..., length)
        Token ids, which are indices of rows of `weight`.
    weight : array_like of float64, float32, float16 or bfloat16, shape (rows, d_model)
        Embeddings of all tokens, with any strides, byte order or alignment; they may be read-only.
    start, positions, mask, scale, workers, **convention
        As in `add` for the `x` ``weight[ids]``.
    out : ndarray, shape ids.shape + (d_model,), dtype of `weight`, optional
        Where to write the result. It must meet the requirements of `fill`.

    Returns
    -------
    ndarray of the dtype of `weight`, shape ids.shape + (d_model,)
        `out`, or a new array as from `positional_encoding`. It has the bits of
        ``add(weight[ids])``.

    Raises
    ------
    IndexError
        If an id is negative or not less than the number of rows. The message has the first such id
        and its index.
    TypeError
        If `ids` are not integers; and as for `add`.
    ValueError
        If `ids` have no axis, `weight` does not have two axes, or `out` shares memory with
        `weight`; and as for `add`. Nothing has been written if an error is raised.

    Examples
    --------
    >>> import numpy as np
    >>> import posenc
    >>> weight = np.zeros((50, 4), dtype=np.float32)
    >>> posenc.embed([[7, 49, 7]], weight).shape
    (1, 3, 4)
    """
    table = _arrays.as_array("weight", weight)
    width = _arrays.usual_width(table) or _arrays.as_table("weight", table).shape[-1]
    source = source_for(embed, width, convention)
    return _fused_add.embed(
        source, ids, "weight", table, start, positions, mask, scale, out, workers
    )
