"""Loops closed once per model: which joints are independent, and a configuration in which all loops close."""
