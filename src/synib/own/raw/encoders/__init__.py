"""Frozen encoders of texts, images, sounds and rows of a table, one file each."""
