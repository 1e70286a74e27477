"""Ablations of SynIB's settings."""
