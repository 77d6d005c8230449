"""Context parallelism: each rank encodes its own part of a long sequence, and knows only its number.

A causal mask gives the last rank of a contiguous split the most work. The zigzag split evens that
out: the sequence is cut into 2n chunks, and rank r of n takes chunks r and 2n - 1 - r. Of packed
documents, Megatron-LM and Transformer Engine cut each ("per sequence"), flash-linear-attention the
row as a whole ("flat", NVIDIA/Megatron-LM#3282). To posenc both are nothing but positions.
"""

from concurrent.futures import ProcessPoolExecutor

import numpy as np
import numpy.typing as npt

import posenc

Array = npt.NDArray[np.float32]
Rows = npt.NDArray[np.intp]

RANKS, LENGTH, D_MODEL = 4, 4096, 256
DOCUMENTS = [1024, 2048, 512, 512]  # lengths, multiples of two chunks for each rank


def contiguous(rank: int, x: Array) -> Array:
    """The rank's rows follow one another: `start` says all."""
    return posenc.add(x, start=rank * (LENGTH // RANKS))


def zigzag(rank: int, x: Array) -> Array:
    """Two runs of rows, into the two halves of one output."""
    chunk = LENGTH // RANKS // 2
    out = np.empty_like(x)
    posenc.add(x[:chunk], start=rank * chunk, out=out[:chunk])
    posenc.add(x[chunk:], start=(2 * RANKS - 1 - rank) * chunk, out=out[chunk:])
    return out


def packed_per_sequence(rank: int, x: Array) -> Array:
    """Every document is cut, and counts from 0: its rows are its positions."""
    return posenc.add(x, positions=np.concatenate([zigzag_rows(n, rank) for n in DOCUMENTS]))


def packed_flat(rank: int, x: Array) -> Array:
    """The packed row is cut: the rank's part of the positions of all."""
    positions = posenc.positions.from_lengths(DOCUMENTS)
    return posenc.add(x, positions=positions[zigzag_rows(LENGTH, rank)])


def zigzag_rows(length: int, rank: int) -> Rows:
    """Which rows of a sequence the rank takes."""
    chunks = np.arange(length).reshape(2 * RANKS, -1)
    return np.concatenate([chunks[rank], chunks[2 * RANKS - 1 - rank]])


def main() -> None:
    x = np.random.default_rng(0).standard_normal((LENGTH, D_MODEL), dtype=np.float32)
    whole = posenc.add(x)
    starts = np.cumsum([0, *DOCUMENTS[:-1]])
    documents = np.concatenate([posenc.add(part) for part in np.split(x, starts[1:])])
    ranks = range(RANKS)

    plain = [np.arange(LENGTH).reshape(RANKS, -1)[rank] for rank in ranks]
    flat = [zigzag_rows(LENGTH, rank) for rank in ranks]
    per_sequence = [
        np.concatenate([s + zigzag_rows(n, rank) for s, n in zip(starts, DOCUMENTS, strict=True)])
        for rank in ranks
    ]
    with ProcessPoolExecutor(2) as pool:
        for work, rows, expected in (
            (contiguous, plain, whole),
            (zigzag, flat, whole),
            (packed_per_sequence, per_sequence, documents),
            (packed_flat, flat, documents),
        ):
            parts = pool.map(work, ranks, [x[r] for r in rows])
            for r, part in zip(rows, parts, strict=True):
                assert np.array_equal(part, expected[r])
            print(f"{work.__name__}: {RANKS} ranks, each on its own, the bits of one process")


if __name__ == "__main__":
    main()
