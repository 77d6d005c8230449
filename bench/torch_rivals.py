"""What a user of torch would write instead of posenc: each is timed as it stands and compiled."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

torch.set_num_threads(1)


def formula(positions: Any, table: Any) -> Any:
    """pytorch.org's "Language Modeling with nn.Transformer" tutorial."""
    step = -math.log(10000.0) / table.shape[1]
    div_term = torch.exp(torch.arange(0, table.shape[1], 2) * step)
    table[:, 0::2] = torch.sin(positions.unsqueeze(1) * div_term)
    table[:, 1::2] = torch.cos(positions.unsqueeze(1) * div_term)
    return table


def copy(rows: Any, out: Any) -> Any:
    return rows.clone() if out is None else out.copy_(rows)


def gather(table: Any, at: Any, out: Any) -> Any:
    return torch.index_select(table, 0, at, out=out)


def add(x: Any, rows: Any, at: Any, scale: float, out: Any) -> Any:
    return torch.add(rows if at is None else rows[at], x, alpha=scale, out=out)


def add_masked(x: Any, rows: Any, mask: Any, out: Any) -> Any:
    return torch.add(x, rows * mask.unsqueeze(-1), out=out)


def embed(ids: Any, weight: Any, rows: Any, scale: float, out: Any) -> Any:
    embedded = torch.nn.functional.embedding(ids, weight)
    return torch.add(rows, embedded, alpha=scale, out=out)


def rotate_half(x: Any, cos: Any, sin: Any, at: Any, out: Any) -> Any:
    """As in transformers, but for `out`."""
    cos, sin = (cos, sin) if at is None else (cos[at], sin[at])
    first, second = x.chunk(2, -1)
    rotated = x * cos + torch.cat((-second, first), -1) * sin
    return rotated if out is None else out.copy_(rotated)


def rotate_interleaved(x: Any, cos: Any, sin: Any, at: Any, out: Any) -> Any:
    cos, sin = (cos, sin) if at is None else (cos[at], sin[at])
    a, b, cos, sin = x[..., 0::2], x[..., 1::2], cos[..., 0::2], sin[..., 0::2]
    rotated = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    return rotated if out is None else out.copy_(rotated)


def calls(name: str, *arguments: Any) -> dict[str, Callable[[], Any]]:
    """The function of that name as it stands and compiled; arrays are used where they lie."""
    function: Callable[..., Any] = globals()[name]
    tensors = {id(each): tensor(each) for each in arguments if isinstance(each, np.ndarray)}
    given = [tensors.get(id(each), each) for each in arguments]  # given twice, it stays one tensor
    torch.compiler.reset()  # else the shapes of earlier groups count against its limit
    compiled = torch.compile(function, fullgraph=True, dynamic=False)
    return {"torch": lambda: function(*given), "torch.compile": lambda: compiled(*given)}


def tensor(array: Any) -> Any:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
