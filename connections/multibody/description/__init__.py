"""Robots as people write them: mechanisms in code, URDF, URDF+ and MJCF files."""
