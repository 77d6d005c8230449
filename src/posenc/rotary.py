"""Rotary position embeddings: `Rotary`, which rotates pairs of columns of queries and keys."""

import functools
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, SupportsIndex, get_args

import numpy as np
import numpy.typing as npt

from . import (
    _arrays,
    _backend,
    _checks,
    _formats,
    _frequencies,
    _pieces,
    _planner,
    _recent,
    _rope_config,
)
from ._plan import Plan

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.int64]
Layout = Literal["half", "interleaved"]

# The most axes that positions may have.
_MOST_AXES = 64

_DEFAULT_BASE = 10000.0

# The arrays of frequencies that the attribute returned for a base, by identity: `dataclasses.replace`
# passes one of them together with the base, which then decides.
_of_bases: "weakref.WeakValueDictionary[int, Floats]" = weakref.WeakValueDictionary()


class RotaryPlan(NamedTuple):
    """What a call needs of an instance, which it reads once, at its start.

    Attributes
    ----------
    dim : int
    interleaved : bool
        Whether the two columns of a pair are adjacent.
    plan : Plan
        That of all pairs at one position.
    axis_plans : tuple
        For each axis of positions the numbers of the pairs that it rotates, and their plan.
    """

    dim: int
    interleaved: bool
    plan: Plan
    axis_plans: tuple[tuple[Pairs, Plan], ...]

    @property
    def nbytes(self) -> int:
        return self.plan.nbytes + sum(plan.nbytes for _, plan in self.axis_plans)


class _Angles(NamedTuple):
    """The angles of a call's rows: the kernels' arguments `start`, `positions` and `plans`."""

    start: float
    positions: tuple[Floats, ...]
    plans: tuple[tuple[Pairs | None, Plan], ...]


class _Frequencies:
    """The attribute `Rotary.frequencies`, which for a base are computed when they are asked for."""

    def __get__(self, rotary: "Rotary | None", owner: object = None) -> Any:
        if rotary is None:
            return self
        if rotary._given is not None:
            return _read_only(rotary._given)
        assert rotary.base is not None
        result = _read_only(_frequencies.angular_frequencies(rotary.base, rotary._plan.dim // 2))
        _of_bases[id(result)] = result
        return result

    def __set__(self, rotary: "Rotary", value: Any) -> None:
        # The field's default is this descriptor itself.
        object.__setattr__(rotary, "_given", None if value is self else value)


def _is_of_a_base(frequencies: object) -> bool:
    """Whether the attribute of an instance with a base returned it: see `dataclasses.replace`."""
    return _of_bases.get(id(frequencies)) is frequencies


@dataclass(frozen=True, repr=False)
class Rotary:
    """Rotary position embeddings of one width, prepared for hot loops.

    At position p, pair i of the first `dim` columns is rotated by the angle ``p * base^(-2i/dim)``, as in
    section 3.4.2 of Su et al., "RoFormer" (arXiv:2104.09864): ``(a, b)`` becomes
    ``(a * cos - b * sin, b * cos + a * sin)``.

    An instance is frozen, hashable and picklable. There is no longest sequence, and no state: what
    a call returns depends on its arguments alone.

    Parameters
    ----------
    dim : int
        Number of columns that are rotated: even, 2 to 65536.
    base : float, optional
        Finite and positive, as in `posenc.Sinusoidal`: 10000.0 unless `frequencies` are given. As an
        attribute it is None where they are.
    layout : {'half', 'interleaved'}, default 'half'
        Pair i is columns i and ``dim / 2 + i``, as in GPT-NeoX and most of transformers, or columns
        2i and ``2i + 1``, as in the paper, GPT-J and most of Llama's own code. Weights made for one
        of them are nonsense in the other.
    frequencies : array_like of int or float, shape (dim / 2,), optional
        Angular frequencies instead of those of a base, taken as exact. As an attribute they are
        always there: an array of float64 that is read-only, of a base the nearest doubles.
    attention_factor : float, default 1.0
        Factor on sines and cosines, finite and positive: YaRN's ``attention_factor``.
    axes : array_like of int, shape (dim / 2,), optional
        Which of several positions rotates each pair, counted from 0: time, height and width in
        multimodal models. Then `positions` have an axis for them in front.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `dim` is odd, less than 2 or more than 65536, `layout` is not one of the two, or another
        argument is out of its bounds.

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
    base: float | None = field(default=None, kw_only=True)
    layout: Layout = field(default="half", kw_only=True)
    frequencies: Any = field(default=_Frequencies(), kw_only=True, compare=False)
    attention_factor: float = field(default=1.0, kw_only=True)
    axes: Any = field(default=None, kw_only=True)

    # The given frequencies: equality, hash and pickle use these in place of the attribute.
    _given: tuple[float, ...] | None = field(init=False)
    _plan: RotaryPlan = field(init=False, compare=False)

    def __post_init__(self) -> None:
        frequencies: Any = self._given
        dim = _checks.integer("dim", self.dim, 1, _checks.MOST_COLUMNS)
        if dim % 2:
            raise ValueError(f"dim must be even, columns turn in pairs, got {dim}")
        base = None if self.base is None else _checks.finite("base", self.base, positive=True)
        if frequencies is None or (base is not None and _is_of_a_base(frequencies)):
            base, given = _DEFAULT_BASE if base is None else base, None
        elif base not in (None, _DEFAULT_BASE):  # `replace` may pass the default
            raise ValueError(f"base must be None where frequencies are given, got {base}")
        else:
            base = None
            given = _arrays.as_vector("frequencies", frequencies)
            if len(given) != dim // 2:
                raise ValueError(f"frequencies must have shape ({dim // 2},), got ({len(given)},)")
        checked = {
            "dim": dim,
            "base": base,
            "layout": _checks.choice("layout", self.layout, get_args(Layout)),
            "attention_factor": _checks.finite(
                "attention_factor", self.attention_factor, positive=True
            ),
            "axes": None if self.axes is None else _pairs_axes(self.axes, dim // 2),
            "_given": given,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        key = (RotaryPlan, *(getattr(self, each.name) for each in fields(self) if each.compare))
        object.__setattr__(self, "_plan", _recent.get(key, self._prepare))

    def _prepare(self) -> RotaryPlan:
        if self._given is not None:
            frequencies = _frequencies.explicit(self._given)
        else:
            assert self.base is not None
            frequencies = _frequencies.geometric(self.base, self.dim // 2)
        plan = _planner.make_plan(frequencies, False, amplitude=self.attention_factor)
        axis_plans = []
        for axis in range(max(self.axes) + 1) if self.axes else ():
            pairs = np.flatnonzero(np.equal(self.axes, axis)).astype(np.int64)
            axis_plans.append((pairs, _planner.select(plan, pairs)))
        return RotaryPlan(self.dim, self.layout == "interleaved", plan, tuple(axis_plans))

    def __repr__(self) -> str:
        shown: dict[str, Any] = {"frequencies": self._given} if self._given else {}
        if self.base not in (None, _DEFAULT_BASE):
            shown["base"] = self.base
        for name in ("layout", "attention_factor", "axes"):
            value = getattr(self, name)
            if value != self.__dataclass_fields__[name].default:
                shown[name] = value
        keywords = "".join(f", {name}={value!r}" for name, value in shown.items())
        return f"Rotary(dim={self.dim}{keywords})"

    def __reduce__(self) -> tuple[Callable[[], "Rotary"], tuple[()]]:
        # Without the plan, which is made again where the instance is unpickled.
        make = functools.partial(
            type(self),
            self.dim,
            base=self.base,
            layout=self.layout,
            frequencies=self._given,
            attention_factor=self.attention_factor,
            axes=self.axes,
        )
        return make, ()

    def __setstate__(self, state: object) -> None:
        raise TypeError("Rotary takes no state: it is unpickled by its arguments")

    @property
    def attention(self) -> float:
        """The former name of `attention_factor`. Deprecated."""
        warnings.warn(
            "the attribute attention is now attention_factor",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.attention_factor

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
            longrope (also called su), llama3, proportional and axial. A ``rope_scaling`` overrides
            ``rope_parameters``, except for the theta, the partial factor and the sections, in which
            both must agree. Values that are null count as missing.
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
            their bounds, or no `Rotary` rotates as the model does. Keys that are not understood are
            refused too, by name: any in the rope parameters, and elsewhere those with rope, mrope,
            rotary, theta, yarn or ntk as a word. ``attn_factor`` is one, as libraries differ on it.

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
            attention_factor=rope.attention_factor,
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
            Times `attention_factor`: computed in float64 and rounded once. `out`, or fresh arrays.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If `length` is negative or not that of `positions`, these come with a `start`, or are
            out of the bounds of `posenc.encode`, or `out` has another shape or cannot be written
            in place. Nothing has been written then.
        """
        plan = self._plan
        wanted = None if dtype is None else _formats.float_dtype(dtype)
        count = None if length is None else _checks.integer("length", length, least=0)
        if count is None and positions is None:
            raise TypeError("length must be an integer where no positions are given, got None")
        pair = None if out is None else _pair(out)
        first, at = _converted(plan, start, positions)
        # No code but ours and NumPy's from here on.
        angles = _angles(plan, first, at, count)
        if angles.positions:
            shape = angles.positions[0].shape
        else:
            assert count is not None
            shape = (count,)
        if count is not None and shape[-1:] != (count,):
            raise ValueError(
                f"length must be that of positions, got {_checks.shown(count)} for shape "
                f"{_checks.shown(shape)}"
            )
        if pair is None:
            wanted = wanted or np.dtype(np.float64)
            size = (*shape, plan.dim)
            of = "length" if at is None else "positions"
            pair = _arrays.empty(size, wanted, of), _arrays.empty(size, wanted, of)
        plain = _outputs(pair, (*shape, plan.dim), wanted)
        if not shape:
            plain = [array[np.newaxis] for array in plain]
            angles = angles._replace(positions=tuple(each[np.newaxis] for each in angles.positions))
        cosines, sines = (_formats.kernel_bits(array) for array in plain)
        kernel = functools.partial(
            _backend.kernels.tables, cosines, sines, *angles, plan.interleaved
        )
        rows, row_bytes = _arrays.rows_of(cosines)
        _pieces.run(kernel, rows, 2 * row_bytes, 1)
        return pair

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
        """Queries or keys with their first `dim` columns rotated, in one pass over memory.

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
            `axes`, one more in front of all of these: (axes, batch, 1, length).
        out : ndarray, shape and dtype of `x`, optional
            Where to put the result, on the terms of `posenc.fill`; ``out=x`` works in place.
        inverse : bool, default False
            Rotate back. `attention_factor` is not undone, but multiplies once more.
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
        plan = self._plan
        given = _arrays.as_array("x", x)
        first, at = _converted(plan, start, positions)
        inverse = _checks.boolean("inverse", inverse)
        threads = _pieces.count(workers)
        # No code but ours and NumPy's from here on.
        x = _arrays.as_embeddings(given)
        if x.shape[-1] < plan.dim:
            raise ValueError(
                f"x must have last axis {plan.dim} or more, got shape {_checks.shown(x.shape)}"
            )
        if at is not None:
            _check_rows(plan, x.shape[:-1], at)
        angles = _angles(plan, first, at, x.shape[-2], "x")
        for each in angles.positions:
            _arrays.check_broadcast("positions", each, x.shape[:-1])
        out, plain, x = _arrays.prepare_out_and_x(x, out)
        kernel = functools.partial(
            _backend.kernels.rotate,
            _formats.kernel_bits(plain),
            _formats.kernel_bits(x),
            *angles,
            plan.interleaved,
            inverse,
            _arrays.use_streaming_stores(plain),
        )
        _pieces.run(kernel, *_arrays.rows_of(plain), threads)
        return out


def _converted(
    plan: RotaryPlan, start: SupportsIndex, positions: npt.ArrayLike | None
) -> tuple[int, Floats | None]:
    """The start and the positions, as a number and an array of our own: never both."""
    first = _checks.integer("start", start)
    if positions is None:
        return first, None
    if first:
        raise ValueError(f"start must be 0 where positions are given, got {_checks.shown(first)}")
    where = _arrays.as_positions(positions, plan.plan.max_position)
    _arrays.few_axes("positions", where)
    return first, where


def _angles(
    plan: RotaryPlan,
    start: int,
    positions: Floats | None,
    length: int | None,
    of: str | None = None,
) -> _Angles:
    """The arguments of a kernel for `length` rows, those of the argument `of`, or for positions."""
    if positions is None:
        assert length is not None
        begin = _arrays.check_start(start, length, plan.plan.max_position, of)
        return _Angles(begin, (), ((None, plan.plan),))
    if not plan.axis_plans:
        return _Angles(0.0, (positions,), ((None, plan.plan),))
    _check_axes(plan, positions)
    return _Angles(0.0, tuple(positions), plan.axis_plans)


def _check_axes(plan: RotaryPlan, positions: Floats) -> None:
    """ValueError unless the positions have a row for each of the axes."""
    count = len(plan.axis_plans)
    if not positions.ndim or len(positions) != count:
        text_first = positions.ndim and len(positions) == count + 1
        raise ValueError(
            f"positions must have shape ({count}, ...), a row for each of the axes, got shape "
            f"{_checks.shown(positions.shape)}"
            + "; of ids whose first row is that of text, positions[1:]"
            * bool(text_first)
        )


def _check_rows(plan: RotaryPlan, rows: tuple[int, ...], positions: Floats) -> None:
    """ValueError unless the positions have an axis for each of x but the last, or one for all.

    With axes of positions, one more in front of all of these: ids of (batch, length) are never
    taken for (axes, length).
    """
    if plan.axis_plans:
        fits, wanted = positions.ndim == len(rows) + 1, f"{len(rows) + 1}, that of the axes first"
    else:
        fits, wanted = positions.ndim in (1, len(rows)), f"one, or {len(rows)}"
    if not fits:
        raise ValueError(
            f"positions must have as many axes as x has without its last: {wanted}, "
            f"got shape {_checks.shown(positions.shape)}"
        )


def _pair(out: tuple[Array, Array]) -> tuple[Array, Array]:
    """The arrays for cosines and for sines."""
    if issubclass(type(out), list | tuple):
        arrays = _arrays.items(out)
        if len(arrays) == 2:
            return arrays[0], arrays[1]
    raise TypeError(f"out must be two arrays, for cosines and sines, got {_checks.shown(out)}")


def _outputs(
    pair: tuple[Array, Array], shape: tuple[int, ...], dtype: np.dtype[Any] | None
) -> list[Array]:
    """The same as plain arrays that can be written to."""
    first = _arrays.output(pair[0], shape, dtype)
    second = _arrays.output(pair[1], shape, first.dtype)
    if _arrays.overlap(first, second):
        raise ValueError("out must be two arrays that share no memory, got an overlap")
    return [first, second]


def _read_only(values: npt.ArrayLike) -> Floats:
    """An array that nobody can change."""
    return np.frombuffer(np.asarray(values, np.float64).tobytes())


def _pairs_axes(values: npt.ArrayLike, count: int) -> tuple[int, ...]:
    axes = np.array(_arrays.integers("axes", values))
    if axes.shape != (count,):
        raise ValueError(
            f"axes must have shape ({count},), one for each pair, got {_checks.shown(axes.shape)}"
        )
    if not (axes.min() >= 0 and axes.max() < _MOST_AXES):
        wrong = axes[(axes < 0) | (axes >= _MOST_AXES)][0]
        raise ValueError(f"axes must be at least 0 and below {_MOST_AXES}, got {wrong}")
    return tuple(map(int, axes))
