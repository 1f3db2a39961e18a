"""Whole-body control: tasks with an inertia and a Coriolis matrix each, contacts, limits, one program."""
