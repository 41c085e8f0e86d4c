"""llama and what is built like it; heads that were trained for a target whose makers published none."""
