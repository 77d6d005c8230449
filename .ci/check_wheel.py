"""What a wheel holds: no sources, no foreign libraries, no wide code where it may not run, no
fused multiply-add where a product and a sum are rounded."""

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
            # A fused multiply-add is only ever the error of an exact product, a * b - p. GCC 12 takes
            # others, in spite of -ffp-contract=off, where sums and differences alternate.
            fused = set(re.findall(r"\bvfn?m(?:addsub|subadd|add|sub)", code))
            allowed = set() if name == "_core" else {"vfmsub"}
            assert fused <= allowed, (name, fused)
            if x86 and FORBIDDEN[name]:
                wide = re.search(FORBIDDEN[name], code)
                assert not wide, f"{name} uses {wide and wide[0]}"
    print(
        f"{Path(sys.argv[1]).name}: {len(names)} files, {len(modules)} modules, all as they should be"
    )


if __name__ == "__main__":
    main()
