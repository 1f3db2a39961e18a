"""Curves of stationary effort: their pieces, the search, and the result."""
