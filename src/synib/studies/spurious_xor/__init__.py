"""Spurious XOR, and the parity of three bits."""
