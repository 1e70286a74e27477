"""The graph as bytes of a file: a program of ``torch.export``, or ONNX with the texts of categories as inputs."""

import contextlib
import importlib.util
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from synib.own.columns import Array
from synib.own.export.graph import Graph
from synib.own.export.inputs import CATEGORY, Input, category_cells

ROWS = "rows"  # the name of the only dimension that changes
CODE = "code of "  # before an input's name: the number of its category inside of an ONNX graph


def need_onnx() -> None:
    """Raise ``ValueError`` where no ONNX file could be written."""
    lacking = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if lacking:
        raise ValueError(f"Export to ONNX needs {' and '.join(lacking)}: pip install 'synib[export]'")


def traced(graph: Graph, example: Mapping[str, Tensor]) -> Any:
    """A program of ``torch.export`` for any number of rows, without the paths of the machine it was made on."""
    rows = torch.export.Dim(ROWS)
    with _quiet(), torch.no_grad():
        program = torch.export.export(graph, (dict(example),), dynamic_shapes=({name: {0: rows} for name in example},))
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
    """An ``.onnx`` file. Categories are texts in it, which a ``LabelEncoder`` turns into their codes."""
    import onnx

    names = [CODE + one.name if one.kind == CATEGORY else one.name for one in inputs]
    with _quiet():
        made = torch.onnx.export(
            program, input_names=names, output_names=list(outputs), dynamo=True, verbose=False, external_data=False
        )
    assert made is not None
    model = onnx.ModelProto.FromString(made.model_proto.SerializeToString())
    _without_origin(model.graph)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = ROWS
    for one in inputs:
        if one.kind == CATEGORY:
            _take_texts(model, one)
    model.producer_name, model.doc_string = "synib", ""
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def run_torch(content: bytes, rows: Mapping[str, Tensor]) -> list[Array]:
    """The outputs of a ``.pt2`` file."""
    with _quiet(), torch.no_grad():
        return [y.numpy() for y in torch.export.load(io.BytesIO(content)).module()(dict(rows))]


def run_onnx(content: bytes, rows: Mapping[str, Tensor], inputs: Sequence[Input]) -> list[Array]:
    """The outputs of an ``.onnx`` file, by onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    given = {one.name: rows[one.name].numpy() for one in inputs}
    for one in inputs:
        if one.kind == CATEGORY:
            given[one.name] = np.array([cell or "" for cell in category_cells(one, given[one.name])], dtype=object)
    return [np.asarray(y) for y in session.run(None, given)]


def _take_texts(model: Any, one: Input) -> None:
    """Let a graph take a category's text in place of its code."""
    from onnx import TensorProto, helper

    graph = model.graph
    (coded,) = [value for value in graph.input if value.name == CODE + one.name]
    place = list(graph.input).index(coded)
    texts = helper.make_tensor_value_info(one.name, TensorProto.STRING, [ROWS])
    known = {name: code for code, name in enumerate(one.categories)}
    known[""] = -1  # what is missing
    try:
        keys = [name.encode() for name in known]
    except UnicodeEncodeError as e:
        raise ValueError(
            f"{one.name} has a category that is not valid text ({e.reason}): export with --to torch."
        ) from e
    encode = helper.make_node(
        "LabelEncoder", [one.name], [coded.name], domain="ai.onnx.ml",
        keys_strings=keys, values_int64s=list(known.values()), default_int64=len(one.categories),
    )  # fmt: skip
    values = [texts if i == place else value for i, value in enumerate(graph.input)]
    nodes = [encode, *graph.node]
    for field, content in (("input", values), ("node", nodes)):
        graph.ClearField(field)
        getattr(graph, field).extend(content)
    if not any(version.domain == "ai.onnx.ml" for version in model.opset_import):
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))


def _without_origin(graph: Any) -> None:
    """Remove what the exporter notes of the code that each node comes from, and the paths in it."""
    for field in ("metadata_props", "doc_string"):
        for part in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
            part.ClearField(field)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _without_origin(attribute.g)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch says about its own code and about packages that are not needed here."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
