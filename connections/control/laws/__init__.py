"""Control laws, references, closed loops, adaptation, the momentum observer."""
