"""What `eredu validate` measures on a real checkpoint: statics, numerics, state, path, law and benefit."""
