// Moving keys and values: into their slots (reshape_and_cache) and from block to block (copy_blocks). Chapter 13.
//
// Nothing is computed here, so an element is just its bytes: one kernel for 2-byte and one for 4-byte numbers.
#include "paged.cuh"

struct CacheParams {
  const void* key;             // [num_tokens, num_kv_heads, head_dim]
  const void* value;
  void* key_cache;             // [num_blocks, block_size, num_kv_heads, head_dim]
  void* value_cache;
  const int64_t* slots;        // [num_tokens]; negative: padding, skip
  int64_t key_stride_token, key_stride_head, value_stride_token, value_stride_head;
  int64_t cache_stride_block, cache_stride_slot, cache_stride_head;
  int num_tokens, num_kv_heads, head_dim, block_size;
};

template <class Element> __global__ void reshape_and_cache_kernel(CacheParams p) {
  int64_t token = blockIdx.x, slot = p.slots[token];
  if (slot < 0) return;
  int64_t block = slot / p.block_size, offset = slot % p.block_size;
  for (int i = threadIdx.x; i < p.num_kv_heads * p.head_dim; i += blockDim.x) {
    int head = i / p.head_dim, d = i % p.head_dim;
    int64_t to = block * p.cache_stride_block + offset * p.cache_stride_slot + head * p.cache_stride_head + d;
    ((Element*)p.key_cache)[to] = ((const Element*)p.key)[token * p.key_stride_token + head * p.key_stride_head + d];
    ((Element*)p.value_cache)[to] = ((const Element*)p.value)[token * p.value_stride_token + head * p.value_stride_head + d];
  }
}

// Block sources[i] of one cache becomes block targets[i] of another. Inside one cache the caller makes sure
// that no target is also a source; otherwise it goes through a staging cache, in two calls.
template <class Element>
__global__ void copy_blocks_kernel(Element* to, const Element* from, const int64_t* sources, const int64_t* targets,
                                   int64_t elements) {
  int64_t read = sources[blockIdx.x] * elements, write = targets[blockIdx.x] * elements;
  for (int64_t i = blockIdx.y * (int64_t)blockDim.x + threadIdx.x; i < elements; i += (int64_t)gridDim.y * blockDim.x)
    to[write + i] = from[read + i];
}

extern "C" int reshape_and_cache(const CacheParams* p, int element_size, void* stream) {
  if (p->num_tokens <= 0 || p->num_kv_heads <= 0 || p->head_dim <= 0 || p->block_size <= 0) return kBadShape;
  dim3 grid(p->num_tokens), threads(64);
  if (element_size == 2) LAUNCH(reshape_and_cache_kernel<uint16_t>, grid, threads, 0, stream, *p);
  else if (element_size == 4) LAUNCH(reshape_and_cache_kernel<uint32_t>, grid, threads, 0, stream, *p);
  else return kNotTaken;
  return LAUNCH_STATUS();
}

// `bytes` is the size of one block; a multiple of 4 because two 2-byte numbers make the smallest head.
extern "C" int copy_blocks(void* to, const void* from, const int64_t* sources, const int64_t* targets, int num_pairs,
                           int64_t bytes, void* stream) {
  if (num_pairs <= 0 || bytes <= 0) return kBadShape;
  dim3 grid(num_pairs, 4), threads(64);
  if (bytes % 16 == 0 && ((uintptr_t)to | (uintptr_t)from) % 16 == 0)
    LAUNCH(copy_blocks_kernel<uint4>, grid, threads, 0, stream, (uint4*)to, (const uint4*)from, sources, targets, bytes / 16);
  else
    LAUNCH(copy_blocks_kernel<uint8_t>, grid, threads, 0, stream, (uint8_t*)to, (const uint8_t*)from, sources, targets, bytes);
  return LAUNCH_STATUS();
}
