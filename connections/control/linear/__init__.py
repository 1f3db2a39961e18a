"""Linear-quadratic regulators, and what they need: reachability, Riccati equations."""
