"""A fitted model as one graph, for use without synib: ONNX, or a ``torch.export`` program."""
