"""Evidence for what nanomem promises, which anyone can gather again: `scripts/prove`; see docs/proofs.md."""
