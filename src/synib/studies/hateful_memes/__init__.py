"""Hateful Memes."""
