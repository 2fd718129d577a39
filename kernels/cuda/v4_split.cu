// Step 4: split the context, share the keys of a head group, load 16 bytes a lane. Chapter 13.
//
// A thread block serves one (KV head, sequence, split of the context) and all query heads of the group at
// once: each key and value is read from memory once, not once a query head. A lane loads 16 bytes; a few
// lanes hold one token, so that a warp works on several tokens side by side. With one long sequence the
// splits fill the GPU, and `combine` adds the splits' results up, weighted by their log-sum-exp.
//
// kPad is the head size rounded up to a power of two: any head size whose rows are multiples of 16 bytes
// works, the lanes beyond it idle. kHeads query heads are held in registers; larger groups take several
// blocks. float, half and bfloat16 come in and go out; all sums are float.
#include "paged.cuh"

constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr float kLog2E = 1.4426950408889634f;

template <class T, int kPad, int kHeads> struct Tile {
  static constexpr int kVec = 16 / sizeof(T);                                  // elements in one load
  static constexpr int kLanes = kPad / kVec < 32 ? kPad / kVec : 32;           // lanes that hold one token
  static constexpr int kLoads = kPad / kVec / kLanes;                          // loads a lane makes for it
  static constexpr int kTokens = 32 / kLanes;                                  // tokens in a warp at a time
  struct alignas(16) Vec { T x[kVec]; };
};

template <class T, int kPad, int kHeads>
__global__ void __launch_bounds__(kThreads) paged_attention_v4(DecodeParams p, int block_shift, int tokens_per_split_min) {
  using Shape = Tile<T, kPad, kHeads>;
  using Vec = typename Shape::Vec;
  constexpr int kVec = Shape::kVec, kLanes = Shape::kLanes, kLoads = Shape::kLoads, kTokens = Shape::kTokens;
  int group = p.num_heads / p.num_kv_heads, tiles = (group + kHeads - 1) / kHeads;
  int kv_head = blockIdx.x / tiles, tile = blockIdx.x % tiles, seq = blockIdx.y, split = blockIdx.z;
  int first_head = kv_head * group + tile * kHeads, heads = min(kHeads, group - tile * kHeads);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, token = lane / kLanes, part = lane % kLanes * kVec;
  const T* keys = (const T*)p.key_cache + kv_head * p.cache_stride_head;
  const T* values = (const T*)p.value_cache + kv_head * p.cache_stride_head;
  const int* table = p.block_tables + seq * p.table_stride;

  // This block's tokens: the visible ones, cut into num_splits pieces.
  int context = p.context_lens[seq], first = first_visible(p, context);
  int per_split = max((context - first + p.num_splits - 1) / p.num_splits, tokens_per_split_min);
  int begin = first + split * per_split, end = min(begin + per_split, context);

  // exp(x) is computed as exp2(x * log2(e)); the factor goes into the query, once.
  float q[kHeads][kLoads][kVec], weighted[kHeads][kLoads][kVec], largest[kHeads], sum[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; h++) {
    largest[h] = -INFINITY;
    sum[h] = 0.0f;
    const T* query = (const T*)p.query + seq * p.query_stride_seq + (first_head + h) * p.query_stride_head;
#pragma unroll
    for (int j = 0; j < kLoads; j++) {
      int d = part + j * kLanes * kVec;
      Vec row{};
      if (h < heads && d < p.head_dim) row = *(const Vec*)(query + d);
#pragma unroll
      for (int i = 0; i < kVec; i++) {
        q[h][j][i] = to_float(row.x[i]) * (p.scale * kLog2E);
        weighted[h][j][i] = 0.0f;
      }
    }
  }

  for (int base = begin; base < end; base += kWarps * kTokens) {
    int t = base + warp * kTokens + token;
    bool mine = t < end, valid = mine;
    int64_t at = part;
    if (mine) {
      int logical = block_shift >= 0 ? t >> block_shift : t / p.block_size;
      int block = __ldg(table + logical);
      valid = in_pool(p, block);
      if (valid) at += slot_offset(p, block, t - logical * p.block_size, 0);
    }
    Vec key[kLoads] = {}, value[kLoads] = {};
#pragma unroll
    for (int j = 0; j < kLoads; j++) {
      if (valid && part + j * kLanes * kVec < p.head_dim) {
        key[j] = *(const Vec*)(keys + at + j * kLanes * kVec);
        value[j] = *(const Vec*)(values + at + j * kLanes * kVec);
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; h++) {
      float score = 0.0f;
#pragma unroll
      for (int j = 0; j < kLoads; j++)
#pragma unroll
        for (int i = 0; i < kVec; i++) score += q[h][j][i] * to_float(key[j].x[i]);
#pragma unroll
      for (int flip = kLanes / 2; flip > 0; flip /= 2) score += __shfl_xor_sync(kAllLanes, score, flip);
      if (mine) {
        if (!valid) score = NAN;
        float new_largest = fmaxf(largest[h], score);
        float rescale = exp2f(largest[h] - new_largest), weight = exp2f(score - new_largest);
        largest[h] = new_largest;
        sum[h] = sum[h] * rescale + weight;
#pragma unroll
        for (int j = 0; j < kLoads; j++)
#pragma unroll
          for (int i = 0; i < kVec; i++)
            weighted[h][j][i] = weighted[h][j][i] * rescale + weight * to_float(value[j].x[i]);
      }
    }
  }

  // Merge the tokens of a warp by shuffles: afterwards the lanes of token 0 hold the warp's result.
#pragma unroll
  for (int flip = kLanes; flip < 32; flip *= 2) {
#pragma unroll
    for (int h = 0; h < kHeads; h++) {
      float other = __shfl_xor_sync(kAllLanes, largest[h], flip), top = fmaxf(largest[h], other);
      float rescale = largest[h] == -INFINITY ? 0.0f : exp2f(largest[h] - top);
      float scaled_sum = sum[h] * rescale;
      sum[h] = scaled_sum + __shfl_xor_sync(kAllLanes, scaled_sum, flip);
      largest[h] = top;
#pragma unroll
      for (int j = 0; j < kLoads; j++)
#pragma unroll
        for (int i = 0; i < kVec; i++) {
          float scaled = weighted[h][j][i] * rescale;
          weighted[h][j][i] = scaled + __shfl_xor_sync(kAllLanes, scaled, flip);
        }
    }
  }

  // Merge the warps through shared memory, one query head at a time to keep it small.
  __shared__ float all_largest[kWarps][kHeads], all_sum[kWarps][kHeads], all_weighted[kWarps][kPad];
  if (lane == 0)
    for (int h = 0; h < kHeads; h++) all_largest[warp][h] = largest[h], all_sum[warp][h] = sum[h];
#pragma unroll
  for (int h = 0; h < kHeads; h++) {
    if (h >= heads) break;  // the same for the whole block
    if (token == 0)
#pragma unroll
      for (int j = 0; j < kLoads; j++)
#pragma unroll
        for (int i = 0; i < kVec; i++) all_weighted[warp][part + j * kLanes * kVec + i] = weighted[h][j][i];
    __syncthreads();  // publishes this head's sums
    int64_t row = (int64_t)seq * p.num_heads + first_head + h;
    for (int d = threadIdx.x; d < p.head_dim; d += kThreads) {
      float top = -INFINITY, total = 0.0f, result = 0.0f;
#pragma unroll
      for (int w = 0; w < kWarps; w++) top = fmaxf(top, all_largest[w][h]);
#pragma unroll
      for (int w = 0; w < kWarps; w++) {
        float rescale = exp2f(all_largest[w][h] - top);  // 0 for a warp without tokens: its largest is -inf
        total += all_sum[w][h] * rescale;
        result += all_weighted[w][d] * rescale;
      }
      result = begin < end ? result / total : 0.0f;
      if (p.num_splits == 1) {
        from_float(((T*)p.out)[seq * p.out_stride_seq + (first_head + h) * p.out_stride_head + d], result);
      } else {
        p.partial_out[(row * p.num_splits + split) * p.head_dim + d] = result;
        if (d == 0) p.partial_lse[row * p.num_splits + split] = begin < end ? top + log2f(total) : -INFINITY;
      }
    }
    __syncthreads();  // the next head writes all_weighted again
  }
}

// One block per (head, sequence): the mean of the splits' results, weighted by 2^lse. Splits without tokens
// have -inf; when all of them have, the sequence is empty and its row is zero.
template <class T> __global__ void combine(DecodeParams p) {
  int64_t row = (int64_t)blockIdx.y * p.num_heads + blockIdx.x;
  const float* lse = p.partial_lse + row * p.num_splits;
  const float* partial = p.partial_out + row * p.num_splits * p.head_dim;
  T* out = (T*)p.out + blockIdx.y * p.out_stride_seq + blockIdx.x * p.out_stride_head;
  float top = -INFINITY, total = 0.0f;
  for (int s = 0; s < p.num_splits; s++) top = fmaxf(top, lse[s]);
  for (int s = 0; s < p.num_splits; s++) total += lse[s] == -INFINITY ? 0.0f : exp2f(lse[s] - top);
  for (int d = threadIdx.x; d < p.head_dim; d += blockDim.x) {
    float result = 0.0f;
    for (int s = 0; s < p.num_splits; s++)
      if (lse[s] != -INFINITY) result += exp2f(lse[s] - top) * partial[s * p.head_dim + d];
    from_float(out[d], total == 0.0f ? 0.0f : result / total);
  }
}

template <class T, int kPad, int kHeads> int launch(const DecodeParams* p, void* stream) {
  int group = p->num_heads / p->num_kv_heads, tiles = (group + kHeads - 1) / kHeads;
  int block_shift = -1;  // integer division is slow on a GPU; a block size is nearly always a power of two
  for (int s = 0; s < 31; s++)
    if (1 << s == p->block_size) block_shift = s;
  int step = kWarps * Tile<T, kPad, kHeads>::kTokens;
  dim3 grid(p->num_kv_heads * tiles, p->num_seqs, p->num_splits);
  auto kernel = paged_attention_v4<T, kPad, kHeads>;
  LAUNCH(kernel, grid, dim3(kThreads), 0, stream, *p, block_shift, step);
  if (int failed = LAUNCH_STATUS()) return failed;
  if (p->num_splits > 1) LAUNCH(combine<T>, dim3(p->num_heads, p->num_seqs), dim3(64), 0, stream, *p);
  return LAUNCH_STATUS();
}

template <class T, int kPad> int pick_heads(const DecodeParams* p, void* stream) {
  int group = p->num_heads / p->num_kv_heads;
#ifndef PAGED_RACE  // `minipaged race` needs two shapes only; sanitizer builds take long to compile
  if (group == 1) return launch<T, kPad, 1>(p, stream);
  if (group == 2) return launch<T, kPad, 2>(p, stream);
  if (group > 4) return launch<T, kPad, 8>(p, stream);
#endif
  return launch<T, kPad, 4>(p, stream);
}

template <class T> int pick_pad(const DecodeParams* p, void* stream) {
  constexpr int kVec = 16 / sizeof(T);
  if (int refused = check_shape(p)) return refused;
  if (p->head_dim % kVec != 0 || p->head_dim > 256) return kBadHeadDim;
  int64_t strides = p->query_stride_seq | p->query_stride_head | p->cache_stride_block | p->cache_stride_slot | p->cache_stride_head;
  uintptr_t addresses = (uintptr_t)p->query | (uintptr_t)p->key_cache | (uintptr_t)p->value_cache;
  if (strides % kVec != 0 || addresses % 16 != 0) return kBadAlignment;
  if (p->num_splits < 1 || (p->num_splits > 1 && !(p->partial_out && p->partial_lse))) return kBadWorkspace;
  if (p->head_dim <= 64) return pick_heads<T, 64>(p, stream);
#ifndef PAGED_RACE
  if (p->head_dim > 128) return pick_heads<T, 256>(p, stream);
#endif
  return pick_heads<T, 128>(p, stream);
}

extern "C" int paged_decode_f32(const DecodeParams* p, void* stream) { return pick_pad<float>(p, stream); }
#ifndef PAGED_RACE
extern "C" int paged_decode_f16(const DecodeParams* p, void* stream) { return pick_pad<__half>(p, stream); }
extern "C" int paged_decode_bf16(const DecodeParams* p, void* stream) { return pick_pad<__nv_bfloat16>(p, stream); }
#endif
