"""ONNX: its operator RotaryEmbedding by our tables, as its reference does it and onnxruntime."""

from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest
from onnx import TensorProto, helper
from peers import EXACT_ANGLES, Array

import posenc

HEADS, LENGTH, DIM, WIDTH = 3, 300, 64, 80


def model(domain: str, inputs: list[str], interleaved: bool) -> onnx.ModelProto:
    node = helper.make_node(
        "RotaryEmbedding",
        inputs,
        ["y"],
        domain=domain,
        interleaved=int(interleaved),
        rotary_embedding_dim=DIM,
        num_heads=HEADS,
    )
    types = {"at": TensorProto.INT64}
    graph = helper.make_graph(
        [node],
        "rotary",
        [
            helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), None)
            for name in inputs
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    versions = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


def given(rotary: Any, interleaved: bool) -> dict[str, Array]:
    columns = slice(None, None, 2) if interleaved else slice(DIM // 2)
    cosine, sine = rotary.tables(1000, dtype=np.float32)
    random = np.random.default_rng(7)
    return {
        "x": random.uniform(-1.0, 1.0, (2, HEADS, LENGTH, WIDTH)).astype(np.float32),
        "cosine": np.ascontiguousarray(cosine[:, columns]),
        "sine": np.ascontiguousarray(sine[:, columns]),
        "at": random.integers(0, 1000, (2, LENGTH)),
    }


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_reference(layout: Any) -> None:
    """The same bits, of any positions and of a part of the columns."""
    rotary = posenc.Rotary(DIM, layout=layout)
    feed = given(rotary, layout == "interleaved")
    operator = model("", ["x", "cosine", "sine", "at"], layout == "interleaved")
    theirs = onnx.reference.ReferenceEvaluator(operator).run(None, feed)[0]
    where = feed["at"][:, np.newaxis]
    assert np.array_equal(theirs, rotary.rotate(feed["x"], positions=where))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_onnxruntime(domain: str, layout: Any) -> None:
    """Near, as it may add and multiply at once."""
    rotary = posenc.Rotary(DIM, layout=layout)
    feed = given(rotary, layout == "interleaved")
    order = ["x", "at", "cosine", "sine"] if domain else ["x", "cosine", "sine", "at"]
    session = onnxruntime.InferenceSession(
        model(domain, order, layout == "interleaved").SerializeToString(),
        providers=["CPUExecutionProvider"],
    )
    theirs = session.run(None, feed)[0]
    ours = rotary.rotate(feed["x"], positions=feed["at"][:, np.newaxis])
    np.testing.assert_allclose(theirs, ours, rtol=0.0, atol=EXACT_ANGLES)
