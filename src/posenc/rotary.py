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
    _cache,
    _checks,
    _formats,
    _frequencies,
    _pieces,
    _planner,
    _rope_config,
)
from ._arrays import Array
from ._plan import Plan

Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.int64]
Layout = Literal["half", "interleaved"]

_DEFAULT_BASE = 10000.0

# The arrays of frequencies that the attribute returned for a base, by identity:
# `dataclasses.replace` passes one of them together with the base, which then decides.
_computed_frequencies: "weakref.WeakValueDictionary[int, Floats]" = weakref.WeakValueDictionary()


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
    """The attribute `Rotary.frequencies`, which for a base are computed on access."""

    def __get__(self, rotary: "Rotary | None", owner: object = None) -> Any:
        if rotary is None:
            return self
        if rotary._given_frequencies is not None:
            return _read_only(rotary._given_frequencies)
        assert rotary.base is not None
        result = _read_only(_frequencies.angular_frequencies(rotary.base, rotary._plan.dim // 2))
        _computed_frequencies[id(result)] = result
        return result

    def __set__(self, rotary: "Rotary", value: Any) -> None:
        # The field's default is this descriptor itself.
        object.__setattr__(rotary, "_given_frequencies", None if value is self else value)


def _is_computed(frequencies: object) -> bool:
    """Whether the attribute of an instance with a base returned it: see `dataclasses.replace`."""
    return _computed_frequencies.get(id(frequencies)) is frequencies


@dataclass(frozen=True, repr=False)
class Rotary:
    """Rotary position embeddings of one width, with the set-up done once.

    At position p, pair i of the first `dim` columns is rotated by the angle
    ``p * base^(-2i/dim)``, as in section 3.4.2 of Su et al., "RoFormer" (arXiv:2104.09864):
    ``(a, b)`` becomes ``(a * cos - b * sin, b * cos + a * sin)``.

    An instance is immutable, hashable and picklable. There is no maximum length, and no state: the
    result of a call depends on its arguments alone.

    Parameters
    ----------
    dim : int
        Number of columns that are rotated: even, 2 to 65536.
    base : float, optional
        Finite and positive, as in `posenc.Sinusoidal`. The default is 10000.0, unless `frequencies`
        are given; then the attribute is None.
    layout : {'half', 'interleaved'}, default 'half'
        With 'half', pair i is columns i and ``dim / 2 + i``, as in GPT-NeoX and most of
        transformers. With 'interleaved' it is columns 2i and ``2i + 1``, as in the paper, GPT-J and
        most of Llama's own code. Weights trained for one layout do not work with the other.
    frequencies : array_like of int or float, shape (dim / 2,), optional
        Angular frequencies in place of those of a base, taken as exact. The attribute is always a
        read-only array of float64; for a base it holds the doubles nearest to the frequencies.
    attention_factor : float, default 1.0
        Finite and positive: a factor on sines and cosines, the ``attention_factor`` of YaRN.
    axes : array_like of int, shape (dim / 2,), optional
        For tokens with several positions, such as time, height and width in multimodal models: the
        number, from 0, of the position that rotates each pair. `positions` then have an additional
        first axis, along which these positions lie.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `dim` is odd, less than 2 or more than 65536, `layout` is not one of the two, or another
        argument is out of bounds.

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
    _given_frequencies: tuple[float, ...] | None = field(init=False)
    _plan: RotaryPlan = field(init=False, compare=False)

    def __post_init__(self) -> None:
        frequencies: Any = self._given_frequencies
        dim = _checks.integer("dim", self.dim, 1, _checks.MAX_COLUMNS)
        if dim % 2:
            raise ValueError(f"dim must be even, columns turn in pairs, got {dim}")
        base = None if self.base is None else _checks.finite("base", self.base, positive=True)
        if frequencies is None or (base is not None and _is_computed(frequencies)):
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
            "axes": None if self.axes is None else _as_axes(self.axes, dim // 2),
            "_given_frequencies": given,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        key = (RotaryPlan, *(getattr(self, each.name) for each in fields(self) if each.compare))
        object.__setattr__(self, "_plan", _cache.get(key, self._prepare))

    def _prepare(self) -> RotaryPlan:
        if self._given_frequencies is not None:
            frequencies = _frequencies.explicit(self._given_frequencies)
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
        shown: dict[str, Any] = (
            {"frequencies": self._given_frequencies} if self._given_frequencies else {}
        )
        if self.base not in (None, _DEFAULT_BASE):
            shown["base"] = self.base
        for name in ("layout", "attention_factor", "axes"):
            value = getattr(self, name)
            if value != self.__dataclass_fields__[name].default:
                shown[name] = value
        keywords = "".join(f", {name}={value!r}" for name, value in shown.items())
        return f"Rotary(dim={self.dim}{keywords})"

    def __reduce__(self) -> tuple[Callable[[], "Rotary"], tuple[()]]:
        # The plan is not pickled: unpickling makes it again.
        make = functools.partial(
            type(self),
            self.dim,
            base=self.base,
            layout=self.layout,
            frequencies=self._given_frequencies,
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
        """Return the rotation of a model in Hugging Face transformers.

        Values that are missing are those that the class of the config's ``model_type`` has in
        transformers 5.24: widths, partial factors, thetas, the layout and the order of the axes.
        Without a ``model_type``, or with an unknown one, only the keys of the config are used.

        Parameters
        ----------
        config : mapping
            The whole of a ``config.json``; or ``config.rope_parameters``, preferably with the
            ``model_type``: ``{**config.rope_parameters, "model_type": ...}``. If a model has
            several parts, its ``text_config`` is used. ``rope_type`` is one of default, linear,
            dynamic, yarn, longrope (also called su), llama3, proportional and axial. A
            ``rope_scaling`` overrides ``rope_parameters``, except for the theta, the partial factor
            and the sections, on which both must agree. Values that are null count as missing.
        layer_type : str, optional
            The type of layer, such as ``"full_attention"``, if types have different parameters.
        head_dim, max_position_embeddings, rope_theta : number, optional
            Values that override those of the config. The width and the theta are always needed, and
            the length if the type scales by it.
        seq_len : int, optional
            Length of the sequence, for dynamic and longrope; by default the length in training. The
            result does not depend on earlier calls.
        layout : {'half', 'interleaved'}, optional
            By default the layout of the model's class or of ``rope_interleave``, as in DeepSeek, or
            'half' if neither is known.

        Returns
        -------
        Rotary
            With the frequencies of `ROPE_INIT_FUNCTIONS` in transformers 5.24, in float64, and its
            attention factor. Two equal ``mscale`` of yarn cancel, as in transformers and in
            DeepSeek's own code. For latent attention it is the rotation of the
            ``qk_rope_head_dim`` columns.

        Raises
        ------
        TypeError
            If `config` is not a mapping, or one of its values has the wrong type.
        ValueError
            If ``rope_type`` is unknown; if keys are missing, contradict one another or are out of
            bounds; or if no `Rotary` can rotate as the model does. Keys that are not understood are
            an error too, which names them: any key of the rope parameters, and other keys that
            contain the word rope, mrope, rotary, theta, yarn or ntk. ``attn_factor`` is not
            accepted, as libraries differ in its meaning.

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
        """Return tables of cosines and sines, for rotations by other code.

        Each value appears in both columns of its pair, as `layout` orders them.

        Parameters
        ----------
        length : int, optional
            Number of positions. It may be omitted if `positions` are given.
        start : int, default 0
            Position of the first row.
        positions : array_like of bool, int or float, shape (...), optional
            Positions in place of `start`, as in `posenc.encode`. With `axes` their shape is
            (axes, ...).
        dtype : {float64, float32, float16, bfloat16}, optional
            By default the dtype of `out`, or float64 without `out`.
        out : two ndarrays of `dtype`, shape (length, dim) or (..., dim), optional
            Where to write cosines and sines. They must meet the requirements of `posenc.fill`.

        Returns
        -------
        cos, sin : ndarray of `dtype`, shape (length, dim) or (..., dim)
            `out`, or new arrays: cosines and sines times `attention_factor`, computed in float64
            and rounded once.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If `length` is negative or differs from that of `positions`; `positions` are given
            together with `start`, or are out of the bounds of `posenc.encode`; or `out` has the
            wrong shape or cannot be written in place. Nothing has been written if an error is
            raised.
        """
        plan = self._plan
        wanted = None if dtype is None else _formats.float_dtype(dtype)
        count = None if length is None else _checks.integer("length", length, least=0)
        if count is None and positions is None:
            raise TypeError("length must be an integer where no positions are given, got None")
        pair = None if out is None else _as_pair(out)
        first, own_positions = _convert(plan, start, positions)
        # No code but ours and NumPy's from here on.
        angles = _angles(plan, first, own_positions, count)
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
            of = "length" if own_positions is None else "positions"
            pair = _arrays.empty(size, wanted, of), _arrays.empty(size, wanted, of)
        plain = _as_outputs(pair, (*shape, plan.dim), wanted)
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
        """Return queries or keys with their first `dim` columns rotated, in one pass over memory.

        Parameters
        ----------
        x : array_like of float64, float32, float16 or bfloat16, shape (..., length, width)
            Queries or keys, with any strides, byte order or alignment; they may be read-only.
            Columns from `dim` on are left unchanged. If the axis of heads comes after the length,
            pass ``x.swapaxes(1, 2)``, which is as fast.
        start : int, default 0
            Position of the first row of every sequence.
        positions : array_like of bool, int or float, shape (length,) or (..., length), optional
            Position of each row, in place of `start`: either (length,), for all sequences, or as
            many axes as `x` has without the last, the leading ones of which broadcast, such as
            (batch, 1, length) for an `x` with heads. With `axes` there is one more axis in front
            of all of these: (axes, batch, 1, length).
        out : ndarray, shape and dtype of `x`, optional
            Where to write the result. It must meet the requirements of `posenc.fill`, and may be
            `x`.
        inverse : bool, default False
            Whether to rotate back. `attention_factor` is then applied once more, not undone.
        workers : int, default 1
            Number of threads, as in `posenc.add`.

        Returns
        -------
        ndarray, shape and dtype of `x` (in native byte order)
            `out`, or a new array. It has the bits of ``x1 * cos - x2 * sin`` and
            ``x2 * cos + x1 * sin`` in NumPy, with the `tables` of the dtype of `x`. In 16 bits it
            is computed in float32, with the `tables` of float32, and rounded once.

        Raises
        ------
        TypeError
            If the dtype of `x` is not one of the four, `inverse` is not a bool, or `out` is not an
            array of the dtype of `x`.
        ValueError
            If `x` has fewer than two axes or fewer than `dim` columns; `positions` do not fit `x`
            or are given together with `start`; or `out` has the wrong shape, overlaps `x` in part
            or cannot be written in place. Nothing has been written if an error is raised.
        """
        plan = self._plan
        if positions is None or not plan.axis_plans:
            done: Array | None = _backend.kernels.try_rotate(
                out, x, start, positions, inverse, workers, plan.plan, plan.dim, plan.interleaved
            )
            if done is not None:
                return done
        given = _arrays.as_array("x", x)
        first, own_positions = _convert(plan, start, positions)
        inverse = _checks.boolean("inverse", inverse)
        threads = _pieces.thread_count(workers)
        # No code but ours and NumPy's from here on.
        x = _arrays.as_embeddings(given)
        if x.shape[-1] < plan.dim:
            raise ValueError(
                f"x must have last axis {plan.dim} or more, got shape {_checks.shown(x.shape)}"
            )
        if own_positions is not None:
            _check_rows(plan, x.shape[:-1], own_positions)
        angles = _angles(plan, first, own_positions, x.shape[-2], "x")
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


def _convert(
    plan: RotaryPlan, start: SupportsIndex, positions: npt.ArrayLike | None
) -> tuple[int, Floats | None]:
    """The start and the positions, as a number and an array of our own: never both."""
    first = _checks.integer("start", start)
    if positions is None:
        return first, None
    if first:
        raise ValueError(f"start must be 0 where positions are given, got {_checks.shown(first)}")
    own_positions = _arrays.as_positions(positions, plan.plan.max_position)
    _arrays.check_ndim("positions", own_positions)
    return first, own_positions


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


def _as_pair(out: tuple[Array, Array]) -> tuple[Array, Array]:
    """The arrays for cosines and for sines."""
    if issubclass(type(out), list | tuple):
        arrays = _arrays.elements(out)
        if len(arrays) == 2:
            return arrays[0], arrays[1]
    raise TypeError(f"out must be two arrays, for cosines and sines, got {_checks.shown(out)}")


def _as_outputs(
    pair: tuple[Array, Array], shape: tuple[int, ...], dtype: np.dtype[Any] | None
) -> list[Array]:
    """The same as plain arrays that can be written to."""
    first = _arrays.as_output(pair[0], shape, dtype)
    second = _arrays.as_output(pair[1], shape, first.dtype)
    if _arrays.overlap(first, second):
        raise ValueError("out must be two arrays that share no memory, got an overlap")
    return [first, second]


def _read_only(values: npt.ArrayLike) -> Floats:
    """An array that nobody can change."""
    return np.frombuffer(np.asarray(values, np.float64).tobytes())


def _as_axes(values: npt.ArrayLike, count: int) -> tuple[int, ...]:
    axes = np.array(_arrays.as_integers("axes", values))
    if axes.shape != (count,):
        raise ValueError(
            f"axes must have shape ({count},), one for each pair, got {_checks.shown(axes.shape)}"
        )
    if not (axes.min() >= 0 and axes.max() < _rope_config.MAX_AXES):
        wrong = axes[(axes < 0) | (axes >= _rope_config.MAX_AXES)][0]
        raise ValueError(f"axes must be at least 0 and below {_rope_config.MAX_AXES}, got {wrong}")
    return tuple(map(int, axes))
