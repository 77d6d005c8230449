"""Dask and Zarr: a table that fits no worker, written chunk by chunk by two of them.

Each chunk follows from its place alone. Storing a table is rarely worth it, as posenc makes rows
about as fast as memory takes them; where it is, this is the way.
"""

import tempfile
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import zarr
from distributed import Client, LocalCluster, progress
from tqdm import tqdm

import posenc

LENGTH, D_MODEL, ROWS = 1 << 19, 1024, 1 << 14  # 2 GiB in chunks of 64 MiB
MEMORY = "600MiB"  # of a worker; Dask restarts one that needs more


def rows(block_info: dict[Any, Any]) -> npt.NDArray[np.float32]:
    (first, last), _ = block_info[None]["array-location"]
    return posenc.positional_encoding(last - first, D_MODEL, start=first, dtype=np.float32)


def main() -> None:
    # Without `meta`, Dask would call the function on a block of its own to learn what it returns.
    meta = np.empty((0, 0), dtype=np.float32)
    table = da.map_blocks(rows, chunks=((ROWS,) * (LENGTH // ROWS), (D_MODEL,)), meta=meta)
    with tempfile.TemporaryDirectory() as folder:
        stored = zarr.create_array(
            f"{folder}/table.zarr",
            shape=table.shape,
            chunks=(ROWS, D_MODEL),  # Dask's own: no two tasks write one file
            dtype=table.dtype,
            compressors=None,
        )
        with (
            LocalCluster(
                n_workers=2, threads_per_worker=1, memory_limit=MEMORY, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            writing = client.compute(da.store(table, stored, lock=False, compute=False))
            progress(writing)
            writing.result()

        expected = np.empty((ROWS, D_MODEL), dtype=np.float32)
        for start in tqdm(range(0, LENGTH, ROWS), desc="reading back"):
            posenc.fill(expected, start=start)
            assert np.array_equal(stored[start : start + ROWS], expected)
    print(f"{table.nbytes >> 20} MiB by two workers of {MEMORY}, the bits of one process")


if __name__ == "__main__":
    main()
