"""Descriptions of robots: mechanisms in code, URDF, URDF+ and MJCF files."""
