"""How far each library's encoding is from the exact one, far out.

    PYTHONPATH=tests python tests/oracles/parity.py

prints the table; `... | python bench/marks.py examples/conventions.md parity` puts it into the page.
No difference may be larger than what the tests allow.
"""

import importlib.metadata
from collections.abc import Iterator

import numpy as np
import test_diffusers
import test_mlx
import test_positional_encodings
import test_rotary_embedding_torch
import test_timm
import test_transformers
import test_x_transformers
from peers import DOUBLE_ANGLES, Array, Peer, single_angles

import posenc

WIDTH = 64
FAR = {"4k": 1 << 12, "128k": 1 << 17, "1M": 1 << 20}
AROUND = np.arange(-32, 33)


def rounded(positions: Array, width: int) -> Array:
    return posenc.Sinusoidal(width).encode(positions, dtype=np.float32)


LIBRARIES = {
    "posenc": {"in float32": Peer("vaswani", rounded, double=True)},
    "transformers": test_transformers.PEERS,
    "diffusers": test_diffusers.PEERS,
    "positional-encodings": test_positional_encodings.PEERS,
    "x-transformers": test_x_transformers.PEERS,
    "rotary-embedding-torch": test_rotary_embedding_torch.PEERS,
    "timm": test_timm.PEERS,
    "mlx": test_mlx.PEERS,
}


def difference(peer: Peer, position: int) -> float:
    positions = position + AROUND
    found = np.abs(np.asarray(peer.rows(positions, WIDTH)) - peer.ours(positions, WIDTH)).max()
    assert found <= (DOUBLE_ANGLES if peer.double else single_angles(positions[-1]))
    return float(found)


def lines() -> Iterator[str]:
    yield f"| library | encoding | preset | {' | '.join(FAR)} |"
    yield f"|---|---|---|{'--:|' * len(FAR)}"
    for library, peers in LIBRARIES.items():
        alike: dict[tuple[str, str], list[str]] = {}
        for name, peer in peers.items():
            found = " | ".join(f"{difference(peer, position):.0e}" for position in FAR.values())
            alike.setdefault((peer.preset, found), []).append(name)
        for (preset, found), names in alike.items():
            version = importlib.metadata.version(library)
            yield f"| {library} {version} | {', '.join(names)} | {preset} | {found} |"


if __name__ == "__main__":
    for line in lines():
        print(line)
