"""A fitted model as one graph, for programs that have no synib: ONNX, or a program of ``torch.export``."""
