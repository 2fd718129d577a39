"""Right answers of different structure for the lab of chapter 13. Each cell is a whole answer."""

# %% cuda.roofline: a number of the cache at a time
def decode_roofline(num_heads, num_kv_heads, head_dim, context, number_bytes, peak, bandwidth):
    group = num_heads // num_kv_heads
    intensity = 2 * group / number_bytes
    feed = intensity * bandwidth
    attainable = feed if feed < peak else peak
    numbers = 2 * num_kv_heads * head_dim * context
    return intensity, attainable, numbers * 2 * group / attainable


# %% cuda.roofline: two times, the longer one counts
def decode_roofline(num_heads, num_kv_heads, head_dim, context, number_bytes, peak, bandwidth):
    operations = 2 * 2 * num_heads * head_dim * context
    moved = (num_kv_heads + num_kv_heads) * head_dim * context * number_bytes
    seconds = max(operations / peak, moved / bandwidth)
    return [operations / moved, operations / seconds, seconds]


# %% cuda.roofline: summed over heads
def decode_roofline(num_heads, num_kv_heads, head_dim, context, number_bytes, peak, bandwidth):
    work = sum(4 * head_dim * context for _ in range(num_heads))
    load = sum(2 * head_dim * context * number_bytes for _ in range(num_kv_heads))
    rate = sorted([peak, work / load * bandwidth])[0]
    return work / load, rate, work / rate


# %% cuda.mask: three branches
def page_scores_source():
    return """
__global__ void page_scores(float* out, Floats keys, const int* table, int page, int context, int capacity) {
  int t = blockIdx.x * 32 + threadIdx.x;
  if (t < context) {
    int block = table[t / page];
    out[t] = keys[block * page + t - t / page * page];
  } else if (t < capacity) {
    out[t] = -INFINITY;
  }
}
"""


# %% cuda.mask: a device function and a conditional expression
def page_scores_source():
    return """
__device__ int slot(const int* table, int page, int t) { return table[t / page] * page + t % page; }

__global__ void page_scores(float* out, Floats keys, const int* table, int page, int context, int capacity) {
  const int t = threadIdx.x + blockDim.x * blockIdx.x;
  if (t < capacity) out[t] = t < context ? keys[slot(table, page, t)] : -INFINITY;
}
"""


# %% cuda.mask: a loop over the grid
def page_scores_source():
    lines = ["__global__ void page_scores(float* out, Floats keys, const int* table, int page, int context,",
             "                            int capacity) {",
             "  for (int t = blockIdx.x * blockDim.x + threadIdx.x; t < capacity; t += gridDim.x * blockDim.x) {",
             "    out[t] = -INFINITY;",
             "    if (t >= context) continue;",
             "    out[t] = keys[table[t / page] * page + t % page];",
             "  }", "}"]
    return "\n".join(lines)


# %% cuda.barrier: a barrier behind each write
def normalise_source():
    return """
__global__ void normalise(float* out, const float* in, int n) {
  __shared__ float partial[128];
  int i = threadIdx.x;
  partial[i] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (i < half) partial[i] += partial[i + half];
    __syncthreads();
  }
  if (i < n) out[i] = in[i] / partial[0];
}
"""


# %% cuda.barrier: every thread adds all
def normalise_source():
    return """
__global__ void normalise(float* out, const float* in, int n) {
  __shared__ float all[128];
  int i = threadIdx.x;
  if (i < n) all[i] = in[i];
  __syncthreads();
  float sum = 0.0f;
  for (int other = 0; other < n; other++) sum += all[other];
  if (i < n) out[i] = all[i] / sum;
}
"""


# %% cuda.barrier: shuffles inside a warp, one barrier between warps
def normalise_source():
    return """
__global__ void normalise(float* out, const float* in, int n) {
  __shared__ float of_warp[4];
  int i = threadIdx.x, warps = blockDim.x / 32;
  float sum = i < n ? in[i] : 0.0f;
  for (int flip = 16; flip > 0; flip /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, flip);
  if (i % 32 == 0) of_warp[i / 32] = sum;
  __syncthreads();
  float total = 0.0f;
  for (int w = 0; w < warps; w++) total += of_warp[w];
  if (i < n) out[i] = in[i] / total;
}
"""


# %% cuda.offsets: strides of 64 bits
def slot_offsets_source():
    return """
__global__ void slot_offsets(int64_t* out, const int* table, int context, int page, int heads, int head_dim, int head) {
  int64_t stride_slot = heads * head_dim, stride_block = stride_slot * page;
  int t = threadIdx.x;
  if (t < context) out[t] = table[t / page] * stride_block + t % page * stride_slot + head * head_dim;
}
"""


# %% cuda.offsets: one cast in front
def slot_offsets_source():
    return """
__global__ void slot_offsets(int64_t* out, const int* table, int context, int page, int heads, int head_dim, int head) {
  if (threadIdx.x < (unsigned)context) {
    int p = threadIdx.x;
    out[p] = (((int64_t)table[p / page] * page + p % page) * heads + head) * head_dim;
  }
}
"""


# %% cuda.offsets: size_t, added up
def slot_offsets_source():
    return """
__global__ void slot_offsets(int64_t* out, const int* table, int context, int page, int heads, int head_dim, int head) {
  for (int t = threadIdx.x; t < context; t += blockDim.x) {
    size_t token = (size_t)heads * head_dim;
    size_t at = token * page * table[t / page];
    at += token * (t % page);
    at += (size_t)head * head_dim;
    out[t] = (int64_t)at;
  }
}
"""


# %% cuda.coalesced: shuffle down, one lane has the sum
def scores_source():
    return """
__global__ void scores(float* out, Floats keys, const float* query, int num_keys, int head_dim) {
  for (int k = 0; k < num_keys; k++) {
    float part = 0.0f;
    for (int start = 0; start < head_dim; start += 32)
      part += keys[k * head_dim + start + threadIdx.x] * query[start + threadIdx.x];
    for (int by = 16; by > 0; by /= 2) part += __shfl_down_sync(0xffffffffu, part, by);
    if (threadIdx.x == 0) out[k] = part;
  }
}
"""


# %% cuda.coalesced: parts in shared memory
def scores_source():
    return """
__global__ void scores(float* out, Floats keys, const float* query, int num_keys, int head_dim) {
  __shared__ float parts[32];
  int lane = threadIdx.x;
  for (int k = 0; k < num_keys; k++) {
    float part = 0.0f;
    for (int d = lane; d < head_dim; d += 32) part += keys[k * head_dim + d] * query[d];
    parts[lane] = part;
    __syncthreads();
    if (lane == 0) {
      float sum = 0.0f;
      for (int l = 0; l < 32; l++) sum += parts[l];
      out[k] = sum;
    }
    __syncthreads();
  }
}
"""


# %% cuda.coalesced: keys staged in shared memory, then one key a lane
def scores_source():
    return """
__global__ void scores(float* out, Floats keys, const float* query, int num_keys, int head_dim) {
  __shared__ float tile[32 * 129];
  int lane = threadIdx.x;
  for (int first = 0; first < num_keys; first += 32) {
    int count = min(32, num_keys - first);
    for (int i = lane; i < count * head_dim; i += 32)
      tile[i / head_dim * 129 + i % head_dim] = keys[first * head_dim + i];
    __syncthreads();
    if (lane < count) {
      float sum = 0.0f;
      for (int d = 0; d < head_dim; d++) sum += tile[lane * 129 + d] * query[d];
      out[first + lane] = sum;
    }
    __syncthreads();
  }
}
"""
