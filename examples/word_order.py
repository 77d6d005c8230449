"""Why a Transformer needs positions: two sentences of the same words, and who chases whom.

猫が犬を追う: the cat chases the dog. 犬が猫を追う: the dog chases the cat.
"""

import numpy as np
import numpy.typing as npt

import posenc

Array = npt.NDArray[np.float64]

SENTENCES = (["猫", "が", "犬", "を", "追う"], ["犬", "が", "猫", "を", "追う"])
D_MODEL = 16


def self_attention(x: Array, query: Array, key: Array, value: Array) -> Array:
    """One head of scaled dot-product attention (Vaswani et al. 2017, section 3.2.1)."""
    scores = (x @ query) @ (x @ key).T / np.sqrt(D_MODEL)
    weights: Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    attended: Array = weights @ (x @ value)
    return attended


def outputs(with_positions: bool) -> list[dict[str, Array]]:
    """What attention makes of each word, in each of the two sentences."""
    rng = np.random.default_rng(0)
    words = sorted(set(SENTENCES[0]))
    embeddings = dict(zip(words, rng.standard_normal((len(words), D_MODEL)), strict=True))
    weights = rng.standard_normal((3, D_MODEL, D_MODEL)) / np.sqrt(D_MODEL)
    made = []
    for sentence in SENTENCES:
        x = np.stack([embeddings[word] for word in sentence])
        if with_positions:
            posenc.add(x, out=x)
        made.append(dict(zip(sentence, self_attention(x, *weights), strict=True)))
    return made


def largest_differences(with_positions: bool) -> dict[str, float]:
    first, second = outputs(with_positions)
    return {word: float(np.abs(first[word] - second[word]).max()) for word in SENTENCES[0]}


def main() -> None:
    print(f"Two sentences of the same five words: {' and '.join(map(''.join, SENTENCES))}")
    print("(the cat chases the dog; the dog chases the cat).")

    without = largest_differences(with_positions=False)
    print("\nSelf-attention on the embeddings alone. For each word, the largest difference between")
    print("its output in one sentence and in the other:")
    for word, difference in without.items():
        print(f"   {difference:9.1e}  {word}")
    print("Nothing but rounding: the two sentences are the same rows in another order. The model")
    print("cannot know who chases whom.")
    assert max(without.values()) < 1e-14

    with_positions = largest_differences(with_positions=True)
    print("\nThe same with posenc.add(x, out=x) before it:")
    for word, difference in with_positions.items():
        print(f"   {difference:9.1e}  {word}")
    print("Every word's output now depends on where the cat and the dog stand.")
    assert min(with_positions.values()) > 0.01


if __name__ == "__main__":
    main()
