#!/usr/bin/env python3
"""Writes net.onnx: a residual network of random weights, for pictures of 16 x 16. It needs onnx and NumPy of PyPI."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

random = np.random.default_rng(1)
weights, nodes = [], []


def weight(name, *shape):
    array = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    weights.append(numpy_helper.from_array(array.astype(np.float32), name))
    return name


def node(kind, inputs, output, **attributes):
    nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
    return output


def conv(x, name, inputs, outputs):
    return node("Conv", [x, weight(f"{name}.weight", outputs, inputs, 3, 3), weight(f"{name}.bias", outputs)],
                f"{name}/conv", pads=[1, 1, 1, 1])


h = node("Relu", [conv("pictures", "stem", 3, 8)], "stem/relu")
for i in range(6):
    a = node("Relu", [conv(h, f"block{i}.first", 8, 8)], f"block{i}/relu")
    h = node("Relu", [node("Add", [conv(a, f"block{i}.second", 8, 8), h], f"block{i}/sum")], f"block{i}/out")
h = node("Flatten", [node("GlobalAveragePool", [h], "pool")], "flat")
node("Gemm", [h, weight("head.weight", 10, 8), weight("head.bias", 10)], "scores", transB=1)
graph = helper.make_graph(
    nodes, "net", [helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["N", 3, 16, 16])],
    [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 10])], weights)
save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "net.onnx")
