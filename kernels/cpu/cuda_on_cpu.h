// Run one CUDA source file on a CPU: every CUDA thread becomes a fiber, and mistakes are reported. Chapter 13.
//
// A .cu file that includes this header builds twice, unchanged:
//   nvcc -shared ...          the header only defines LAUNCH and its three friends
//   g++ -x c++ -shared ...    the header is the GPU: threads, shared memory, barriers, warp operations
//
// One block runs at a time, on one operating-system thread. Its CUDA threads are fibers (functions with a
// stack of their own) that run until they meet a barrier or a warp operation, then the next one runs. So the
// order is known, can be changed (CUDA_ON_CPU_SEED: 0 in order, odd = shuffled, even = one warp far ahead of
// the others), and a wrong program fails the same way every time.
//
// What is caught here: threads that wait at different barriers or never come, threads that left before a
// barrier, warp operations whose lanes or masks do not agree, a shuffle that reads a lane outside its mask,
// a launch that a GPU would refuse. Shared memory starts as NaN (0xFF), so a read before the write shows.
// What the compiler's sanitizers add: races on shared memory (-fsanitize=thread, each fiber is a thread for
// it), reads and writes out of bounds (address), 32-bit overflow (undefined). cpu/traffic.h adds counting.
// What is not modelled: time, races between blocks, the memory model, tensor cores, asynchronous copies.
//
// Needs Linux, and g++ or a clang++ that knows its options. The only words that are not plain CUDA:
//   LAUNCH(kernel, grid, block, shared_bytes, stream, args...)   for  kernel<<<...>>>(args...)
//   LAUNCH_STATUS()          0, or the error of the last LAUNCH;  launch_message(code) tells it in words
//   ALLOW_SHARED(kernel, n)  opt in to more than 48 KB of dynamic shared memory
//   DYNAMIC_SHARED(T, name)  after each  extern __shared__ T name[];  gives it a home on the CPU
#pragma once

#ifdef __CUDACC__  // ------------------------------------------------------------------ a real GPU
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  kernel<<<grid, block, shared_bytes, (cudaStream_t)(stream)>>>(__VA_ARGS__)
#define LAUNCH_STATUS() ((int)cudaGetLastError())
#define ALLOW_SHARED(kernel, bytes) \
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes))
#define DYNAMIC_SHARED(T, name)
extern "C" const char* launch_message(int code) { return cudaGetErrorString((cudaError_t)code); }

#else  // ---------------------------------------------------------------------------------- a CPU
#include <link.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// CUDA_ON_CPU_COUNT builds use the compiler's thread-sanitizer hooks for counting, without the sanitizer.
#if defined(__SANITIZE_THREAD__) && !defined(CUDA_ON_CPU_COUNT)
#include <sanitizer/tsan_interface.h>
#define SIM_TSAN(...) __VA_ARGS__
#else
#define SIM_TSAN(...)
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define SIM_ASAN(...) __VA_ARGS__
#else
#define SIM_ASAN(...)
#endif
// The machine itself is not under test: no race check, and no inlining into code that is.
#if defined(CUDA_ON_CPU_COUNT)
#define SIM_QUIET __attribute__((no_sanitize("thread"), no_sanitize_coverage, noinline))
#else
#define SIM_QUIET __attribute__((no_sanitize("thread"), noinline))
#endif

// ---- The words of the language --------------------------------------------------------------
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __constant__ static
// A thread_local inside a function is static: one copy for the running block. `extern __shared__ T x[];`
// becomes a declaration that DYNAMIC_SHARED completes.
#define __shared__ thread_local

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
typedef void* cudaStream_t;
using std::max;
using std::min;

namespace sim {
constexpr size_t kMaxShared = 227 << 10;      // what sm_90 gives one block after opting in
constexpr size_t kDefaultShared = 48 << 10;   // what every GPU gives without asking
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStack = 256 << 10;
#else
constexpr size_t kStack = 64 << 10;
#endif
constexpr size_t kGuard = 64 << 10;           // unreadable memory below each stack: overflow stops at once

enum State { kReady, kBarrier, kWarpOp, kExited };
enum Op { kShuffle, kVote, kSyncWarp };

struct Thread {
  dim3 index;
  int linear;         // position in the block; lane = linear % 32
  State state;
  int line;           // source line of the barrier or warp operation where it waits
  Op op;
  unsigned mask;
  int source_lane;
  uint64_t value, result;
  void* stack;
  bool started;
  char arrival_tag, *release_tag;   // for ThreadSanitizer, see Block
  ucontext_t context;
  jmp_buf jump;
  void* tsan;
};

struct Block {
  dim3 index, dims, grid;
  int num_threads, alive;
  Thread* threads;
  uint64_t random;
  bool failed;
  ucontext_t host;
  jmp_buf host_jump;
  void* host_tsan;
  // Addresses that order threads for ThreadSanitizer: who acquires one comes after all who released it. A
  // fast thread may release its next one while a slow thread has yet to acquire the last: so the barriers
  // alternate between two, and every warp operation takes another one.
  char start_tag, end_tag, barrier_tags[2], warp_tags[32][64];
  int barrier_phase;
  unsigned warp_operations;
};

// Plain globals, not thread_local: thread_local memory of this module is exactly the shared memory.
inline Block* block = nullptr;
inline Thread* current = nullptr;
inline void (*kernel_call)(void*) = nullptr;
inline void* kernel_args = nullptr;
inline int status = 0;
inline std::string message;
inline size_t shared_opt_in = kDefaultShared;
inline thread_local char shared_anchor = 0;
struct DynamicArray { char* (*address)(); };
inline std::vector<DynamicArray>& dynamic_arrays() { static std::vector<DynamicArray> list; return list; }
struct RegisterDynamic { RegisterDynamic(char* (*f)()) { dynamic_arrays().push_back({f}); } };

struct Range { char* begin; char* end; };
inline Range shared_range{nullptr, nullptr};

// The thread_local block of the module (library or program) that holds this code.
SIM_QUIET inline void find_shared_memory() {
  shared_anchor = 0;  // touch it: thread_local memory appears on first use
  dl_iterate_phdr([](dl_phdr_info* info, size_t, void*) {
    uintptr_t here = (uintptr_t)&status;
    bool mine = false;
    size_t size = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
      const auto& header = info->dlpi_phdr[i];
      uintptr_t start = info->dlpi_addr + header.p_vaddr;
      if (header.p_type == PT_LOAD && here >= start && here < start + header.p_memsz) mine = true;
      if (header.p_type == PT_TLS) size = header.p_memsz;
    }
    if (mine && info->dlpi_tls_data) {
      shared_range = {(char*)info->dlpi_tls_data, (char*)info->dlpi_tls_data + size};
    }
    return mine ? 1 : 0;
  }, nullptr);
}

SIM_QUIET inline const char* where(const Thread& t, char* text, size_t size) {
  if (t.state == kBarrier) snprintf(text, size, "waits at __syncthreads, line %d", t.line);
  if (t.state == kWarpOp) snprintf(text, size, "waits at a warp operation, line %d (mask 0x%08x)", t.line, t.mask);
  if (t.state == kExited) snprintf(text, size, "has exited");
  if (t.state == kReady) snprintf(text, size, "still runs");
  return text;
}

// Say what is wrong, in which block, and where its threads are: threads in the same place form one range.
SIM_QUIET inline void fail(const std::string& what) {
  if (block->failed) return;
  block->failed = true;
  status = 1000;
  char text[160];
  snprintf(text, sizeof text, " in block (%u,%u,%u)", block->index.x, block->index.y, block->index.z);
  message = what + text;
  const Thread* threads = block->threads;
  int first = 0, shown = 0;
  for (int i = 1; i <= block->num_threads; i++) {
    bool same = i < block->num_threads && threads[i].state == threads[first].state &&
                threads[i].line == threads[first].line &&
                (threads[i].state != kWarpOp || threads[i].mask == threads[first].mask);
    if (same) continue;
    if (shown++ < 6) {
      char range[64];
      if (i - 1 == first) snprintf(range, sizeof range, "\n  thread %d ", first);
      else snprintf(range, sizeof range, "\n  threads %d-%d ", first, i - 1);
      message += range;
      message += where(threads[first], text, sizeof text);
    }
    first = i;
  }
  if (shown > 6) message += "\n  ...";
  fprintf(stderr, "cuda_on_cpu: %s\n", message.c_str());
}

// ---- Switching between fibers -----------------------------------------------------------------
// swapcontext makes a system call each time; _setjmp/_longjmp does not and is several times faster, but the
// sanitizers only follow swapcontext.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SIM_ENTER(b, t) swapcontext(&(b)->host, &(t).context)
#define SIM_LEAVE(b, t) swapcontext(&(t).context, &(b)->host)
#else
#define SIM_ENTER(b, t) \
  do { if (!_setjmp((b)->host_jump)) { if ((t).started) _longjmp((t).jump, 1); (t).started = true; setcontext(&(t).context); } } while (0)
#define SIM_LEAVE(b, t) do { if (!_setjmp((t).jump)) _longjmp((b)->host_jump, 1); } while (0)
#endif

SIM_QUIET inline void yield() {
  Thread* me = current;
  Block* b = block;
  SIM_TSAN(__tsan_switch_to_fiber(b->host_tsan, __tsan_switch_to_fiber_no_sync);)
  SIM_ASAN(void* fake; __sanitizer_start_switch_fiber(me->state == kExited ? nullptr : &fake, nullptr, 0);)
  SIM_LEAVE(b, *me);
  SIM_ASAN(__sanitizer_finish_switch_fiber(fake, nullptr, nullptr);)
}

SIM_QUIET inline void thread_main() {
  SIM_ASAN(__sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);)
  SIM_TSAN(__tsan_acquire(&block->start_tag);)
  kernel_call(kernel_args);
  SIM_TSAN(__tsan_release(&block->end_tag);)
  current->state = kExited;
  current->line = 0;
  block->alive--;
  yield();
}

SIM_QUIET inline void run_thread(Block* b, Thread& t) {
  current = &t;
  SIM_TSAN(__tsan_switch_to_fiber(t.tsan, __tsan_switch_to_fiber_no_sync);)
  SIM_ASAN(void* fake; __sanitizer_start_switch_fiber(&fake, t.stack, kStack);)
  SIM_ENTER(b, t);
  SIM_ASAN(__sanitizer_finish_switch_fiber(fake, nullptr, nullptr);)
  current = nullptr;
}

// ---- Barriers -----------------------------------------------------------------------------------
// Nothing can run: either every thread is at the same barrier, and it opens, or the program is wrong.
SIM_QUIET inline void open_barrier(Block* b) {
  Thread* threads = b->threads;
  int line = -1;
  bool exited = false, different = false;
  for (int i = 0; i < b->num_threads; i++) {
    Thread& t = threads[i];
    if (t.state == kWarpOp) {
      int warp = i & ~31;
      for (int lane = 0; lane < 32; lane++) {
        if (!(t.mask >> lane & 1)) continue;
        State other = threads[warp + lane].state;
        if (other == kExited) return fail("warp operation waits for lanes that have exited");
        if (other == kBarrier) return fail("warp operation waits for lanes that wait at __syncthreads");
      }
      return fail("warp operation waits for lanes that never arrive");
    }
    if (t.state == kExited) { exited = true; continue; }
    if (line >= 0 && t.line != line) different = true;
    line = t.line;
  }
  if (exited) return fail("barrier divergence: some threads exited before __syncthreads");
  if (different) return fail("barrier divergence: threads wait at different __syncthreads");
  for (int i = 0; i < b->num_threads; i++) threads[i].state = kReady;
  b->barrier_phase ^= 1;
}

SIM_QUIET inline void barrier(int line) {
#ifdef CUDA_ON_CPU_COUNT
  extern void count_barrier();
  count_barrier();
#endif
  current->state = kBarrier;
  current->line = line;
  SIM_TSAN(char* tag = &block->barrier_tags[block->barrier_phase]; __tsan_release(tag);)
  yield();
  SIM_TSAN(__tsan_acquire(tag);)
}

// ---- Warp operations ----------------------------------------------------------------------------
// The last lane of the mask to arrive does the exchange for all of them.
SIM_QUIET inline uint64_t exchange(Op op, unsigned mask, uint64_t value, int source_lane, int line) {
#ifdef CUDA_ON_CPU_COUNT
  extern void count_exchange();
  count_exchange();
#endif
  Thread* me = current;
  Block* b = block;
  Thread* threads = b->threads;
  int lane = me->linear & 31, warp = me->linear & ~31;
  me->op = op; me->mask = mask; me->value = value; me->source_lane = source_lane; me->line = line;
  me->state = kWarpOp;
  if (!(mask >> lane & 1)) { fail("warp operation: the calling lane is not in its own mask"); yield(); }
  SIM_TSAN(__tsan_release(&me->arrival_tag);)

  bool all_here = true;
  for (int l = 0; l < 32; l++) {
    if (!(mask >> l & 1)) continue;
    if (warp + l >= b->num_threads) { fail("warp operation: the mask names lanes that the block does not have"); yield(); }
    all_here &= threads[warp + l].state == kWarpOp;
  }
  if (all_here) {
    uint64_t votes = 0;
    for (int l = 0; l < 32; l++) {
      if (!(mask >> l & 1)) continue;
      Thread& t = threads[warp + l];
      if (t.mask != mask) { fail("warp divergence: lanes of one mask came with different masks"); break; }
      if (t.op != op || t.line != line) { fail("warp divergence: lanes of one mask wait in different warp operations"); break; }
      votes |= (t.value & 1) << l;
    }
    for (int l = 0; l < 32 && !b->failed; l++) {
      if (!(mask >> l & 1)) continue;
      Thread& t = threads[warp + l];
      if (op == kShuffle && !(mask >> t.source_lane & 1)) { fail("shuffle reads a lane outside the mask"); break; }
      t.result = op == kVote ? votes : threads[warp + t.source_lane].value;
    }
    char* tag = &b->warp_tags[warp >> 5][b->warp_operations++ % 64];
    for (int l = 0; l < 32 && !b->failed; l++) {
      if (!(mask >> l & 1)) continue;
      threads[warp + l].state = kReady;
      threads[warp + l].release_tag = tag;
      SIM_TSAN(__tsan_acquire(&threads[warp + l].arrival_tag);)
    }
    SIM_TSAN(__tsan_release(tag);)
  }
  if (me->state != kReady || b->failed) yield();
  SIM_TSAN(__tsan_acquire(me->release_tag);)
  return me->result;
}

template <class T> inline T shuffle(unsigned mask, T value, int source_lane, int line) {
  static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  bits = exchange(kShuffle, mask, bits, source_lane, line);
  memcpy(&value, &bits, sizeof(T));
  return value;
}
SIM_QUIET inline int lane() { return current->linear & 31; }

// ---- Running a block ----------------------------------------------------------------------------
SIM_QUIET inline unsigned next_random(Block* b) {
  b->random = b->random * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)(b->random >> 33);
}

SIM_QUIET inline void shuffle_order(Block* b, std::vector<int>& order) {
  for (int i = b->num_threads - 1; i > 0; i--) std::swap(order[i], order[next_random(b) % (i + 1)]);
}

// Warps in a random order, lanes forwards or backwards.
SIM_QUIET inline void rotate_order(Block* b, std::vector<int>& order) {
  int n = b->num_threads, warps = (n + 31) / 32, shift = (next_random(b) % warps) * 32;
  for (int i = 0; i < n; i++) order[i] = (i + shift) % n;
  if (next_random(b) & 1) std::reverse(order.begin(), order.end());
}

SIM_QUIET inline void run_block(Block* b, uint64_t seed) {
  Thread* threads = b->threads;
  int n = b->num_threads;
  std::vector<int> order(n);
  b->alive = n;
  for (int i = 0; i < n; i++) {
    Thread& t = threads[i];
    t.index = dim3(i % b->dims.x, i / b->dims.x % b->dims.y, i / (b->dims.x * b->dims.y));
    t.linear = i; t.state = kReady; t.line = 0; t.started = false;
    getcontext(&t.context);
    t.context.uc_stack.ss_sp = t.stack;
    t.context.uc_stack.ss_size = kStack;
    t.context.uc_link = nullptr;
    makecontext(&t.context, thread_main, 0);
    SIM_TSAN(t.tsan = __tsan_create_fiber(0);)
    order[i] = i;
  }
  SIM_TSAN(__tsan_release(&b->start_tag);)
  bool greedy = seed != 0 && seed % 2 == 0, shuffled = seed % 2 == 1;
  if (greedy) rotate_order(b, order);

  while (b->alive && !b->failed) {
    bool ran = false;
    if (shuffled) shuffle_order(b, order);
    for (int k = 0; k < n && !b->failed; k++) {
      Thread& t = threads[order[k]];
      if (t.state != kReady) continue;
      ran = true;
      run_thread(b, t);
      if (greedy && k % 32 == 31) {  // stay with this warp until none of its lanes can run
        bool again = false;
        for (int j = k - 31; j <= k; j++) again |= threads[order[j]].state == kReady;
        if (again) k -= 32;
      }
    }
    if (!ran && b->alive && !b->failed) open_barrier(b);
  }
  SIM_TSAN(__tsan_acquire(&b->end_tag);)
  SIM_TSAN(for (int i = 0; i < n; i++) __tsan_destroy_fiber(threads[i].tsan);)
}

SIM_QUIET inline void* stack_for(int i) {
  static std::vector<char*> stacks;
  while ((int)stacks.size() <= i) {
    char* memory = (char*)mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) { perror("cuda_on_cpu: no memory for a thread's stack"); abort(); }
    mprotect(memory, kGuard, PROT_NONE);
    stacks.push_back(memory + kGuard);
  }
  return stacks[i];
}

SIM_QUIET inline void fill_shared(size_t dynamic_bytes) {
  SIM_ASAN(for (auto& array : dynamic_arrays()) ASAN_UNPOISON_MEMORY_REGION(array.address(), kMaxShared);)
  // The anchor is ours; every other byte of thread_local memory is a kernel's shared memory. Filling the
  // 227 KB homes of dynamic arrays whole would cost more than most blocks: there only what was asked for.
  char* at = shared_range.begin;
  std::vector<char*> homes;
  for (auto& array : dynamic_arrays()) homes.push_back(array.address());
  std::sort(homes.begin(), homes.end());
  for (char* home : homes) {
    if (home > at) memset(at, 0xff, home - at);
    memset(home, 0xff, dynamic_bytes);
    at = home + kMaxShared;
  }
  if (shared_range.end > at) memset(at, 0xff, shared_range.end - at);
  SIM_ASAN(for (char* home : homes) {
    size_t used = (dynamic_bytes + 7) / 8 * 8;
    ASAN_POISON_MEMORY_REGION(home + used, kMaxShared - used);
  })
}

#ifdef CUDA_ON_CPU_COUNT
void count_block_end();
#endif

SIM_QUIET inline int refuse(const char* format, unsigned long long asked, unsigned long long limit) {
  char text[200];
  snprintf(text, sizeof text, format, asked, limit);
  message = text;
  return status = 1;
}

SIM_QUIET inline int run_grid(dim3 grid, dim3 dims, size_t shared_bytes) {
  status = 0;
  message.clear();
  size_t allowed = std::max(shared_opt_in, kDefaultShared);
  shared_opt_in = kDefaultShared;
  unsigned long long num_threads = 1ull * dims.x * dims.y * dims.z, num_blocks = 1ull * grid.x * grid.y * grid.z;
  if (num_threads == 0 || num_threads > 1024) return refuse("launch refused: %llu threads a block, a GPU takes 1 to %llu", num_threads, 1024);
  if (num_blocks == 0 || grid.y > 65535 || grid.z > 65535) return refuse("launch refused: %llu blocks; none of the three grid sizes may be 0, and y and z end at %llu", num_blocks, 65535);
  if (shared_bytes > kMaxShared) return refuse("launch refused: %llu bytes of shared memory, the largest GPUs have %llu a block", shared_bytes, kMaxShared);
  if (shared_bytes > allowed) return refuse("launch refused: %llu bytes of shared memory, %llu without cudaFuncSetAttribute (ALLOW_SHARED)", shared_bytes, allowed);

  find_shared_memory();
  const char* text = getenv("CUDA_ON_CPU_SEED");
  uint64_t seed = text ? strtoull(text, nullptr, 10) : 0;
  std::vector<Thread> threads(num_threads);
  for (size_t i = 0; i < num_threads; i++) threads[i].stack = stack_for((int)i);
  for (unsigned long long i = 0; i < num_blocks && status == 0; i++) {
    Block b{};
    b.index = dim3(i % grid.x, i / grid.x % grid.y, i / (1ull * grid.x * grid.y));
    b.dims = dims; b.grid = grid; b.num_threads = (int)num_threads; b.threads = threads.data();
    b.random = seed * 7919 + i * 2 + 1;
    SIM_TSAN(b.host_tsan = __tsan_get_current_fiber();)
    block = &b;
    fill_shared(shared_bytes);
    run_block(&b, seed);
#ifdef CUDA_ON_CPU_COUNT
    count_block_end();
#endif
    block = nullptr;
    current = nullptr;
  }
  return status;
}

template <class Call> int launch_call(dim3 grid, dim3 dims, size_t shared_bytes, Call call) {
  kernel_call = [](void* p) { (*(Call*)p)(); };
  kernel_args = &call;
  return run_grid(grid, dims, shared_bytes);
}

// The arguments are evaluated once, here, as for a real launch; every thread gets copies.
template <class Kernel, class... Args>
int launch(Kernel kernel, dim3 grid, dim3 dims, size_t shared_bytes, void*, Args... args) {
  return launch_call(grid, dims, shared_bytes, [=] { kernel(args...); });
}
}  // namespace sim

#define threadIdx (sim::current->index)
#define blockIdx (sim::block->index)
#define blockDim (sim::block->dims)
#define gridDim (sim::block->grid)
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  sim::launch(kernel, grid, block, shared_bytes, stream, __VA_ARGS__)
#define LAUNCH_STATUS() (sim::status)
#define ALLOW_SHARED(kernel, bytes) (sim::shared_opt_in = (bytes))
#define DYNAMIC_SHARED(T, name)                                              \
  alignas(16) thread_local T name[sim::kMaxShared / sizeof(T)];              \
  static sim::RegisterDynamic name##_registered([] { return (char*)name; });
extern "C" const char* launch_message(int) { return sim::message.c_str(); }

// ---- Device functions ---------------------------------------------------------------------------
// The line of the caller travels as a default argument, so that reports can name it.
inline void __syncthreads(int line = __builtin_LINE()) { sim::barrier(line); }
inline void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE()) {
  sim::exchange(sim::kSyncWarp, mask, 0, sim::lane(), line);
}
template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32, int line = __builtin_LINE()) {
  int lane = sim::lane();
  return sim::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), line);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int flip, int width = 32, int line = __builtin_LINE()) {
  int lane = sim::lane(), source = lane ^ flip;
  return sim::shuffle(mask, value, source / width == lane / width ? source : lane, line);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, int by, int width = 32, int line = __builtin_LINE()) {
  int lane = sim::lane();
  return sim::shuffle(mask, value, (lane & (width - 1)) + by < width ? lane + by : lane, line);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, int by, int width = 32, int line = __builtin_LINE()) {
  int lane = sim::lane();
  return sim::shuffle(mask, value, (lane & (width - 1)) - by >= 0 ? lane - by : lane, line);
}
inline unsigned __ballot_sync(unsigned mask, bool vote, int line = __builtin_LINE()) {
  return (unsigned)sim::exchange(sim::kVote, mask, vote, sim::lane(), line);
}
inline bool __any_sync(unsigned mask, bool vote, int line = __builtin_LINE()) { return __ballot_sync(mask, vote, line) != 0; }
inline bool __all_sync(unsigned mask, bool vote, int line = __builtin_LINE()) { return __ballot_sync(mask, vote, line) == mask; }

// One fiber runs at a time, so load, change, store is atomic; the __atomic builtins tell ThreadSanitizer so.
template <class T, class Change> inline T sim_atomic(T* address, Change change) {
#ifdef CUDA_ON_CPU_COUNT
  T old = *address;
  *address = change(old);
#else
  T old, fresh;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  fresh = change(old);
  __atomic_store(address, &fresh, __ATOMIC_RELAXED);
#endif
  return old;
}
template <class T> T atomicAdd(T* address, T value) { return sim_atomic(address, [=](T old) { return old + value; }); }
template <class T> T atomicMax(T* address, T value) { return sim_atomic(address, [=](T old) { return old > value ? old : value; }); }
template <class T> T atomicMin(T* address, T value) { return sim_atomic(address, [=](T old) { return old < value ? old : value; }); }
template <class T> T atomicExch(T* address, T value) { return sim_atomic(address, [=](T) { return value; }); }
template <class T> T atomicCAS(T* address, T expected, T value) {
  return sim_atomic(address, [=](T old) { return old == expected ? value : old; });
}

template <class T> T __ldg(const T* p) { return *p; }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
struct __half { _Float16 v; };
inline float __half2float(__half h) { return (float)h.v; }
inline __half __float2half(float f) { return {(_Float16)f}; }
struct __nv_bfloat16 { uint16_t v; };
inline float __bfloat162float(__nv_bfloat16 h) {
  uint32_t bits = (uint32_t)h.v << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
inline __nv_bfloat16 __float2bfloat16(float f) {  // to nearest, ties to even
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return {(uint16_t)(f != f ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

#ifdef CUDA_ON_CPU_COUNT
#include "traffic.h"
#endif
#endif  // __CUDACC__
