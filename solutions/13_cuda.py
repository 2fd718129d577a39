# %% [markdown]
# # Lab 13 · CUDA
#
# One calculation and four kernels. You write CUDA C++ as text; g++ compiles it, and a small GPU made of software runs it on
# your CPU, one fiber a thread. Beside the result it looks for races: two threads that use the same memory with no barrier
# between them. So a kernel that happens to work does not pass. It needs Linux with g++; elsewhere the checks say so.
#
# `Floats` in a kernel's arguments is `const float*` on a real GPU. Here it notes who reads what.

# %% tags=["setup"]
from minipaged.lab import check, hint

# %% [markdown]
# {{exercise cuda.roofline}}
#
# The roofline (屋顶线) has two roofs: `peak` operations a second, and what `bandwidth` bytes a second can feed. Arithmetic
# intensity (算术强度) is operations a byte.
#
# - One decode step of one request reads the keys and values of all `context` tokens: `num_kv_heads` heads of `head_dim`
#   numbers of `number_bytes` bytes, each once. A multiplication and an addition are two operations.
# - Return `(intensity, attainable, seconds)`: operations a byte, operations a second at best, and the time of the step.
#
# **Example.** 4 query heads and 4 KV heads of 64 numbers, 7 tokens, 2 bytes a number: 4 · 4 · 64 · 7 = 7168 operations and
# 2 · 4 · 64 · 7 · 2 = 7168 bytes, so intensity 1. With peak 1000 and bandwidth 100 at most 100 operations a second are
# made, and the step takes 71.68 s. The intensity does not depend on the context; it does depend on how many
# query heads share a KV head.

# %% nbgrader={"grade": false, "grade_id": "cuda_roofline", "locked": false, "schema_version": 3, "solution": true, "task": false}
def decode_roofline(num_heads, num_kv_heads, head_dim, context, number_bytes, peak, bandwidth):
    """(operations a byte, attainable operations a second, seconds) of the attention of one decode step."""
    ### BEGIN SOLUTION
    operations = 4 * num_heads * head_dim * context
    moved = 2 * num_kv_heads * head_dim * context * number_bytes
    intensity = operations / moved
    attainable = min(peak, intensity * bandwidth)
    return intensity, attainable, operations / attainable
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "cuda_roofline_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("cuda.roofline")

# %% [markdown]
# {{exercise cuda.mask}}
#
# Return the text of this kernel, with its body filled in:
#
# ```
# __global__ void page_scores(float* out, Floats keys, const int* table, int page, int context, int capacity) {
#   int t = blockIdx.x * blockDim.x + threadIdx.x;   // the position of this thread
#   ...
# }
# ```
#
# - `keys` has one number a slot. Position t lies in slot `table[t / page] * page + t % page`.
# - `out` has `capacity` places, `page` for each entry of the table. Place t gets the number of position t, and `-INFINITY`
#   from `context` on, as before a softmax.
# - There are whole blocks of 32 threads, so some threads have no place in `out`. Entries of the table behind the context are
#   -1 or old: do not follow them.
#
# **Example.** Pages of 4, table `[2, 0, -1]`, context 7, capacity 12: threads 0 to 3 read slots 8 to 11, threads 4 to 6 read
# slots 0 to 2, threads 7 to 11 write `-INFINITY`, threads 12 to 31 do nothing.

# %% nbgrader={"grade": false, "grade_id": "cuda_mask", "locked": false, "schema_version": 3, "solution": true, "task": false}
def page_scores_source():
    """The kernel as text."""
    ### BEGIN SOLUTION
    return r'''
__global__ void page_scores(float* out, Floats keys, const int* table, int page, int context, int capacity) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= capacity) return;
  float score = -INFINITY;
  if (t < context) score = keys[table[t / page] * page + t % page];
  out[t] = score;
}
'''
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "cuda_mask_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("cuda.mask")

# %% [markdown]
# {{exercise cuda.barrier}}
#
# This kernel divides numbers by their sum, the second half of a softmax. One block, its threads a power of two. It adds in
# a tree: with 64 threads, thread i adds `partial[i + 32]`, then `partial[i + 16]`, and so on until `partial[0]` is the sum.
#
# ```
# __global__ void normalise(float* out, const float* in, int n) {
#   __shared__ float partial[128];
#   int i = threadIdx.x;
#   partial[i] = i < n ? in[i] : 0.0f;
#   for (int half = blockDim.x / 2; half > 0; half /= 2) {
#     if (i < half) partial[i] += partial[i + half];
#   }
#   if (i < n) out[i] = in[i] / partial[0];
# }
# ```
#
# It has no barrier (屏障), `__syncthreads()`. Return its text with the barriers that it needs.
#
# **Example.** 64 threads for `[4, 3, 1]`: `out` is `[0.5, 0.375, 0.125]`, whichever thread runs first.

# %% nbgrader={"grade": false, "grade_id": "cuda_barrier", "locked": false, "schema_version": 3, "solution": true, "task": false}
def normalise_source():
    """The repaired kernel as text."""
    ### BEGIN SOLUTION
    return r'''
__global__ void normalise(float* out, const float* in, int n) {
  __shared__ float partial[128];
  int i = threadIdx.x;
  partial[i] = i < n ? in[i] : 0.0f;
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (i < half) partial[i] += partial[i + half];
  }
  __syncthreads();
  if (i < n) out[i] = in[i] / partial[0];
}
'''
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "cuda_barrier_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("cuda.barrier")

# %% [markdown]
# {{exercise cuda.offsets}}
#
# The pool is `[blocks, page, heads, head_dim]` in one row of numbers. Return the text of
#
# ```
# __global__ void slot_offsets(int64_t* out, const int* table, int context, int page, int heads, int head_dim, int head)
# ```
#
# - One block of 32 threads, `context` is at most 32. Thread t writes to `out[t]` where head `head` of position t begins;
#   threads from `context` on write nothing.
# - Block numbers go up to two million, and the result must be exact.
#
# **Example.** Pages of 4, 2 heads of 2 numbers, head 1, table `[2, 0]`: position 0 is slot 8, which begins at 8 · 2 · 2 = 32;
# its head 1 begins at 34. With pages of 16 and 40 heads of 128, block 60,000 begins at 4,915,200,000: an `int` ends at
# 2,147,483,647.

# %% nbgrader={"grade": false, "grade_id": "cuda_offsets", "locked": false, "schema_version": 3, "solution": true, "task": false}
def slot_offsets_source():
    """The kernel as text."""
    ### BEGIN SOLUTION
    return r'''
__global__ void slot_offsets(int64_t* out, const int* table, int context, int page, int heads, int head_dim, int head) {
  int t = threadIdx.x;
  if (t >= context) return;
  int64_t block = table[t / page];
  int64_t slot = block * page + t % page;
  out[t] = (slot * heads + head) * head_dim;
}
'''
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "cuda_offsets_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("cuda.offsets")

# %% [markdown]
# {{exercise cuda.coalesced}}
#
# One warp (线程束) of 32 lanes computes the dot products of `num_keys` keys with a query. Return the text of
#
# ```
# __global__ void scores(float* out, Floats keys, const float* query, int num_keys, int head_dim)
# ```
#
# - Key k is `keys[k * head_dim]` to `keys[k * head_dim + head_dim - 1]`; `head_dim` is 32, 64 or 128.
# - `out[k]` is the sum of `keys[k * head_dim + d] * query[d]`.
# - What the 32 lanes read in one instruction is a request, and it moves whole sectors (扇区) of 32 bytes. We count them: all
#   requests together may move no more sectors than the keys have. Then reads are coalesced (合并访问).
#
# **Example.** 4 keys of 32 numbers are 16 sectors. With one key a lane, the first request reads numbers 0, 32, 64 and 96: 4
# sectors for 4 numbers, and after 32 requests 128 sectors have moved, 8 times what is there.

# %% nbgrader={"grade": false, "grade_id": "cuda_coalesced", "locked": false, "schema_version": 3, "solution": true, "task": false}
def scores_source():
    """The kernel as text."""
    ### BEGIN SOLUTION
    return r'''
__global__ void scores(float* out, Floats keys, const float* query, int num_keys, int head_dim) {
  int lane = threadIdx.x;
  for (int k = 0; k < num_keys; k++) {
    float sum = 0.0f;
    for (int d = lane; d < head_dim; d += 32) sum += keys[k * head_dim + d] * query[d];
    for (int flip = 16; flip > 0; flip /= 2) sum += __shfl_xor_sync(0xffffffff, sum, flip);
    if (lane == 0) out[k] = sum;
  }
}
'''
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "cuda_coalesced_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("cuda.coalesced")
