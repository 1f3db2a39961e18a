"""Standalone C for one robot: kernels recorded for the model, written as C files, compiled and called."""
