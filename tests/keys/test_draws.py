"""Every implementation of a draw gives the bits of the chain of tensor operations, whatever looks on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from synib import keys
from synib.keys import chain, host, ops
from synib.training.tape import Tapes

SIZES = [0, 1, 2, 3, 7, 1000, 1001, 2 * host.BLOCK + 1, 4 * host.BLOCK + 3]
MANY = torch.tensor([0, 1, -1, 5, 2**63 - 1, -(2**63), 7046029254386353131])
DRAWS = {
    "bits": lambda at, key, n: at.bits(key, n),
    "uniform": lambda at, key, n: at.uniform(key, n),
    "bernoulli": lambda at, key, n: at.bernoulli(key, 0.3, n),
    "normal": lambda at, key, n: at.normal(key, n),
    "permutation": lambda at, key, n: at.permutation(key, n),
}
every_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
LABELS = [[5], [0], [-7, 0, 2**62], [0, 0], [-(2**63)]]


@every_draw
@pytest.mark.parametrize("n", SIZES)
def test_the_cpu_gives_the_bits_of_the_chain(draw, n):
    for key in (MANY, MANY[0], MANY[3], MANY[6], MANY[:6].view(2, 3).t()):
        drawn, expected = draw(host, key, n), draw(chain, key, n)
        assert torch.equal(drawn, expected)
        assert (drawn.dtype, drawn.is_contiguous()) == (expected.dtype, True)


@pytest.mark.parametrize("p", [0.0, 2.0**-25, 2.0**-24, 1e-9, 0.1, 0.5, 1 - 2.0**-24, 0.9999999999, 1.0])
def test_bernoulli_draws_are_comparisons_of_uniform_ones(p):
    key = keys.key(3)
    expected = keys.uniform(key, (50_001,)) < p
    assert torch.equal(keys.bernoulli(key, p, (50_001,)), expected)
    assert torch.equal(chain.bernoulli(key, p, 50_001), expected)


@pytest.mark.parametrize("labels", LABELS)
def test_folding_on_the_cpu_gives_the_bits_of_the_chain(labels):
    for key in (MANY, *MANY, MANY[:6].view(2, 3).t()):
        assert torch.equal(host.fold(key, labels), chain.fold(key, labels))


@every_draw
@pytest.mark.parametrize("n", [3, 1000])
def test_draws_under_nested_vmap_and_gradients_are_those_of_single_keys(draw, n):
    two = torch.stack([MANY, MANY + 1], 1)
    together = torch.func.vmap(torch.func.vmap(lambda key: draw(ops, key, n)), in_dims=1)(two)
    assert torch.equal(together, draw(chain, two.t(), n))

    def loss(x, key):
        return (x * draw(ops, key, n)).sum()

    slopes = torch.func.vmap(torch.func.grad(loss))(torch.ones(len(MANY)), MANY)
    torch.testing.assert_close(slopes, draw(chain, MANY, n).float().sum(-1), rtol=1e-5, atol=1e-3)


@every_draw
def test_a_traced_draw_is_one_operation_and_can_be_decomposed_into_the_chain(draw):
    def drawn(key):
        return torch.func.vmap(lambda k: draw(ops, k, 9))(key)

    traced = make_fx(drawn)(MANY)
    own = [node for node in traced.graph.nodes if "synib" in str(node.target)]
    assert len(own) == 1
    assert torch.equal(traced(MANY), draw(chain, MANY, 9))
    decomposed = make_fx(drawn, decomposition_table=ops.CHAINS)(MANY)
    assert "synib" not in decomposed.code
    assert torch.equal(decomposed(MANY), draw(chain, MANY, 9))


@every_draw
def test_a_draw_without_values_has_the_right_shape_and_type(draw):
    with torch._subclasses.FakeTensorMode() as mode:
        key = mode.from_tensor(MANY)
        drawn = draw(ops, key, 9)
    expected = draw(chain, MANY, 9)
    assert (drawn.shape, drawn.dtype, drawn.stride()) == (expected.shape, expected.dtype, expected.stride())


@every_draw
def test_a_recorded_draw_is_made_anew_from_the_key(draw):
    key = MANY[3].clone()
    out = draw(ops, key, 11).clone()
    again = Tapes()(lambda: out.copy_(draw(ops, key, 11)))
    key.copy_(MANY[6])
    again()
    assert torch.equal(out, draw(chain, MANY[6], 11))


@every_draw
def test_a_compiled_draw_has_the_same_numbers(draw, monkeypatch):
    monkeypatch.setattr(keys, "_SPREAD", {})
    torch.compiler.reset()
    label = "a label that was never folded"
    compiled = torch.compile(lambda key: draw(ops, keys.fold(key, label, 0), 33), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(MANY[3]), draw(chain, keys.fold(MANY[3], label, 0), 33))


def test_the_kernels_give_the_bits_of_the_chain_in_tritons_interpreter():
    pytest.importorskip("triton", reason="Triton is not installed: its kernels are tested where it is")
    script = Path(__file__).with_name("interpret_kernels.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
