"""Differential equations of a connection, and their integration: geodesics, transport, deviation."""
