"""Detectors of interactions on a GPU: simulated targets that are compared together have the gains that each has alone."""

import pytest
import torch

from synib.measure.detectors import Detectors, OneOf

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("classes", [2, 3])
def test_targets_are_compared_together_as_each_is_alone(classes):
    torch.manual_seed(0)
    n, columns = 600, 1 if classes == 2 else classes
    modalities = {name: torch.randn(n, 24).cuda() for name in "ab"}
    present = {name: torch.ones(n, dtype=torch.bool).cuda() for name in modalities}
    detectors = Detectors(modalities, present, torch.randint(5, (n,)).cuda())
    signs = (modalities["a"][:, 0] * modalities["b"][:, 0] > 0).long()
    responses = [OneOf(torch.where(torch.rand(n).cuda() < 0.3, 0, signs), classes) for _ in range(4)]
    base = 0.3 * torch.randn(3, n, columns).double().cuda()
    for response, mine in zip(responses, detectors.compare_each(responses, base, base[-1]), strict=True):
        alone = detectors.compare(response, base, base[-1])
        torch.testing.assert_close(mine.loss, alone.loss, rtol=1e-2, atol=5e-3)
        for name, extension in alone.detectors.items():
            torch.testing.assert_close(mine.detectors[name].gain.mean(), extension.gain.mean(), rtol=1e-2, atol=2e-3)
