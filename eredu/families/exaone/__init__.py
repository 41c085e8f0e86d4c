"""K-EXAONE: windows with rotary positions and full attention without, experts, and heads under Qwen's names."""
