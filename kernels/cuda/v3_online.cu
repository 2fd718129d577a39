// Step 3: online softmax. Shared memory no longer grows with the context. Chapter 13.
//
// Each warp walks its tokens once and keeps, in registers, the largest score so far, the sum of weights and
// the weighted sum of values; a larger score scales the two sums down. Key and value of a token are read
// together, and no score is ever stored. At the end the four warps' results are merged: one barrier.
#include "paged.cuh"

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kMaxHeadDim = 256, kPerLane = kMaxHeadDim / 32;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ float warp_sum(float x) {
  for (int flip = 16; flip > 0; flip /= 2) x += __shfl_xor_sync(kAllLanes, x, flip);
  return x;
}

__global__ void paged_attention_v3(DecodeParams p) {
  int head = blockIdx.x, seq = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int kv_head = head / (p.num_heads / p.num_kv_heads);
  int context = p.context_lens[seq];
  const float* query = (const float*)p.query + seq * p.query_stride_seq + head * p.query_stride_head;
  const float* keys = (const float*)p.key_cache;
  const float* values = (const float*)p.value_cache;
  const int* table = p.block_tables + seq * p.table_stride;

  // Lane l holds elements l, l + 32, l + 64, ... of the query and of the result.
  float q[kPerLane], weighted[kPerLane], largest = -INFINITY, sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kPerLane; i++) {
    int d = lane + 32 * i;
    q[i] = d < p.head_dim ? query[d] * p.scale : 0.0f;
    weighted[i] = 0.0f;
  }

  for (int t = first_visible(p, context) + warp; t < context; t += kWarps) {
    int block = table[t / p.block_size];
    bool valid = in_pool(p, block);
    int64_t at = valid ? slot_offset(p, block, t % p.block_size, kv_head) : 0;
    float score = valid ? 0.0f : NAN;
#pragma unroll
    for (int i = 0; i < kPerLane; i++)
      if (lane + 32 * i < p.head_dim && valid) score += q[i] * keys[at + lane + 32 * i];
    score = warp_sum(score);

    float new_largest = fmaxf(largest, score);
    float rescale = expf(largest - new_largest), weight = expf(score - new_largest);
    sum = sum * rescale + weight;
#pragma unroll
    for (int i = 0; i < kPerLane; i++) {
      weighted[i] *= rescale;
      if (lane + 32 * i < p.head_dim && valid) weighted[i] += weight * values[at + lane + 32 * i];
    }
    largest = new_largest;
  }

  __shared__ float all_largest[kWarps], all_sum[kWarps], all_weighted[kWarps][kMaxHeadDim];
  if (lane == 0) all_largest[warp] = largest, all_sum[warp] = sum;
#pragma unroll
  for (int i = 0; i < kPerLane; i++)
    if (lane + 32 * i < p.head_dim) all_weighted[warp][lane + 32 * i] = weighted[i];
  __syncthreads();

  float* out = (float*)p.out + seq * p.out_stride_seq + head * p.out_stride_head;
  for (int d = threadIdx.x; d < p.head_dim; d += kThreads) {
    float top = -INFINITY, total = 0.0f, result = 0.0f;
    for (int w = 0; w < kWarps; w++) top = fmaxf(top, all_largest[w]);
    for (int w = 0; w < kWarps; w++) {
      float rescale = expf(all_largest[w] - top);  // 0 for a warp without tokens: its largest is -inf
      total += all_sum[w] * rescale;
      result += all_weighted[w][d] * rescale;
    }
    out[d] = context > 0 ? result / total : 0.0f;
  }
}

extern "C" int paged_decode_f32(const DecodeParams* p, void* stream) {
  if (int refused = check_shape(p)) return refused;
  if (p->head_dim > kMaxHeadDim) return kBadHeadDim;
  LAUNCH(paged_attention_v3, dim3(p->num_heads, p->num_seqs), dim3(kThreads), 0, stream, *p);
  return LAUNCH_STATUS();
}
