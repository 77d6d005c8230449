"""The choice of kernels: the best that runs here, what POSENC_BACKEND says, never in silence."""

import ast
import importlib
import importlib.metadata
import importlib.resources
import inspect
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from internals import MODULES, kernels_of

import posenc
from posenc import _backend

PURE = os.environ.get("POSENC_BACKEND") == "numpy"
compiled = pytest.mark.skipif(PURE, reason="POSENC_BACKEND=numpy")


def run(
    code: str, backend: str | None = None, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k != "POSENC_BACKEND"}
    if backend is not None:
        env["POSENC_BACKEND"] = backend
    if path is not None:
        env["PYTHONPATH"] = str(path)
    return subprocess.run(
        [sys.executable, "-c", code], check=False, env=env, capture_output=True, text=True
    )


SHOW = "import posenc; print(posenc.show_config()['backend'])"
SHOW_ALL = "import json, posenc; print(json.dumps(posenc.show_config()))"


def copied(tmp_path: Path) -> Path:
    """The installed package once more, to be broken."""
    package = Path(posenc.__file__).parent
    return Path(shutil.copytree(package, tmp_path / "posenc"))


def test_the_configuration_names_what_a_bug_report_needs() -> None:
    config = posenc.show_config()
    assert config["version"] == posenc.__version__
    assert config["numpy"] == np.__version__
    assert config["python"] == platform.python_version()
    assert config["machine"] == platform.machine()
    assert config["backend"] in config["available"]
    assert "numpy" in config["available"]
    assert {*config["available"], *config["unavailable"]} == set(MODULES)
    assert not {*config["available"]} & {*config["unavailable"]}


@compiled
def test_the_best_available_backend_is_used_and_the_fallback_only_last() -> None:
    # biopython/biopython#657: a slow fallback in silence
    available = _backend.available()
    assert available == [name for name in MODULES if name in available]
    assert "baseline" in available
    assert run(SHOW).stdout.strip() == available[0]
    assert run(SHOW, "").stdout.strip() == available[0]


@compiled
@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="asks the kernel for the processor")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="instruction sets of x86-64")
def test_available_instruction_sets_are_those_of_the_processor() -> None:
    flags = Path("/proc/cpuinfo").read_text().split()
    for name, needed in (
        ("avx2", ["avx2"]),
        ("avx512", ["avx512f", "avx512bw", "avx512dq", "avx512vl"]),
    ):
        assert (name in _backend.available()) == all(flag in flags for flag in needed)


def test_a_forced_backend_is_used_or_fails_loudly() -> None:
    for name in _backend.available():
        assert run(SHOW, name).stdout.strip() == name
    for name in ("sse9", "NumPy", "_core"):
        result = run(SHOW, name)
        assert result.returncode != 0
        assert "ImportError" in result.stderr
        assert f"POSENC_BACKEND={name}" in result.stderr
        assert "numpy" in result.stderr.splitlines()[-1]
    assert len(run(SHOW, "x" * 1000).stderr.splitlines()[-1]) < 300


@compiled
def test_wide_kernels_are_not_imported_where_the_processor_lacks_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # facebookresearch/faiss#5296: wide code that ran while it was imported
    core = importlib.import_module("posenc._core")
    monkeypatch.setattr(core, "instruction_sets", list)
    for name in ("_core_avx2", "_core_avx512"):
        monkeypatch.delitem(sys.modules, f"posenc.{name}", raising=False)
    assert _backend.available() == ["baseline", "numpy"]
    assert _backend.unavailable() == {
        "avx512": "this processor lacks avx512",
        "avx2": "this processor lacks avx2",
    }
    assert not {"posenc._core_avx2", "posenc._core_avx512"} & set(sys.modules)
    monkeypatch.setenv("POSENC_BACKEND", "avx2")
    with pytest.raises(
        ImportError, match=r"POSENC_BACKEND=avx2 is not .* lacks avx2\): use one of baseline, numpy"
    ):
        _backend._choose()


def test_a_missing_core_means_numpy_in_silence(tmp_path: Path) -> None:
    for core in copied(tmp_path).glob("_core*.so"):
        core.unlink()
    result = run(SHOW_ALL, path=tmp_path)
    config = json.loads(result.stdout)
    assert (config["backend"], result.stderr) == ("numpy", "")
    assert config["unavailable"] == dict.fromkeys(
        ("avx512", "avx2", "baseline"), "not in this installation"
    )
    assert "POSENC_BACKEND=baseline" in run(SHOW, "baseline", tmp_path).stderr


@compiled
def test_the_configuration_says_why_compiled_kernels_are_not_used(tmp_path: Path) -> None:
    # cython/cython#1515: Python imports no compiled module from a zip archive, and says nothing
    def reasons(path: Path) -> dict[str, str]:
        config = json.loads(run(SHOW_ALL, path=path).stdout)
        assert config["backend"] == "numpy"
        return dict(config["unavailable"])

    package = copied(tmp_path)
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "posenc")
    assert "zip archive" in reasons(Path(archive))["baseline"]
    for core in package.glob("_core*.so"):
        core.rename(core.with_name(core.name.partition(".")[0] + ".cpython-27-elsewhere.so"))
    assert reasons(tmp_path)["baseline"] == (
        "compiled for another Python or system: _core.cpython-27-elsewhere.so"
    )


@pytest.mark.parametrize("forced", [None, "numpy", "avx2", "unknown"])
def test_with_no_kernels_at_all_the_import_says_what_is_missing(
    tmp_path: Path, forced: str | None
) -> None:
    # dynaconf/dynaconf#68: a frozen application without the modules named at run time
    package = copied(tmp_path)
    for file in (*package.glob("_core*.so"), package / "_numpy.py"):
        file.unlink()
    blocked = "import sys; sys.modules |= dict.fromkeys(['posenc._core', 'posenc._numpy'])\n"
    for result in (run(SHOW, forced, tmp_path), run(blocked + SHOW, forced)):
        message = result.stderr.splitlines()[-1]
        assert message.startswith("ImportError: none of posenc's kernels can be imported (")
        assert "_core, _numpy" in message
        assert "install posenc again" in message
        assert len(message) <= 300
        assert "ModuleNotFoundError: " in result.stderr
        assert "posenc._numpy" in result.stderr


def test_pyinstaller_finds_the_hook_by_its_entry_point() -> None:
    # What the hook does is for `nox -s frozen`, which freezes an application.
    points = importlib.metadata.entry_points(group="pyinstaller40", name="hook-dirs")
    (point,) = [p for p in points if p.value.startswith("posenc.")]
    (folder,) = point.load()()
    assert Path(folder, "hook-posenc.py").is_file()


@compiled
def test_a_broken_core_means_a_warning_and_the_next_best(tmp_path: Path) -> None:
    # ClickHouse/clickhouse-connect#994
    best = _backend.available()[0]
    package = copied(tmp_path)
    for core in package.glob(f"{MODULES[best].removeprefix('posenc.')}.*.so"):
        core.write_bytes(b"not a shared object")
    result = run(SHOW, path=tmp_path)
    assert result.stdout.strip() == _backend.available()[1]
    assert f"RuntimeWarning: posenc's {best} kernels are installed but do not load" in result.stderr
    forced = run(SHOW, best, tmp_path)
    assert forced.returncode != 0
    assert "ImportError" in forced.stderr
    for core in package.glob("_core*.so"):
        core.write_bytes(b"not a shared object")
    result = run(SHOW_ALL, path=tmp_path)
    config = json.loads(result.stdout)
    assert config["backend"] == "numpy"
    assert config["unavailable"]["baseline"].startswith("installed but does not load: ")
    assert result.stderr.count("RuntimeWarning: posenc's baseline kernels") == 1
    assert result.stderr.count("RuntimeWarning: ") == 1


def stub() -> dict[str, list[str]]:
    """The kernels that the contract names, and their parameters."""
    text = importlib.resources.files("posenc").joinpath("_core.pyi").read_text(encoding="utf-8")
    return {
        node.name: [parameter.arg for parameter in node.args.args]
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("kernel", stub())
def test_every_backend_has_every_kernel_of_the_contract(backend: str, kernel: str) -> None:
    module = kernels_of(backend)
    if kernel == "instruction_sets" and backend == "numpy":
        assert not hasattr(module, kernel)  # it needs none
        return
    own = getattr(module, kernel)
    assert own.__module__ == MODULES[backend]
    inspect.signature(own).bind(*stub()[kernel])  # takes so many, in order
