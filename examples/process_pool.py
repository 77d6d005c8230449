"""One table in shared memory, filled in place by the workers of a `multiprocessing.Pool`.

posenc keeps no thread and no lock between calls, so it may be used before a fork, and a row depends
on its position alone, so every worker needs nothing but the `start` of its slice.
"""

import multiprocessing
from multiprocessing.shared_memory import SharedMemory

import numpy as np

import posenc

LENGTH, D_MODEL, ROWS = 8192, 256, 1024


def fill(name: str, start: int) -> None:
    memory = SharedMemory(name)
    table = np.ndarray((LENGTH, D_MODEL), dtype=np.float32, buffer=memory.buf)
    posenc.fill(table[start : start + ROWS], start=start)
    del table  # no view may be left when the memory is closed
    memory.close()


def main() -> None:
    # Used in the parent first, with threads: the hard case for a fork.
    expected = posenc.positional_encoding(LENGTH, D_MODEL, dtype=np.float32, workers=2)

    for method in multiprocessing.get_all_start_methods():
        memory = SharedMemory(create=True, size=expected.nbytes)
        with multiprocessing.get_context(method).Pool(2) as pool:
            pool.starmap(fill, [(memory.name, start) for start in range(0, LENGTH, ROWS)])
        table = np.ndarray(expected.shape, dtype=expected.dtype, buffer=memory.buf)
        assert np.array_equal(table, expected)
        del table
        memory.close()
        memory.unlink()
        print(f"{method}: two workers filled one table in place, the bits of one process")


if __name__ == "__main__":
    main()
