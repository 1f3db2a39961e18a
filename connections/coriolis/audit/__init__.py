"""The audit of a Coriolis matrix given as a black box."""
