"""The lab (extra `lab`): small tasks and policies in JAX, and every study of the paper and the talk."""
