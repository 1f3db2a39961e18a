"""Linear algebra of the geometry: units of rows, positive definite systems, least squares."""
