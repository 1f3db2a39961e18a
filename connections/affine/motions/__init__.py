"""Differential equations of a connection: geodesics, transport, deviation, and who integrates them."""
