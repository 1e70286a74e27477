"""Frozen encoders, one file for each: from texts, images, sounds and rows of a table to vectors."""
