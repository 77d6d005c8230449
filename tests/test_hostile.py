"""Arguments that lie, change or are out of all measure.

The kind of fault: what was checked is not what the kernel uses, because an argument answers
differently when it is asked again, runs code that changes another one, or is converted after it was
checked. Each of these read or wrote memory that was no argument's, or took time without end.
`tests/fuzz.py` tries them at random.
"""

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from arrays import ALL
from internals import plan_of

import posenc
from posenc import _backend, _frequencies

W = np.zeros((3, 4))


class Two(int):
    """An integer that compares and counts as one number and converts to others."""

    def __int__(self) -> int:
        return 10**13

    def __float__(self) -> float:
        return float("nan")


def objects(*values: object) -> np.ndarray:
    array = np.empty((1, len(values)), object)
    array[0, :] = values
    return array


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("ids", lambda two: posenc.embed(two, W)),
        ("positions", lambda two: posenc.encode(two, 4)),
        ("positions", lambda two: posenc.add(np.zeros((2, 4)), positions=two[0])),
        ("positions", lambda two: posenc.Learned(W).add(np.zeros((2, 4)), positions=two[0])),
        ("positions", lambda two: posenc.Rotary(4).rotate(np.zeros((2, 4)), positions=two[0])),
        ("lengths", lambda two: posenc.positions.from_lengths(two[0])),
        ("mask", lambda two: posenc.positions.from_mask(two[0])),
    ],
)
def test_integers_that_are_two_numbers_are_refused(
    backend: str, name: str, call: Callable[[np.ndarray], object]
) -> None:
    with pytest.raises((TypeError, ValueError, IndexError), match=f"^{name} must"):
        call(objects(Two(0), Two(1)))
    call(objects(0, True))  # and plain ones are taken


class Acts:
    """An array that runs code of its own while it is made one."""

    def __init__(self, array: object, act: Callable[[], object]) -> None:
        self.array, self.act = array, act

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self.act()
        return np.array(self.array)


def test_an_instance_that_is_made_anew_amid_its_call_ends_it_as_it_was(backend: str) -> None:
    sinusoidal: Any = posenc.Sinusoidal(64)
    x = np.ones((2, 5, 64))
    expected = sinusoidal.add(x, positions=range(5))
    for again in (2, 4096):
        where = Acts(range(5), lambda again=again: sinusoidal.__init__(again))  # type: ignore[misc]
        np.testing.assert_array_equal(sinusoidal.add(x, positions=where), expected)
        sinusoidal.__init__(64)
    learned: Any = posenc.Learned(np.ones((5, 64)))
    where = Acts(range(5), lambda: learned.__init__(np.ones((1, 2))))
    np.testing.assert_array_equal(learned.add(x, positions=where), x + 1)
    rotary: Any = posenc.Rotary(64)
    expected = rotary.rotate(x, positions=range(5))
    where = Acts(range(5), lambda: rotary.__init__(2))
    np.testing.assert_array_equal(rotary.rotate(x, positions=where), expected)


def test_a_field_that_is_overwritten_changes_no_width(backend: str) -> None:
    for width in (2, 4096):
        sinusoidal, rotary = posenc.Sinusoidal(64), posenc.Rotary(64)
        object.__setattr__(sinusoidal, "d_model", width)
        object.__setattr__(rotary, "dim", width)
        np.testing.assert_array_equal(sinusoidal.table(3), posenc.positional_encoding(3, 64))
        assert rotary.rotate(np.ones((3, 64))).shape == (3, 64)
        assert rotary.tables(3)[0].shape == (3, 64)


def test_a_state_from_elsewhere_is_refused() -> None:
    for one in (posenc.Sinusoidal(4), posenc.Learned(W), posenc.Rotary(4)):
        with pytest.raises(TypeError, match="takes no state"):
            one.__setstate__({"d_model": 4096, "dim": 4096, "_source": None})


@pytest.mark.parametrize("shape", [(1, 4), (5000, 4)])
def test_an_array_that_is_resized_amid_a_call_is_looked_at_after_that(
    backend: str, shape: tuple[int, int]
) -> None:
    """As NumPy's own calls do: `ndarray.resize` without its check of references frees the memory."""
    x, out, weight = np.ones((3, 4)), np.ones((3, 4)), np.ones((3, 4))

    def resizes(array: np.ndarray, values: object) -> Any:
        return Acts(values, lambda: array.resize(shape, refcheck=False))

    with pytest.raises(ValueError, match=r"positions must .* got shape \(3,\)"):
        posenc.add(x, positions=resizes(x, range(3)))
    with pytest.raises(ValueError, match=rf"out must have shape \(3, 4\), got \({shape[0]}, 4\)"):
        posenc.encode(resizes(out, range(3)), 4, out=out)
    ids = resizes(weight, [2, 1])
    if shape[0] > 2:
        np.testing.assert_array_equal(posenc.embed(ids, weight), posenc.add(weight[[2, 1]]))
    else:
        with pytest.raises(IndexError, match=r"ids must be at least 0 and below 1, .* got 2"):
            posenc.embed(ids, weight)


def test_a_list_that_changes_while_it_is_read_is_read_as_it_was(backend: str) -> None:
    """NumPy would go on reading where the list has ended."""

    class Clears(Acts):
        def __int__(self) -> int:
            self.act()
            return 3

        __index__ = __int__

        def __float__(self) -> float:
            return float(int(self))

    positions: list[Any] = []
    for _ in range(3):
        positions[:] = [0, Clears(3, positions.clear), *range(50)]
        assert posenc.encode(positions, 4).shape == (52, 4)
        positions[:] = [0, Clears(3, positions.clear), *range(50)]
        assert posenc.positions.from_segments(positions).shape == (52,)


class Lies(np.ndarray):
    """A subclass that answers for memory it does not have the right to write."""

    def view(self, *_: Any) -> Any:  # type: ignore[override]
        return self

    @property
    def flags(self) -> Any:
        return SimpleNamespace(writeable=True, aligned=True, c_contiguous=True)


def test_a_subclass_does_not_decide_what_is_checked(backend: str) -> None:
    memory = bytes(256)
    out = np.frombuffer(memory).reshape(4, 8).view(Lies)
    calls: list[Callable[[], object]] = [
        lambda: posenc.fill(out),
        lambda: posenc.add(np.ones((4, 8)), out=out),
        lambda: posenc.encode(range(4), 8, out=out),
        lambda: posenc.Rotary(8).rotate(np.ones((4, 8)), out=out),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="out must be writeable"):
            call()
    assert memory == bytes(256)


def test_more_axes_than_numpy_has_are_refused(backend: str) -> None:
    """A result has an axis more than its positions or ids: one slot beyond those there are."""
    many = np.zeros((1,) * 64) if np.__version__ >= "2" else np.zeros((1,) * 32)
    for name, call in (
        ("positions", lambda: posenc.encode(many, 4)),
        ("positions", lambda: posenc.Sinusoidal(4).encode(many)),
        ("positions", lambda: posenc.Rotary(4).tables(positions=many)),
        ("ids", lambda: posenc.embed(many.astype(int), W)),
        ("ids", lambda: posenc.Learned(W).embed(many.astype(int), W)),
        ("shape", lambda: posenc.grid_encoding([1] * 70, 140)),
        ("shape", lambda: posenc.grid_encoding([1] * 1000, 2000)),
    ):
        with pytest.raises(ValueError, match=f"^{name} must have .* axes"):
            call()


@pytest.mark.skipif(np.__version__ < "2", reason="an older NumPy has 32 axes")
def test_objects_may_have_as_many_axes_as_numbers(backend: str) -> None:
    """`ndarray.flat` ends at 32."""
    many = np.zeros((1,) * 40, object)
    assert posenc.encode(many, 4).shape == (1,) * 40 + (4,)
    assert posenc.embed(many, W).shape == (1,) * 40 + (4,)
    assert posenc.positions.from_segments(many).shape == (1,) * 40


def test_sizes_beyond_all_measure_are_refused_before_anything_is_made(backend: str) -> None:
    tracemalloc.start()
    try:
        for name, call in (
            ("d_model", lambda: posenc.positional_encoding(0, 2**40)),
            ("d_model", lambda: posenc.positional_encoding(3, 10**30)),
            ("d_model", lambda: posenc.Sinusoidal(10**9)),
            ("d_model", lambda: posenc.Sinusoidal(10**400)),
            ("d_model", lambda: posenc.fill(np.empty((0, 2**40), np.float32))),
            ("d_model", lambda: posenc.add(np.empty((0, 2**40), np.float32))),
            ("dim", lambda: posenc.Rotary(2**20)),
            ("heads", lambda: posenc.alibi_slopes(2**40)),
            ("length", lambda: posenc.positional_encoding(2**62, 8)),
            ("length", lambda: posenc.Rotary(4).tables(2**70)),
        ):
            with pytest.raises(ValueError, match=f"^{name} must be at most"):
                call()
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_result_beyond_memory_is_named_as_it_was_asked_for(backend: str) -> None:
    with pytest.raises(MemoryError, match=r"shape \(10000000000000, 8\) and dtype float32"):
        posenc.positional_encoding(10**13, 8, dtype=np.float32)


def test_an_empty_result_asks_for_nothing(backend: str) -> None:
    weight = np.zeros((3, 4), ">f8")
    assert posenc.embed(np.zeros((10**9, 0), int), weight).shape == (10**9, 0, 4)
    assert posenc.positions.from_segments(np.zeros((0, 2**40), bool)).shape == (0, 2**40)


def test_overlapping_rows_are_found_without_a_list_of_them(backend: str) -> None:
    memory = np.zeros(1 << 10)
    strided = np.lib.stride_tricks.as_strided
    tracemalloc.start()
    try:
        for shape, strides in (
            ((50_000, 50_000, 4), (0, 0, 8)),
            ((60_000, 60_000, 2), (8, 16, 8)),
            ((2, 50_000, 4), (0, 32, 8)),
        ):
            with pytest.raises(ValueError, match="out must not overlap itself"):
                posenc.fill(strided(memory, shape, strides))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_bool_positions_have_the_limit_of_their_number(backend: str) -> None:
    for one in ([1], [True], np.array([True]), np.array([1], np.uint8)):
        with pytest.raises(ValueError, match="positions must be finite and within 0 of 0"):
            posenc.encode(one, 2, frequencies=[1e17])


def test_positions_in_bfloat16_are_those_of_float32(backend: str) -> None:
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4):
        positions = np.array([0, 1, -3, 7]).astype(dtype)
        np.testing.assert_array_equal(
            posenc.encode(positions, 6), posenc.encode(positions.astype(np.float32), 6)
        )


def test_a_list_hides_no_integer_that_numpy_has_rounded(backend: str) -> None:
    wrong: Any
    for wrong in ([2**53 + 1], [2**53 + 1, 0.5], [[0.5, 0], [-(2**53) - 1, 1]], (0.5, 2**54)):
        with pytest.raises(ValueError, match="positions must be finite and within"):
            posenc.encode(wrong, 2)
    assert posenc.encode([2**53, 0.5], 2).shape == (2, 2)


def test_a_dtype_is_bfloat16_by_its_type_and_not_by_its_name(backend: str) -> None:
    """A name is what a type says of itself, and may say otherwise when the kernels ask."""
    asked: list[object] = []

    class Meta(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override]
            asked.append(cls)
            return "bfloat" if len(asked) < 2 else "other"

    for named in (Meta("Named", (np.void,), {}), type("bfloat", (np.void,), {})):
        dtype = np.dtype((named, 2))
        array = np.zeros((1, 1, 8), dtype)
        for call in (posenc.fill, posenc.add, posenc.Rotary(8).rotate):
            asked.clear()
            with pytest.raises(TypeError, match=r"(out|x) must have dtype"):
                call(array)


def test_kernels_refuse_dtypes_that_they_do_not_know(backend: str) -> None:
    if backend == "numpy":
        pytest.skip("it reaches no memory of its own accord")
    kernels: Any = _backend.kernels
    plan = plan_of(posenc.Sinusoidal(8))
    out = np.zeros((1, 1, 8))
    for wrong in (np.int8, np.int64, np.complex64, bool):
        with pytest.raises(ValueError, match="out does not fit"):
            kernels.fill(out.astype(wrong), 0.0, None, plan, False, 0, 1)
    one = np.zeros((1, 1))
    for name, arguments in (
        ("positions", (None, 0.0, one.astype(int), None)),
        ("ids", (one, 0.0, None, None)),
        ("mask", (None, 0.0, None, one)),
    ):
        x = out if arguments[0] is None else out[0]
        with pytest.raises(ValueError, match=f"{name} does not fit"):
            kernels.add(out, x, *arguments, plan, 1.0, False, 0, 1)
    counted = np.zeros(3, np.int64)
    for call, by in (("count_segments", one[0]), ("count_within", one[0])):
        with pytest.raises(ValueError, match="does not fit"):
            getattr(kernels, call)(counted, by)


def test_a_number_that_changes_is_asked_for_each_time(backend: str) -> None:
    """A tensor of torch is hashed by its identity, and an optimiser changes it in place."""

    class Parameter:
        value = 100.0

        def __float__(self) -> float:
            return self.value

    base: Any = Parameter()
    np.testing.assert_array_equal(
        posenc.encode([1.0], 4, base=base), posenc.encode([1.0], 4, base=100)
    )
    base.value = 500.0
    np.testing.assert_array_equal(
        posenc.encode([1.0], 4, base=base), posenc.encode([1.0], 4, base=500)
    )


def test_a_grid_asks_for_a_number_once(backend: str) -> None:
    class Counts:
        value = 10.0

        def __float__(self) -> float:
            self.value *= 10
            return self.value

    grid = ALL.grid_encoding((2, 2), 8, base=Counts())
    np.testing.assert_array_equal(grid, posenc.grid_encoding((2, 2), 8, base=100.0))


class Agrees(str):
    """A string that is equal to all others."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


def test_a_string_is_what_it_holds() -> None:
    for call in (
        lambda: posenc.Sinusoidal(4, layout=Agrees("x")),  # type: ignore[arg-type]
        lambda: posenc.grid_encoding((2, 2), 8, per_axis=False, layout=Agrees("interleaved")),
        lambda: posenc.Sinusoidal(4, layout=mock.Mock(spec=str)),
    ):
        with pytest.raises(ValueError, match=r"^layout must be"):
            call()
    with pytest.raises(ValueError, match=r"^rope_type must be"):
        posenc.Rotary.from_config({"rope_type": Agrees("x"), "rope_theta": 1e4}, head_dim=8)


def test_a_key_is_what_it_holds() -> None:
    class Other(str):
        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            return False

    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
    plain = {"head_dim": 64, "rope_parameters": {**yarn, "original_max_position_embeddings": 4096}}
    other = {
        Other("head_dim"): 64,
        Other("rope_parameters"): {**yarn, Other("original_max_position_embeddings"): 4096},
    }
    assert ALL.Rotary.from_config(other) == posenc.Rotary.from_config(plain)


def test_what_only_says_that_it_is_a_list_is_none() -> None:
    for spec in (list, tuple, np.ndarray, int):
        with pytest.raises((TypeError, ValueError), match=r"^x must"):
            ALL.add(mock.MagicMock(spec=spec))
        with pytest.raises(TypeError, match=r"^d_model must"):
            ALL.Sinusoidal(mock.Mock(spec=spec))


def test_masked_numbers_are_refused(backend: str) -> None:
    masked: Any = np.ma.masked_array(3, mask=True)
    for name, call in (
        ("start", lambda: posenc.add(np.zeros((1, 4)), start=masked)),
        ("length", lambda: posenc.positional_encoding(masked, 4)),
        ("scale", lambda: posenc.add(np.zeros((1, 4)), scale=masked)),
        ("causal", lambda: ALL.alibi_bias(2, 2, 2, causal=np.ma.masked_array(True, mask=True))),
        ("out", lambda: posenc.fill(np.ma.masked_array(np.zeros((2, 4)), mask=True))),
    ):
        with pytest.raises((TypeError, ValueError), match=f"^{name} must"):
            call()


@pytest.mark.parametrize("dtype", [",", "(2,3", "f4,,f4", "f4" * 1000])
def test_a_dtype_that_numpy_cannot_read_is_named(dtype: str) -> None:
    with pytest.raises(TypeError, match=r"^dtype must be .* got '"):
        posenc.positional_encoding(3, 4, dtype=dtype)


def test_empty_results_of_any_shape_are_named_or_made(backend: str) -> None:
    for name, call in (
        ("positions", lambda: posenc.encode(np.empty((2**58, 0)), 64)),
        ("ids", lambda: posenc.embed(np.empty((2**59, 0), int), W)),
        ("mask", lambda: posenc.positions.from_mask(np.empty((2**62, 0), bool))),
        ("positions", lambda: posenc.Rotary(64).tables(positions=np.empty((2**58, 0)))),
    ):
        with pytest.raises(ValueError, match=f"^{name} must leave a result below"):
            call()
    assert posenc.relative_encoding(0, 4, base=1e-100).shape == (0, 4)


def test_masked_arrays_in_a_list_are_masked_still(backend: str) -> None:
    """One array for each axis, say; np.asarray would take what is under the mask."""
    where = np.ma.masked_array([0.0, 1.0], mask=[False, True])
    with pytest.raises(ValueError, match="positions must have nothing masked, got 1 masked"):
        posenc.encode([where, where], 4)
    with pytest.raises(ValueError, match="positions must have nothing masked"):
        ALL.Rotary(4, axes=[0, 1]).tables(positions=[where, [0.0, 1.0]])
    free = np.ma.masked_array([0.0, 1.0], mask=False)
    np.testing.assert_array_equal(posenc.encode([free], 4), posenc.encode([[0, 1]], 4))


def test_frequencies_for_the_eye_are_computed_when_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rotation of a new base is due at every token beyond the trained length."""
    asked = []
    angular_frequencies = _frequencies.angular_frequencies

    def noted(base: float, count: int) -> np.ndarray:
        asked.append(base)
        return angular_frequencies(base, count)

    monkeypatch.setattr(_frequencies, "angular_frequencies", noted)
    rotary = posenc.Rotary(128, base=12345.0)
    rotary.rotate(np.ones((3, 128)))
    assert repr(rotary)
    assert hash(rotary)
    assert not asked
    assert rotary.frequencies.shape == (64,)
    assert asked


def test_threads_are_asked_for_in_vain_as_the_interpreter_ends() -> None:
    code = """
import numpy as np, posenc
class Last:
    def __del__(self):
        print(posenc.positional_encoding(9000, 256, workers=2).shape)
posenc.positional_encoding(9000, 256)  # what NumPy imports amid its calls
last = Last()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "(9000, 256)"
    assert ended.stderr == ""
