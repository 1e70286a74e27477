"""Spoken × written digits."""
