"""DeepSeek V4: compressed caches; heads and a fused drafter, neither of which eredu runs yet."""
