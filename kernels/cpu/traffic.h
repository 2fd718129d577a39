// Count what a kernel asks of memory, warp by warp, while cuda_on_cpu.h runs it. Chapter 13.
//
// The compiler calls a hook at every memory access (-fsanitize=thread, without its library) and at every basic
// block (-fsanitize-coverage=trace-pc). A GPU executes an instruction for 32 lanes at once, so the n-th time
// that the lanes of a warp come to the same instruction is one request. For global memory it moves whole
// sectors of 32 bytes: neighbouring lanes share them, lanes far apart do not. That ratio, not the number of
// bytes, is what coalescing means. For shared memory, lanes that meet in one of 32 banks at different words
// wait for each other.
//
// Only exact where lanes run the same instruction equally often; a lane that skips one joins the next.
// Only shared memory and the arrays named by traffic_watch count; a GPU keeps the rest in registers.
#pragma once
#include <unordered_map>
#include <unordered_set>

struct TrafficCounts {
  uint64_t global_load_requests, global_load_sectors, global_load_bytes;
  uint64_t global_store_requests, global_store_sectors, global_store_bytes;
  uint64_t unique_load_sectors;                      // each sector counted once: what a perfect cache would fetch
  uint64_t shared_requests, shared_bytes, shared_bank_conflicts;
  uint64_t barriers, warp_operations;                // per warp
  uint64_t warp_blocks, divergent_warp_blocks, active_lanes;  // basic blocks executed by warps
  uint64_t launched_blocks, largest_shared_bytes;
};

namespace traffic {
enum Kind { kGlobalLoad, kGlobalStore, kShared, kBlock };
struct Key {
  uintptr_t pc;
  uint32_t warp, visit;
  bool operator==(const Key& o) const { return pc == o.pc && warp == o.warp && visit == o.visit; }
};
struct Hash {
  size_t operator()(const Key& k) const { return (k.pc * 0x9e3779b97f4a7c15ull) ^ (k.warp * 0xc2b2ae3d27d4eb4full) ^ (k.visit * 0x165667b19e3779f9ull); }
};
struct Request {
  Kind kind;
  uint32_t lanes = 0, bytes = 0;
  std::vector<uint64_t> places;  // sectors (global) or words (shared)
};
struct Visits { std::unordered_map<uintptr_t, uint32_t> count; };

inline TrafficCounts counts{};
inline std::unordered_map<Key, Request, Hash> open_requests;
inline std::unordered_map<int, Visits> visits;       // by thread of the block
inline std::unordered_set<uint64_t> seen_sectors;
inline bool busy = false;

// Global memory is what the caller says it is: the machine's own state is memory of this process, too.
struct Region { uintptr_t begin, end; };
inline std::vector<Region> regions;
SIM_QUIET inline bool is_global(uintptr_t address) {
  for (const Region& r : regions)
    if (address >= r.begin && address < r.end) return true;
  return false;
}

SIM_QUIET inline void note(Kind kind, uintptr_t pc, uintptr_t address, uint32_t size) {
  if (busy || !sim::current) return;
  busy = true;
  sim::Thread* t = sim::current;
  if (address >= (uintptr_t)sim::shared_range.begin && address < (uintptr_t)sim::shared_range.end) kind = kShared;
  if (kind == kBlock || kind == kShared || is_global(address)) {
    uint32_t visit = visits[t->linear].count[pc]++;
    Request& r = open_requests[Key{pc, (uint32_t)(t->linear / 32), visit}];
    r.kind = kind;
    r.lanes |= 1u << (t->linear % 32);
    r.bytes += size;
    if (kind != kBlock) {
      uint64_t unit = kind == kShared ? 4 : 32;
      for (uint64_t place = address / unit; place <= (address + size - 1) / unit; place++)
        if (std::find(r.places.begin(), r.places.end(), place) == r.places.end()) r.places.push_back(place);
    }
  }
  busy = false;
}
}  // namespace traffic

namespace sim {
SIM_QUIET inline void count_barrier() {
  if (current->linear % 32 == 0) traffic::counts.barriers++;
}
SIM_QUIET inline void count_exchange() {
  if (current->linear % 32 == 0) traffic::counts.warp_operations++;
}
SIM_QUIET inline void count_block_end() {
  using namespace traffic;
  busy = true;
  counts.launched_blocks++;
  int threads = block->num_threads;
  for (auto& [key, r] : open_requests) {
    int lanes = __builtin_popcount(r.lanes), here = std::min(32, threads - (int)key.warp * 32);
    if (r.kind == kBlock) {
      counts.warp_blocks++;
      counts.active_lanes += lanes;
      counts.divergent_warp_blocks += lanes < here;
    } else if (r.kind == kShared) {
      counts.shared_requests++;
      counts.shared_bytes += r.bytes;
      int banks[32] = {}, worst = 0;
      for (uint64_t word : r.places) worst = std::max(worst, ++banks[word % 32]);
      // Wide accesses take several passes by nature; a conflict is a pass beyond those.
      counts.shared_bank_conflicts += std::max(0, worst - std::max(1, (int)((r.places.size() + 31) / 32)));
    } else if (r.kind == kGlobalLoad) {
      counts.global_load_requests++;
      counts.global_load_bytes += r.bytes;
      counts.global_load_sectors += r.places.size();
      for (uint64_t sector : r.places) counts.unique_load_sectors += seen_sectors.insert(sector).second;
    } else {
      counts.global_store_requests++;
      counts.global_store_bytes += r.bytes;
      counts.global_store_sectors += r.places.size();
    }
  }
  open_requests.clear();
  visits.clear();
  busy = false;
}
}  // namespace sim

// ---- What the compiler calls ----------------------------------------------------------------------
#define TRAFFIC_PC ((uintptr_t)__builtin_return_address(0))
#define TRAFFIC_HOOKS(size)                                                                                      \
  SIM_QUIET void __tsan_read##size(void* p) { traffic::note(traffic::kGlobalLoad, TRAFFIC_PC, (uintptr_t)p, size); }   \
  SIM_QUIET void __tsan_write##size(void* p) { traffic::note(traffic::kGlobalStore, TRAFFIC_PC, (uintptr_t)p, size); } \
  SIM_QUIET void __tsan_unaligned_read##size(void* p) { traffic::note(traffic::kGlobalLoad, TRAFFIC_PC, (uintptr_t)p, size); } \
  SIM_QUIET void __tsan_unaligned_write##size(void* p) { traffic::note(traffic::kGlobalStore, TRAFFIC_PC, (uintptr_t)p, size); }
extern "C" {
TRAFFIC_HOOKS(1)
TRAFFIC_HOOKS(2)
TRAFFIC_HOOKS(4)
TRAFFIC_HOOKS(8)
TRAFFIC_HOOKS(16)
SIM_QUIET void __tsan_read_range(void* p, size_t n) { traffic::note(traffic::kGlobalLoad, TRAFFIC_PC, (uintptr_t)p, (uint32_t)n); }
SIM_QUIET void __tsan_write_range(void* p, size_t n) { traffic::note(traffic::kGlobalStore, TRAFFIC_PC, (uintptr_t)p, (uint32_t)n); }
SIM_QUIET void __sanitizer_cov_trace_pc() { traffic::note(traffic::kBlock, TRAFFIC_PC, 0, 0); }
SIM_QUIET void __tsan_func_entry(void*) {}
SIM_QUIET void __tsan_func_exit() {}
SIM_QUIET void __tsan_init() {}
SIM_QUIET void __tsan_vptr_update(void**, void*) {}
SIM_QUIET void __tsan_vptr_read(void**) {}

SIM_QUIET void traffic_watch(void* begin, size_t bytes) {
  traffic::regions.push_back({(uintptr_t)begin, (uintptr_t)begin + bytes});
}
SIM_QUIET void traffic_reset() {
  traffic::counts = {};
  traffic::regions.clear();
  traffic::seen_sectors.clear();
}
SIM_QUIET void traffic_read(TrafficCounts* to) {
  *to = traffic::counts;
}
}
