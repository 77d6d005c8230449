"""An application of every family of posenc: frozen, it prints what it prints as a script."""

import hashlib
import json

import numpy as np

import posenc

missing = [name for name in posenc.__all__ if not hasattr(posenc, name)]
assert not missing, missing
x = np.linspace(-1, 1, 4 * 100 * 64, dtype=np.float32).reshape(4, 100, 64)
results = [
    posenc.positional_encoding(100, 64, dtype=np.float32),
    posenc.encode(np.arange(50) / 7 * 1e6, 62),
    posenc.add(x, start=17),
    posenc.embed(np.arange(10), x[0]),
    posenc.Sinusoidal.preset(next(iter(posenc.presets())), 64).encode([1.5]),
    posenc.Learned(x[0]).add(x),
    posenc.Rotary(64).rotate(x),
    posenc.relative_encoding(10, 64),
    posenc.grid_encoding((4, 5), 64),
    posenc.alibi_bias(8, 10, 10),
    posenc.t5_buckets(10, 10),
    posenc.positions.from_lengths([3, 4]),
]
digest = hashlib.sha256(b"".join(np.ascontiguousarray(r).tobytes() for r in results)).hexdigest()
print(json.dumps(posenc.show_config(), indent=2))
print(digest)
