"""Plants that are not ours: the simulators that a control law is tried on."""
