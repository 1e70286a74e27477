"""Attention fusion of spoken and written digits as tokens, by the rules of the fair comparison."""
