"""The engine on torch: paged KV tensors, attention, the decoder, sampling, `LLM` (chapters 01, 04 and 11).

One step crosses these files from top to bottom, with plain data between them: `engine` asks the scheduler
for a plan, `executor` turns the plan into tensors, `model` computes with `attention` over `kv_pool`,
`sampler` chooses the tokens. Nothing is imported here, so that looking at one file doesn't load torch.
"""
