// Step 0: the source text's kernel as it is printed. It compiles, it runs, and it is wrong. Chapter 13.
//
// One thread block per request and head. Find the faults before you read on; `minipaged race` finds some.
// The names in capitals are undefined in the text, so this file defines them; build.py may override them.
#include "paged.cuh"

#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif
#ifndef NUM_HEADS
#define NUM_HEADS 4
#endif
#ifndef BLOCK_SIZE
#define BLOCK_SIZE 16
#endif
#ifndef MAX_BLOCKS
#define MAX_BLOCKS 8
#endif

extern __shared__ float qk_scores[];
DYNAMIC_SHARED(float, qk_scores)

__global__ void paged_attention_kernel(float* output, const float* query, const float* key_blocks,
                                       const float* value_blocks, const int* block_tables,
                                       const int* num_blocks_of, int block_size, float scale) {
  int head = blockIdx.x;
  int request = blockIdx.y;
  int num_blocks = num_blocks_of[request];
  int seq_len = num_blocks * block_size;
  const float* q = query + (request * NUM_HEADS + head) * HEAD_DIM;

  // Q times K, one page after the other
  for (int i = 0; i < num_blocks; i++) {
    int physical = block_tables[request * MAX_BLOCKS + i];
    if (threadIdx.x < BLOCK_SIZE) {
      float score = 0.0f;
      for (int d = 0; d < HEAD_DIM; d++)
        score += q[d] * key_blocks[((physical * BLOCK_SIZE + threadIdx.x) * NUM_HEADS + head) * HEAD_DIM + d];
      qk_scores[i * block_size + threadIdx.x] = score * scale;
    }
  }
  __syncthreads();

  // softmax
  float max_score = -INFINITY;
  for (int t = 0; t < seq_len; t++) max_score = fmaxf(max_score, qk_scores[t]);
  float sum = 0.0f;
  for (int t = 0; t < seq_len; t++) {
    qk_scores[t] = expf(qk_scores[t] - max_score);
    sum += qk_scores[t];
  }
  for (int t = 0; t < seq_len; t++) qk_scores[t] /= sum;
  __syncthreads();

  // times V
  float result[HEAD_DIM];
  for (int d = 0; d < HEAD_DIM; d++) result[d] = 0.0f;
  for (int i = 0; i < num_blocks; i++) {
    int physical = block_tables[request * MAX_BLOCKS + i];
    for (int t = 0; t < block_size; t++)
      for (int d = 0; d < HEAD_DIM; d++)
        result[d] += qk_scores[i * block_size + t] *
                     value_blocks[((physical * BLOCK_SIZE + t) * NUM_HEADS + head) * HEAD_DIM + d];
  }
  for (int d = 0; d < HEAD_DIM; d++) output[(request * NUM_HEADS + head) * HEAD_DIM + d] = result[d];
}

// The kernel wants a number of pages where the others take a context length; it has no room for the rest.
__global__ void pages_of(int* pages, const int* context_lens, int num_seqs, int block_size) {
  int i = threadIdx.x;
  if (i < num_seqs) pages[i] = (context_lens[i] + block_size - 1) / block_size;
}

extern "C" int paged_decode_f32(const DecodeParams* p, void* stream) {
  if (int refused = check_shape(p)) return refused;
  bool fits = p->head_dim == HEAD_DIM && p->num_heads == NUM_HEADS && p->num_kv_heads == NUM_HEADS &&
              p->block_size == BLOCK_SIZE && p->max_blocks == MAX_BLOCKS && p->table_stride == MAX_BLOCKS &&
              p->window == 0 && p->num_seqs <= 1024 && p->cache_stride_head == HEAD_DIM &&
              p->cache_stride_slot == NUM_HEADS * HEAD_DIM && p->query_stride_head == HEAD_DIM &&
              p->query_stride_seq == NUM_HEADS * HEAD_DIM;
  if (!fits) return kNotTaken;
  if (!p->partial_lse) return kBadWorkspace;
  int* pages = (int*)p->partial_lse;  // num_seqs numbers, borrowed from the workspace
  size_t shared_bytes = (size_t)MAX_BLOCKS * BLOCK_SIZE * sizeof(float);
  LAUNCH(pages_of, dim3(1), dim3(1024), 0, stream, pages, p->context_lens, p->num_seqs, p->block_size);
  LAUNCH(paged_attention_kernel, dim3(NUM_HEADS, p->num_seqs), dim3(128), shared_bytes, stream, (float*)p->out,
         (const float*)p->query, (const float*)p->key_cache, (const float*)p->value_cache, p->block_tables,
         pages, p->block_size, p->scale);
  return LAUNCH_STATUS();
}
