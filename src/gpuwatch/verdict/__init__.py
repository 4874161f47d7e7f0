"""The science of the verdict: pure."""
