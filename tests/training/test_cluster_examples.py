"""The examples for Slurm and Kubernetes: correct syntax, and a token."""

import subprocess
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_the_example_for_slurm_is_a_shell_script_with_a_token():
    script = EXAMPLES / "slurm.sbatch"
    subprocess.run(["bash", "-n", script], check=True)
    assert "RAY_AUTH_MODE=token" in script.read_text()


def test_the_example_for_kubernetes_is_yaml_with_a_token():
    yaml = pytest.importorskip("yaml")
    parts = list(yaml.safe_load_all((EXAMPLES / "kuberay.yaml").read_text()))
    (job,) = (part for part in parts if part["kind"] == "RayJob")
    spec = job["spec"]["rayClusterSpec"]
    assert spec["authOptions"] == {"mode": "token"}
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        (container,) = group["template"]["spec"]["containers"]
        assert container["image"]
    assert "--engine cluster" in job["spec"]["entrypoint"]
