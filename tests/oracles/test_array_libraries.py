"""Arrays of torch, JAX, MLX, pandas, polars, pyarrow and xarray, in every argument of every call.

They give the bits of the ndarray with the same values, without a warning, and stay as they are. What
has no such ndarray is refused by the argument's name: missing values, and tensors that NumPy cannot
read.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import mlx.core as mx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
import xarray as xr
from peers import Array
from test_array_likes import ARGUMENTS, INTEGERS, REALS, Argument, assert_same, refused

import posenc

jax.config.update("jax_enable_x64", True)

ANY_AXES = (0, 1, 2, 3)
PANDAS = {"f": "Float64", "i": "Int64"}
ARROW = {"f": "double[pyarrow]", "i": "int64[pyarrow]"}


class Form(NamedTuple):
    """How a library makes an array of an ndarray, and of how many axes."""

    make: Callable[[Array], Any]
    axes: tuple[int, ...] = ANY_AXES
    kinds: str = "fi"


def strided(values: Array) -> torch.Tensor:
    return torch.from_numpy(np.array(values.T, order="C")).permute(*range(values.ndim)[::-1])


def for_inference(values: Array) -> torch.Tensor:
    with torch.inference_mode():
        return torch.from_numpy(values) + 0


def chunked(values: Array) -> pa.ChunkedArray:
    return pa.chunked_array([values[:1], values[1:1], values[1:]])


def table(values: Array) -> pa.Table:
    return pa.table([pa.array(column) for column in values.T.copy()], names=names(values))


def names(values: Array) -> list[str]:
    return [f"column {i}" for i in range(values.shape[1])]


FORMS = {
    "torch": Form(lambda values: torch.from_numpy(values.copy())),
    "torch, strided": Form(strided, (1, 2, 3)),
    "torch, for inference": Form(for_inference),
    "torch, a parameter that is fixed": Form(
        lambda values: torch.nn.Parameter(torch.from_numpy(values.copy()), requires_grad=False),
        kinds="f",
    ),
    "JAX": Form(jnp.asarray),
    "pandas, Series": Form(pd.Series, (1,)),
    "pandas, Series with another index": Form(lambda v: pd.Series(v, range(len(v), 0, -1)), (1,)),
    "pandas, Index": Form(pd.Index, (1,)),
    "pandas, categories": Form(lambda values: pd.Series(values).astype("category"), (1,)),
    "pandas, nullable Series": Form(lambda v: pd.Series(v, dtype=PANDAS[v.dtype.kind]), (1,)),
    "pandas, Series of pyarrow": Form(lambda v: pd.Series(v, dtype=ARROW[v.dtype.kind]), (1,)),
    "pandas, nullable array": Form(lambda v: pd.array(v, dtype=PANDAS[v.dtype.kind]), (1,)),
    "pandas, DataFrame": Form(pd.DataFrame, (2,)),
    "pandas, nullable DataFrame": Form(lambda v: pd.DataFrame(v, dtype="Int64"), (2,), "i"),
    "pandas, DataFrame of pyarrow": Form(
        lambda v: pd.DataFrame(v, dtype="int64[pyarrow]"), (2,), "i"
    ),
    "polars, Series": Form(lambda values: pl.Series(values), (1,)),
    "polars, Series in chunks": Form(
        lambda values: pl.Series(values[:1]).append(pl.Series(values[1:])), (1,)
    ),
    "polars, Series of arrays": Form(lambda values: pl.Series(values), (2, 3)),
    "polars, DataFrame": Form(lambda values: pl.DataFrame(values, schema=names(values)), (2,)),
    "pyarrow": Form(pa.array, (1,)),
    "pyarrow, a part": Form(lambda v: pa.array(np.concatenate([v, v]))[len(v) :], (1,)),
    "pyarrow, chunked": Form(chunked, (1,)),
    "pyarrow, Table": Form(table, (2,)),
    "pyarrow, Tensor": Form(pa.Tensor.from_numpy, (1, 2, 3)),
    "xarray": Form(xr.DataArray),
    "xarray, named": Form(
        lambda values: xr.DataArray(
            values,
            dims=[f"axis {i}" for i in range(values.ndim)],
            coords={f"axis {i}": range(side) for i, side in enumerate(values.shape)},
        )
    ),
    "xarray, Variable": Form(
        lambda values: xr.Variable([f"axis {i}" for i in range(values.ndim)], values)
    ),
}


def fitting(forms: dict[str, Form]) -> list[Any]:
    """The arguments that can be given in each form."""
    return [
        pytest.param(argument, form.make, id=f"{name}-{kind}")
        for kind, form in forms.items()
        for name, argument in ARGUMENTS.items()
        if argument.values.ndim in form.axes and argument.values.dtype.kind in form.kinds
    ]


@pytest.mark.parametrize(("argument", "make"), fitting(FORMS))
def test_bits_of_the_array(argument: Argument, make: Callable[[Array], Any]) -> None:
    given = make(argument.values.copy())
    assert_same(argument.call(given), argument.call(argument.values))
    np.testing.assert_array_equal(np.asarray(given), argument.values)


def test_every_argument_is_here() -> None:
    for argument, (_, values, _) in ARGUMENTS.items():
        some = [
            name
            for name, (_, axes, kinds) in FORMS.items()
            if values.ndim in axes and values.dtype.kind in kinds
        ]
        assert {name.split(",")[0] for name in some} >= {"torch", "JAX", "xarray"}, argument


OF_FLOATS = ("add, x", "embed, weight", "Learned, weight", "Rotary.rotate, x")
FLOATS: dict[str, dict[str, Callable[[Array], Any]]] = {
    "float32": {
        "torch": torch.from_numpy,
        "JAX": jnp.asarray,
        "MLX": mx.array,
        "pandas": lambda values: pd.DataFrame(values.reshape(-1, 8)),
        "pyarrow": pa.Tensor.from_numpy,
        "xarray": xr.DataArray,
    },
    "float16": {
        "torch": torch.from_numpy,
        "JAX": jnp.asarray,
        "MLX": mx.array,
        "pyarrow": pa.Tensor.from_numpy,
        "xarray": xr.DataArray,
    },
    "bfloat16": {"JAX": jnp.asarray, "xarray": xr.DataArray},
}


@pytest.mark.parametrize("name", OF_FLOATS)
@pytest.mark.parametrize(
    ("dtype", "library"), [(dtype, library) for dtype in FLOATS for library in FLOATS[dtype]]
)
def test_bits_of_other_floats(name: str, dtype: str, library: str) -> None:
    argument = ARGUMENTS[name]
    values = argument.values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    if library == "pandas":
        values = values.reshape(-1, 8)
    given = FLOATS[dtype][library](values.copy())
    assert np.asarray(given).dtype == values.dtype
    assert_same(argument.call(given), argument.call(values))


INTEGERS_OF: dict[str, Callable[[Array], Any]] = {
    "torch": torch.from_numpy,
    "JAX": jnp.asarray,
    "pandas": pd.Series,
    "polars": lambda values: pl.Series(values),
    "pyarrow": pa.array,
    "xarray": xr.DataArray,
}
IN_A_ROW = {
    name: argument
    for name, argument in ARGUMENTS.items()
    if argument.values.ndim == 1 and argument.values.dtype.kind == "i"
}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint64])
@pytest.mark.parametrize("library", INTEGERS_OF)
@pytest.mark.parametrize("name", IN_A_ROW)
def test_bits_of_other_integers(name: str, library: str, dtype: type) -> None:
    argument = ARGUMENTS[name]
    given = INTEGERS_OF[library](argument.values.astype(dtype))
    assert_same(argument.call(given), argument.call(argument.values))


MASKS: dict[str, Callable[[Array], Any]] = {
    **INTEGERS_OF,
    "MLX": mx.array,
    "pandas, nullable": lambda values: pd.Series(values, dtype="boolean"),
    "pandas of pyarrow": lambda values: pd.Series(values, dtype="bool[pyarrow]"),
    "pyarrow, chunked": chunked,
}


@pytest.mark.parametrize("library", MASKS)
def test_masks_of_bool(library: str) -> None:
    mask = np.array([True, False, True])
    given = MASKS[library](mask)
    assert_same(posenc.positions.from_mask(given), posenc.positions.from_mask(mask))
    x = np.ones((3, 8))
    assert_same(posenc.add(x, mask=given), posenc.add(x, mask=mask))


def with_one_missing(values: Array) -> list[Any]:
    return [*values[:-1].tolist(), None]


MISSING: dict[str, Callable[[Array], Any]] = {
    "pandas": lambda values: pd.Series(with_one_missing(values)),
    "pandas, nullable": lambda v: pd.Series(with_one_missing(v), dtype=PANDAS[v.dtype.kind]),
    "pandas of pyarrow": lambda v: pd.Series(with_one_missing(v), dtype=ARROW[v.dtype.kind]),
    "pandas, nullable array": lambda v: pd.array(with_one_missing(v), dtype=PANDAS[v.dtype.kind]),
    "polars": lambda values: pl.Series(with_one_missing(values)),
    "pyarrow": lambda values: pa.array(with_one_missing(values)),
    "pyarrow, chunked": lambda values: pa.chunked_array([with_one_missing(values)]),
    "pyarrow, all": lambda values: pa.nulls(len(values)),
}


@pytest.mark.parametrize("library", MISSING)
@pytest.mark.parametrize("name", [n for n, a in ARGUMENTS.items() if a.values.ndim == 1])
def test_missing_values_are_refused(name: str, library: str) -> None:
    refused(name, MISSING[library](ARGUMENTS[name].values))


@pytest.mark.parametrize(
    "mask",
    [
        pd.Series([True, None, False], dtype="boolean"),
        pl.Series([True, None, False]),
        pa.array([True, None, False]),
        pa.array([1, None, 0]),
    ],
    ids=lambda mask: type(mask).__module__.split(".")[0],
)
def test_masks_with_missing_values_are_refused(mask: Any) -> None:
    refused("from_mask, one sequence", mask)


def conjugate_parts(values: Array) -> torch.Tensor:
    """Negative views: their memory, which DLPack hands over as it is, has the other sign."""
    return torch.complex(torch.zeros(values.shape).double(), torch.from_numpy(values)).conj().imag


UNREADABLE = {
    "requires its gradient": Form(lambda v: torch.from_numpy(v).requires_grad_(), kinds="f"),
    "parameter": Form(lambda v: torch.nn.Parameter(torch.from_numpy(v)), kinds="f"),
    "negative view": Form(conjugate_parts, kinds="f"),
    "conjugate view": Form(lambda v: torch.from_numpy(v).to(torch.complex128).conj()),
    "sparse": Form(lambda v: torch.from_numpy(v).to_sparse(), (1, 2, 3)),
    "without data": Form(lambda v: torch.from_numpy(v).to("meta")),
    "nested": Form(
        lambda v: torch.nested.nested_tensor([torch.from_numpy(v)], layout=torch.jagged), (1, 2)
    ),
    "bfloat16": Form(lambda v: torch.from_numpy(v).bfloat16(), kinds="f"),
    "float8": Form(lambda v: torch.from_numpy(v).to(torch.float8_e4m3fn), kinds="f"),
    "MLX in bfloat16": Form(lambda v: mx.array(v.astype(np.float32)).astype(mx.bfloat16)),
    "deleted by JAX": Form(lambda v: deleted(jnp.asarray(v) + 0)),
    "keys of JAX": Form(lambda v: jax.random.split(jax.random.key(0), v.shape)),
    "lists of polars": Form(lambda v: pl.Series(v.tolist(), dtype=pl.List(pl.Float64)), (2,)),
    "strings of polars": Form(lambda v: pl.Series(v).cast(pl.String), (1,)),
    "strings of pandas": Form(lambda v: pd.Series(v).astype(str), (1,)),
    "dates of pandas": Form(lambda v: pd.Series(pd.to_datetime(v)), (1,)),
    "dates of pyarrow": Form(lambda v: pa.array(v.astype(int)).cast(pa.timestamp("s")), (1,)),
    "Dataset of xarray": Form(lambda v: xr.Dataset({"values": xr.DataArray(v)})),
}


def deleted(values: jax.Array) -> jax.Array:
    values.delete()
    return values


@pytest.mark.parametrize(("argument", "make"), fitting(UNREADABLE))
def test_what_has_no_such_array_is_refused(
    argument: Argument, make: Callable[[Array], Any]
) -> None:
    name = next(name for name, other in ARGUMENTS.items() if other is argument)
    refused(name, make(argument.values.copy()))


SCALARS: dict[str, Callable[[Any], Any]] = {
    "torch": torch.tensor,
    "torch, one of an array": lambda value: torch.tensor([value])[0],
    "JAX": jnp.asarray,
    "MLX": mx.array,
    "pandas": lambda value: pd.Series([value]).iloc[0],
    "polars": lambda value: pl.Series([value])[0],
    "pyarrow": pa.scalar,
    "xarray": xr.DataArray,
}


@pytest.mark.parametrize("library", ["torch", "torch, one of an array", "JAX", "pandas", "polars"])
@pytest.mark.parametrize("argument", INTEGERS)
def test_integers_are_what_has_an_index(argument: str, library: str) -> None:
    value, call = INTEGERS[argument]
    assert_same(call(SCALARS[library](value)), call(value))
    with pytest.raises(TypeError, match="must be an integer"):
        call(SCALARS[library](float(value)))


@pytest.mark.parametrize("library", SCALARS)
@pytest.mark.parametrize("argument", REALS)
def test_reals_are_what_has_a_float(argument: str, library: str) -> None:
    for value in (2, 2.0):
        assert_same(REALS[argument](SCALARS[library](value)), REALS[argument](2.0))


@pytest.mark.parametrize("library", SCALARS)
@pytest.mark.parametrize("argument", REALS)
def test_bools_are_no_numbers(argument: str, library: str) -> None:
    with pytest.raises(TypeError) as caught:
        REALS[argument](SCALARS[library](True))
    assert str(caught.value).startswith(f"{argument.split()[0]} must be a real number, got ")


def test_learned_positions_stay_those_of_the_tensor() -> None:
    """Kept in place, so that what is trained elsewhere is what is added."""
    weight: Any = torch.zeros(5, 8)
    learned = posenc.Learned(weight)
    weight[1] = 3.0
    assert learned.add(np.zeros((2, 8), np.float32)).tolist() == [[0.0] * 8, [3.0] * 8]


@pytest.mark.parametrize("make", [torch.from_numpy, jnp.asarray, xr.DataArray])
def test_out_is_an_ndarray(make: Callable[[Array], Any]) -> None:
    out = make(np.zeros((3, 8)))
    with pytest.raises(TypeError, match=r"^out must be a NumPy array, got "):
        posenc.fill(out)
    assert not np.asarray(out).any()
