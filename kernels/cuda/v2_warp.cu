// Step 2: a warp reads a key together. Chapter 13.
//
// In step 1 the 32 lanes of a warp read 32 different keys, 4 bytes each: 32 memory sectors for one
// instruction. Here a warp takes one token at a time and its lanes read neighbouring elements: 4 sectors.
// The lanes' partial products are summed by shuffles, without shared memory and without a barrier.
#include "paged.cuh"

extern __shared__ float shared[];
DYNAMIC_SHARED(float, shared)

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ float warp_sum(float x) {
  for (int flip = 16; flip > 0; flip /= 2) x += __shfl_xor_sync(kAllLanes, x, flip);
  return x;
}
__device__ float warp_max(float x) {
  for (int flip = 16; flip > 0; flip /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, flip));
  return x;
}

__global__ void paged_attention_v2(DecodeParams p) {
  int head = blockIdx.x, seq = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int kv_head = head / (p.num_heads / p.num_kv_heads);
  int context = p.context_lens[seq], first = first_visible(p, context);
  const float* query = (const float*)p.query + seq * p.query_stride_seq + head * p.query_stride_head;
  const float* keys = (const float*)p.key_cache;
  const float* values = (const float*)p.value_cache;
  const int* table = p.block_tables + seq * p.table_stride;
  float* scaled_query = shared;                   // read from global memory once, not once a token
  float* warp_results = scaled_query + p.head_dim;
  float* scores = warp_results + 2 * kWarps;

  for (int d = threadIdx.x; d < p.head_dim; d += kThreads) scaled_query[d] = query[d] * p.scale;
  __syncthreads();

  float largest = -INFINITY;
  for (int t = first + warp; t < context; t += kWarps) {
    int block = table[t / p.block_size];
    float score = 0.0f;
    if (in_pool(p, block)) {  // the same for all lanes of the warp
      const float* key = keys + slot_offset(p, block, t % p.block_size, kv_head);
      for (int d = lane; d < p.head_dim; d += 32) score += scaled_query[d] * key[d];
    } else {
      score = NAN;
    }
    score = warp_sum(score);
    if (lane == 0) scores[t - first] = score;
    largest = fmaxf(largest, score);
  }
  if (lane == 0) warp_results[warp] = largest;
  __syncthreads();  // publishes the scores as well
  for (int w = 0; w < kWarps; w++) largest = fmaxf(largest, warp_results[w]);

  float sum = 0.0f;
  for (int t = first + threadIdx.x; t < context; t += kThreads) {
    float weight = expf(scores[t - first] - largest);
    scores[t - first] = weight;
    sum += weight;
  }
  sum = warp_sum(sum);
  if (lane == 0) warp_results[kWarps + warp] = sum;
  __syncthreads();
  sum = 0.0f;
  for (int w = 0; w < kWarps; w++) sum += warp_results[kWarps + w];

  // Neighbouring threads take neighbouring elements: these reads were coalesced in step 1 already.
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
  size_t shared_bytes = (p->head_dim + 2 * kWarps + (size_t)visible) * sizeof(float);
  ALLOW_SHARED(paged_attention_v2, shared_bytes);
  LAUNCH(paged_attention_v2, dim3(p->num_heads, p->num_seqs), dim3(kThreads), shared_bytes, stream, *p);
  return LAUNCH_STATUS();
}
