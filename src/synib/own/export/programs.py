"""The graph as the bytes of a file: a ``torch.export`` program, or ONNX with categories given as texts."""

import contextlib
import importlib.util
import io
import logging
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from synib.own.columns import Array
from synib.own.export.inputs import CATEGORY, Input, category_cells

ROWS = "rows"  # name of the only dynamic dimension
CODE = "code of "  # prefix of an input's name, for the code of its category inside an ONNX graph


def need_onnx() -> None:
    """Raise ``ValueError`` if a package for ONNX is not installed."""
    lacking = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if lacking:
        raise ValueError(f"Export to ONNX needs {' and '.join(lacking)}: pip install 'synib[export]'")


def traced(graph: nn.Module, example: Mapping[str, Tensor], lengths: Collection[str] = ()) -> Any:
    """A ``torch.export`` program for any number of rows, without paths of this machine.

    Args:
        graph: The module, a function of named tensors.
        example: Its inputs.
        lengths: Inputs whose second dimension may also vary.
    """
    rows, length = torch.export.Dim(ROWS), torch.export.Dim.DYNAMIC
    shapes = {name: {0: rows} | ({1: length} if name in lengths else {}) for name in example}
    with _quiet(), torch.no_grad():
        program = torch.export.export(graph, (dict(example),), dynamic_shapes=(shapes,))
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)
    return program


def torch_bytes(program: Any) -> bytes:
    """A ``.pt2`` file."""
    file = io.BytesIO()
    with _quiet():
        torch.export.save(program, file)
    return file.getvalue()


def onnx_bytes(program: Any, inputs: Sequence[Input], outputs: Sequence[str]) -> bytes:
    """An ``.onnx`` file in which a ``LabelEncoder`` converts the texts of categories to codes."""
    import onnx

    names = [CODE + graph_input.name if graph_input.kind == CATEGORY else graph_input.name for graph_input in inputs]
    model = onnx_model(program, names, outputs)
    for graph_input in inputs:
        if graph_input.kind == CATEGORY:
            _take_texts(model, graph_input)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def onnx_model(program: Any, names: Sequence[str], outputs: Sequence[str]) -> Any:
    """A program as an ONNX model, without paths of this machine."""
    import onnx

    with _quiet():
        exported = torch.onnx.export(
            program,
            input_names=list(names),
            output_names=list(outputs),
            dynamo=True,
            verbose=False,
            external_data=False,
        )
    assert exported is not None
    model = onnx.ModelProto.FromString(exported.model_proto.SerializeToString())
    _without_origin(model.graph)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = ROWS
    model.producer_name, model.doc_string = "synib", ""
    return model


def run_torch(content: bytes, rows: Mapping[str, Tensor]) -> list[Array]:
    """The outputs of a ``.pt2`` file."""
    with _quiet(), torch.no_grad():
        return [y.numpy() for y in torch.export.load(io.BytesIO(content)).module()(dict(rows))]


def run_onnx(content: bytes, rows: Mapping[str, Tensor], inputs: Sequence[Input] = ()) -> list[Array]:
    """The outputs of an ``.onnx`` file, by onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    feeds = {name: x.numpy() for name, x in rows.items()}
    for graph_input in inputs:
        if graph_input.kind == CATEGORY:
            feeds[graph_input.name] = np.array(
                [cell or "" for cell in category_cells(graph_input, feeds[graph_input.name])], dtype=object
            )
    return [np.asarray(y) for y in session.run(None, feeds)]


def _take_texts(model: Any, graph_input: Input) -> None:
    """Replace the input of a category's code by an input of its text."""
    from onnx import TensorProto, helper

    graph = model.graph
    (coded,) = [value for value in graph.input if value.name == CODE + graph_input.name]
    place = list(graph.input).index(coded)
    texts = helper.make_tensor_value_info(graph_input.name, TensorProto.STRING, [ROWS])
    codes = {name: code for code, name in enumerate(graph_input.categories)}
    codes[""] = -1  # missing
    try:
        keys = [name.encode() for name in codes]
    except UnicodeEncodeError as e:
        raise ValueError(
            f"{graph_input.name} has a category that is not valid text ({e.reason}): export with --to torch."
        ) from e
    encode = helper.make_node(
        "LabelEncoder", [graph_input.name], [coded.name], domain="ai.onnx.ml",
        keys_strings=keys, values_int64s=list(codes.values()), default_int64=len(graph_input.categories),
    )  # fmt: skip
    values = [texts if i == place else value for i, value in enumerate(graph.input)]
    nodes = [encode, *graph.node]
    for field, content in (("input", values), ("node", nodes)):
        graph.ClearField(field)
        getattr(graph, field).extend(content)
    if not any(version.domain == "ai.onnx.ml" for version in model.opset_import):
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))


def _without_origin(graph: Any) -> None:
    """Remove the exporter's notes on the source code of each node, which contain paths."""
    for field in ("metadata_props", "doc_string"):
        for part in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
            part.ClearField(field)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _without_origin(attribute.g)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress torch's messages about its own code and about packages that are not needed here."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
