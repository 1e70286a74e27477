"""Texts, images, sounds and tables of a user's file as vectors: recognised, encoded by frozen encoders, cached on disk."""
