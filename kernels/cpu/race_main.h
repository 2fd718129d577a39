// The program around a kernel under test: makes inputs, launches, compares with float64. Chapter 13.
//
// `minipaged race FILE.cu` compiles FILE.cu with this header in front, so the file only has to define
//     extern "C" int paged_decode_f32(const DecodeParams* p, void* stream);
// A file with a main of its own is run as it is. Every case prints one line:
//     case NAME: error 1.2e-07   |   case NAME: not taken   |   case NAME: failed CODE
// Every slot that must not be read holds NaN, and every array ends where its last element does.
#pragma once
#include <sys/mman.h>

#include "paged.cuh"

extern "C" int paged_decode_f32(const DecodeParams* p, void* stream);

namespace race {
struct Case {
  const char* name;
  std::vector<int> contexts;
  int heads, kv_heads, head_dim, block_size, max_blocks, splits;
  bool huge;  // the blocks lie past element 2^31 of a pool that is virtual memory
};

inline unsigned random_state = 1;
inline float random_float() {  // about normal: the sum of four uniform numbers
  float sum = 0;
  for (int i = 0; i < 4; i++) sum += (random_state = random_state * 1664525u + 1013904223u) / 4294967296.0f - 0.5f;
  return 1.7f * sum;
}

// A pool without touching it: malloc for small ones (so that AddressSanitizer knows its ends), pages of
// virtual memory for the huge one.
inline float* make_pool(size_t elements, bool huge) {
  if (!huge) {
    float* pool = new float[elements];
    std::fill(pool, pool + elements, NAN);
    return pool;
  }
  void* pool = mmap(nullptr, elements * sizeof(float), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pool == MAP_FAILED ? nullptr : (float*)pool;
}

inline void run(const Case& c) {
  int num_seqs = (int)c.contexts.size(), token = c.kv_heads * c.head_dim, group = c.heads / c.kv_heads;
  int64_t block_elements = (int64_t)c.block_size * token, used_blocks = (int64_t)num_seqs * c.max_blocks;
  int64_t num_blocks = c.huge ? (1ll << 31) / block_elements + used_blocks + 1 : used_blocks + 3;
  float* keys = make_pool(num_blocks * block_elements, c.huge);
  float* values = make_pool(num_blocks * block_elements, c.huge);
  if (!keys || !values) { printf("case %s: skipped, no virtual memory for it\n", c.name); return; }

  std::vector<float> query(num_seqs * c.heads * c.head_dim);
  std::vector<float> out(query.size(), NAN), partial_out(query.size() * c.splits), partial_lse(num_seqs * c.heads * c.splits);
  for (float& x : query) x = random_float();
  std::vector<int> tables(used_blocks);
  for (int64_t i = 0; i < used_blocks; i++) tables[i] = (int)(num_blocks - 1 - (i * 7 + 3) % used_blocks);
  if (used_blocks % 7 == 0) std::reverse(tables.begin(), tables.end());
  auto slot = [&](int seq, int position) {
    return tables[seq * c.max_blocks + position / c.block_size] * block_elements + position % c.block_size * (int64_t)token;
  };
  for (int seq = 0; seq < num_seqs; seq++) {
    for (int position = 0; position < c.contexts[seq]; position++)
      for (int i = 0; i < token; i++) {
        keys[slot(seq, position) + i] = random_float();
        values[slot(seq, position) + i] = random_float();
      }
    // Table entries past the context are anything at all, except where a kernel reads whole pages by design.
    for (int i = (c.contexts[seq] + c.block_size - 1) / c.block_size; i < c.max_blocks; i++) tables[seq * c.max_blocks + i] = -1;
  }

  DecodeParams p{};
  p.out = out.data(); p.query = query.data(); p.key_cache = keys; p.value_cache = values;
  p.block_tables = tables.data(); p.context_lens = c.contexts.data();
  p.partial_out = partial_out.data(); p.partial_lse = partial_lse.data();
  p.out_stride_seq = p.query_stride_seq = c.heads * c.head_dim;
  p.out_stride_head = p.query_stride_head = c.head_dim;
  p.cache_stride_block = block_elements; p.cache_stride_slot = token; p.cache_stride_head = c.head_dim;
  p.table_stride = c.max_blocks;
  p.num_seqs = num_seqs; p.num_heads = c.heads; p.num_kv_heads = c.kv_heads; p.head_dim = c.head_dim;
  p.num_blocks = (int)num_blocks; p.block_size = c.block_size; p.max_blocks = c.max_blocks;
  p.max_context = *std::max_element(c.contexts.begin(), c.contexts.end());
  p.window = 0; p.num_splits = c.splits; p.scale = 1.0f / std::sqrt((float)c.head_dim);
  int code = paged_decode_f32(&p, nullptr);
  if (code == kNotTaken) { printf("case %s: not taken\n", c.name); return; }
  if (code != 0) { printf("case %s: failed %d %s\n", c.name, code, launch_message(code)); return; }

  double worst = 0;
  for (int seq = 0; seq < num_seqs; seq++)
    for (int head = 0; head < c.heads; head++) {
      const float* q = &query[(seq * c.heads + head) * c.head_dim];
      int context = c.contexts[seq];
      std::vector<double> weight(context), expected(c.head_dim, 0.0);
      double largest = -INFINITY, sum = 0;
      for (int t = 0; t < context; t++) {
        const float* key = keys + slot(seq, t) + head / group * c.head_dim;
        for (int d = 0; d < c.head_dim; d++) weight[t] += (double)q[d] * key[d];
        weight[t] *= p.scale;
        largest = std::max(largest, weight[t]);
      }
      for (int t = 0; t < context; t++) sum += weight[t] = std::exp(weight[t] - largest);
      for (int t = 0; t < context; t++)
        for (int d = 0; d < c.head_dim; d++)
          expected[d] += weight[t] / sum * values[slot(seq, t) + head / group * c.head_dim + d];
      for (int d = 0; d < c.head_dim; d++) {
        double error = std::fabs(out[(seq * c.heads + head) * c.head_dim + d] - expected[d]);
        if (!(error <= worst)) worst = error;  // a NaN stays
      }
    }
  printf("case %s: error %.3g\n", c.name, worst);
}

// The sizes of the first case are those that v0_source.cu is compiled for.
inline const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"plain", {100, 37}, 4, 4, 64, 16, 8, 1, false},
      {"grouped", {33, 16, 1, 0}, 8, 2, 64, 8, 5, 2, false},
      {"huge-pool", {20}, 4, 4, 128, 16, 3, 1, true},
  };
  return all;
}
}  // namespace race

#ifndef RACE_OWN_MAIN
int main(int argc, char** argv) {
  for (const auto& c : race::cases())
    if (argc < 2 || strcmp(argv[1], c.name) == 0) race::run(c);
  return 0;
}
#endif
