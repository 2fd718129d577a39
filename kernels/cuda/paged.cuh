// What every paged-attention kernel of this folder shares: its arguments, number formats and refusals.
//
// All steps of the ladder v0 .. v4 have one C signature, so that one Python wrapper, one race driver and one
// traffic counter serve them all:
//     extern "C" int paged_decode_f32(const DecodeParams* p, void* stream);
// The result is 0, a negative Refusal (nothing was launched), or the launch's own error code.
#pragma once
#include "cuda_on_cpu.h"

// Strides count elements, not bytes. The last dimension (head_dim) is always contiguous.
struct DecodeParams {
  void* out;                   // [num_seqs, num_heads, head_dim]
  const void* query;           // [num_seqs, num_heads, head_dim]
  const void* key_cache;       // [num_blocks, block_size, num_kv_heads, head_dim]
  const void* value_cache;
  const int* block_tables;     // [num_seqs, max_blocks]
  const int* context_lens;     // [num_seqs]
  float* partial_out;          // split kernels: [num_seqs, num_heads, num_splits, head_dim]
  float* partial_lse;          //                [num_seqs, num_heads, num_splits]
  int64_t out_stride_seq, out_stride_head;
  int64_t query_stride_seq, query_stride_head;
  int64_t cache_stride_block, cache_stride_slot, cache_stride_head;
  int64_t table_stride;
  int num_seqs, num_heads, num_kv_heads, head_dim;
  int num_blocks, block_size, max_blocks, max_context;
  int window;                  // 0: no window
  int num_splits;
  float scale;
};

// The same list stands in kernels/cuda_ops.py, with a sentence for each.
enum Refusal { kBadShape = -1, kBadHeadDim = -2, kBadAlignment = -3, kBadWorkspace = -4, kNotTaken = -5 };

// Where slot (block, offset) of one KV head begins. 64-bit from the first factor on: 2^31 elements are only
// 26,215 blocks of a 13B model's layer.
__device__ inline int64_t slot_offset(const DecodeParams& p, int64_t block, int offset, int kv_head) {
  return block * p.cache_stride_block + offset * p.cache_stride_slot + kv_head * p.cache_stride_head;
}

// First visible position: the newest token stands at context - 1 and sees `window` tokens, itself included.
__device__ inline int first_visible(const DecodeParams& p, int context) {
  return p.window > 0 && context > p.window ? context - p.window : 0;
}

// A table entry outside the pool must not become a read outside the pool, and must not look like data either:
// the kernels give NaN to whoever attends to it.
__device__ inline bool in_pool(const DecodeParams& p, int block) { return block >= 0 && block < p.num_blocks; }

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void from_float(float& to, float x) { to = x; }
__device__ inline void from_float(__half& to, float x) { to = __float2half(x); }
__device__ inline void from_float(__nv_bfloat16& to, float x) { to = __float2bfloat16(x); }

inline int check_shape(const DecodeParams* p) {
  bool sane = p->num_seqs > 0 && p->num_heads > 0 && p->num_kv_heads > 0 && p->head_dim > 0 &&
              p->block_size > 0 && p->num_blocks > 0 && p->max_blocks > 0 &&
              p->num_heads % p->num_kv_heads == 0;
  return sane ? 0 : kBadShape;
}
