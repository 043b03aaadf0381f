"""Mutation fuzzers: damaged packages, ONNX files, profiles and input arrays. The long form is tools/fuzz.py."""
