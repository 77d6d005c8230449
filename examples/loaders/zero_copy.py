"""Results are fresh, writeable and aligned to 64 bytes: torch and JAX take them without a copy."""

import warnings

import jax
import ml_dtypes
import numpy as np
import torch

import posenc


def main() -> None:
    table = posenc.positional_encoding(2048, 1024, dtype=np.float32)
    address = table.ctypes.data

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns of arrays that cannot be written
        tensor = torch.from_numpy(table)
    assert tensor.data_ptr() == address
    print("torch.from_numpy(table): the same memory, no warning")

    for name, array in (
        ("jax.device_put(table)", jax.device_put(table)),
        ("jax.dlpack.from_dlpack(table)", jax.dlpack.from_dlpack(table)),
    ):
        assert array.unsafe_buffer_pointer() == address
        print(f"{name}: the same memory")

    # And the other way: a tensor's memory is filled in place.
    batch = torch.empty(8, 2048, 1024)
    posenc.fill(batch.numpy())
    assert torch.equal(batch, tensor.expand_as(batch))
    print("posenc.fill(tensor.numpy()): the bits of the table")

    # torch and NumPy have no bfloat16 in common: it passes as the integers of its bits.
    half = posenc.positional_encoding(2048, 1024, dtype=ml_dtypes.bfloat16)
    tensor = torch.from_numpy(half.view(np.int16)).view(torch.bfloat16)
    assert tensor.data_ptr() == half.ctypes.data
    exact = torch.from_numpy(posenc.positional_encoding(2048, 1024))
    assert (tensor.double() - exact).abs().max() <= 2**-9  # half a step below 1: rounded once
    batch = torch.empty(8, 2048, 1024, dtype=torch.bfloat16)
    posenc.fill(batch.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    assert torch.equal(batch, tensor.expand_as(batch))
    print("bfloat16, both ways: the same memory, each entry rounded once")


if __name__ == "__main__":
    main()
