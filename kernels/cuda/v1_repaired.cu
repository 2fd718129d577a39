// Step 1: the source text's kernel, correct. Chapter 13.
//
// Still one thread block per sequence and head, still every score in shared memory, still slow. Repaired:
// the context length instead of whole pages; every thread has its own tokens (scores) and then its own
// elements (output), so nobody writes where another one writes; a barrier wherever one thread reads what
// another wrote; 64-bit offsets; grouped heads; strides; an opt-in for shared memory above 48 KB.
#include "paged.cuh"

extern __shared__ float shared[];
DYNAMIC_SHARED(float, shared)

constexpr int kThreads = 128;

// The sum or the maximum over the block, given to all its threads: halve the number of values until one is left.
template <class Op> __device__ float block_reduce(float x, float* scratch, Op op) {
  int i = threadIdx.x;
  scratch[i] = x;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (i < half) scratch[i] = op(scratch[i], scratch[i + half]);
  }
  __syncthreads();
  x = scratch[0];
  __syncthreads();  // the next reduction writes scratch again: not before everyone has read it
  return x;
}
struct Max { __device__ float operator()(float a, float b) const { return fmaxf(a, b); } };
struct Sum { __device__ float operator()(float a, float b) const { return a + b; } };

__global__ void paged_attention_v1(DecodeParams p) {
  int head = blockIdx.x, seq = blockIdx.y;
  int kv_head = head / (p.num_heads / p.num_kv_heads);
  int context = p.context_lens[seq], first = first_visible(p, context);
  const float* query = (const float*)p.query + seq * p.query_stride_seq + head * p.query_stride_head;
  const float* keys = (const float*)p.key_cache;
  const float* values = (const float*)p.value_cache;
  const int* table = p.block_tables + seq * p.table_stride;
  float* scratch = shared;
  float* scores = shared + kThreads;  // one for each visible position

  // Each thread takes every 128th token.
  float largest = -INFINITY;
  for (int t = first + threadIdx.x; t < context; t += kThreads) {
    int block = table[t / p.block_size];
    float score = NAN;
    if (in_pool(p, block)) {
      const float* key = keys + slot_offset(p, block, t % p.block_size, kv_head);
      score = 0.0f;
      for (int d = 0; d < p.head_dim; d++) score += query[d] * key[d];
    }
    scores[t - first] = score * p.scale;
    largest = fmaxf(largest, score * p.scale);
  }
  largest = block_reduce(largest, scratch, Max());

  float sum = 0.0f;
  for (int t = first + threadIdx.x; t < context; t += kThreads) {
    scores[t - first] = expf(scores[t - first] - largest);  // only this thread's own tokens
    sum += scores[t - first];
  }
  sum = block_reduce(sum, scratch, Sum());  // its barriers also publish the scores to everyone

  // Now each thread takes elements of the head.
  float* out = (float*)p.out + seq * p.out_stride_seq + head * p.out_stride_head;
  for (int d = threadIdx.x; d < p.head_dim; d += kThreads) {
    float total = 0.0f;
    for (int t = first; t < context; t++) {
      int block = table[t / p.block_size];
      if (in_pool(p, block)) total += scores[t - first] * values[slot_offset(p, block, t % p.block_size, kv_head) + d];
    }
    out[d] = context > 0 ? total / sum : 0.0f;
  }
}

extern "C" int paged_decode_f32(const DecodeParams* p, void* stream) {
  if (int refused = check_shape(p)) return refused;
  int visible = p->window > 0 ? min(p->window, p->max_context) : p->max_context;
  size_t shared_bytes = (kThreads + (size_t)visible) * sizeof(float);
  ALLOW_SHARED(paged_attention_v1, shared_bytes);
  LAUNCH(paged_attention_v1, dim3(p->num_heads, p->num_seqs), dim3(kThreads), shared_bytes, stream, *p);
  return LAUNCH_STATUS();
}
