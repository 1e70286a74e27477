"""Irony on RAVDESS and CREMA-D: the face and the voice contradict each other."""
