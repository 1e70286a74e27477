"""Draws on a GPU: one kernel each, with the bits of the chain of tensor operations and of the CPU."""

import pytest
import torch

from synib import keys
from synib.keys import chain, device, ops

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

MANY = torch.tensor([0, 1, -1, 5, 2**63 - 1, -(2**63), 7046029254386353131])
DRAWS = {
    "bits": lambda at, key, n, *where: at.bits(key, n, *where),
    "uniform": lambda at, key, n, *where: at.uniform(key, n, *where),
    "bernoulli": lambda at, key, n, *where: at.bernoulli(key, 0.3, n, *where),
    "normal": lambda at, key, n, *where: at.normal(key, n, *where),
    "permutation": lambda at, key, n, *where: at.permutation(key, n, *where),
}
every_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())


@pytest.fixture(autouse=True)
def _kernels():
    pytest.importorskip("triton", reason="Triton is not installed")
    assert device.usable(torch.device("cuda", torch.cuda.current_device()))


@every_draw
@pytest.mark.parametrize("n", [0, 1, 2, 3, 16, 129, 1000, 1001, 2048, 2049, 100_003])
def test_kernels_give_the_bits_of_the_chain(draw, n):
    many = MANY.cuda()
    for key in (many, many[0], many[3], many[:6].view(2, 3).t(), torch.stack([many, many], 1)[:, 0]):
        assert torch.equal(draw(ops, key, n), draw(chain, key, n))


@every_draw
def test_a_key_on_the_host_gives_the_same_without_waiting(draw):
    where = torch.device("cuda")
    for key in MANY:
        draw(ops, key, 1001, where)
        torch.cuda.set_sync_debug_mode("error")
        try:
            drawn = draw(ops, key, 1001, where)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert torch.equal(drawn, draw(chain, key.cuda(), 1001))


@pytest.mark.parametrize("labels", [[5], [0], [-7, 0, 2**62, 1, 2, 3], [0, 0]])
def test_folding_gives_the_bits_of_the_chain(labels):
    for key in (MANY, MANY[0], MANY[:6].view(2, 3).t()):
        assert torch.equal(ops.fold(key.cuda(), labels).cpu(), chain.fold(key, labels))


@every_draw
def test_draws_under_vmap_in_a_graph_follow_the_key(draw):
    key, run = MANY.cuda(), torch.func.vmap(lambda k: draw(ops, keys.fold(k, "a"), 1001))
    run(key)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run(key)
    for add in range(3):
        key.copy_(MANY + add)
        graph.replay()
        assert torch.equal(out, draw(chain, chain.fold(key, [keys._number("a")]), 1001))


@every_draw
def test_a_compiled_draw_is_that_of_the_chain(draw):
    torch.compiler.reset()
    compiled = torch.compile(lambda key: draw(ops, key, 1001), fullgraph=True)
    drawn, expected = compiled(MANY[3].cuda()), draw(chain, MANY[3].cuda(), 1001)
    if drawn.dtype == torch.float32:  # the compiler has its own logarithm
        torch.testing.assert_close(drawn, expected, rtol=1e-5, atol=1e-5)
    else:
        assert torch.equal(drawn, expected)
