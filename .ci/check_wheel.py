"""What a wheel holds: no sources, no foreign libraries, no wide code where it may not run."""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# Registers that the code of a module may use, by what its name ends in.
FORBIDDEN = {"_core": "%[yz]mm", "_core_avx2": "%zmm", "_core_avx512": None}
LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0"}


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(sys.argv[1]) as wheel:
            wheel.extractall(folder)
            names = [n for n in wheel.namelist() if ".dist-info/" not in n]
        assert all(n.startswith("posenc/") for n in names), names
        assert {Path(n).suffix for n in names} == {".py", ".pyi", ".typed", ".so"}, names
        modules = {path.name.partition(".")[0]: path for path in Path(folder).glob("posenc/*.so")}
        x86 = "x86_64" in sys.argv[1]
        assert set(modules) == (set(FORBIDDEN) if x86 else {"_core"}), modules
        for name, path in modules.items():
            needed = set(re.findall(r"NEEDED\s+(\S+)", output("objdump", "-p", str(path))))
            assert needed <= LIBRARIES, (name, needed)
            undefined = output("nm", "-D", "--undefined-only", str(path))
            libm = re.findall(
                r"\b(?:sin|cos|sincos|pow|exp|log|fma|_ZGV\w*)f?(?:@\S*)?$", undefined, re.MULTILINE
            )
            assert not libm, (name, libm)
            assert "__stack_chk_fail" in undefined, f"{name} is without -fstack-protector-strong"
            code = output("objdump", "-d", str(path))
            # The wider ones take the errors of exact products from it; same bits are for the tests.
            if name == "_core":
                assert not re.search(r"\bvf[n]?m(?:add|sub)", code), f"{name} needs FMA"
            if x86 and FORBIDDEN[name]:
                wide = re.search(FORBIDDEN[name], code)
                assert not wide, f"{name} uses {wide and wide[0]}"
    print(
        f"{Path(sys.argv[1]).name}: {len(names)} files, {len(modules)} modules, all as they should be"
    )


if __name__ == "__main__":
    main()
