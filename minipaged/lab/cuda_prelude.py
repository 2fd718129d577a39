"""What stands before a learner's CUDA text where it is compiled for the CPU (lab of chapter 13).

`Floats` is global memory that notes who reads what; on a GPU: const float*. cuda_text.py turns `T* name` into
lab::Pointer<T> and `T name[N]` into lab::Array<T, N>: no index leads out of its array, to the counters or to the stack.
"""
from __future__ import annotations

PRELUDE = '''\
#include "cuda_on_cpu.h"
#include <set>
#include <tuple>
#include <type_traits>
#include <unistd.h>

namespace lab {  // plain arrays, so that the race checker sees only what the kernel does
struct Read { int warp, number; int64_t sector; };  // the number-th read of a thread; a sector is 32 bytes
constexpr int kMost = 1 << 18;
inline Read reads[kMost];
inline int num_reads, reads_of[1024], outside;
SIM_QUIET inline void note(int64_t index, int64_t size) {
  int thread = sim::current->linear;
  if (num_reads < kMost) reads[num_reads++] = {thread / 32, reads_of[thread]++, index * (int64_t)sizeof(float) / 32};
  if (index < 0 || index >= size) outside++;
}
inline int sectors() {  // those of one request, an instruction of a warp, count once
  auto key = [](const Read& a) { return std::make_tuple(a.warp, a.number, a.sector); };
  std::sort(reads, reads + num_reads, [=](const Read& a, const Read& b) { return key(a) < key(b); });
  int sum = 0;
  for (int i = 0; i < num_reads; i++) sum += i == 0 || key(reads[i]) != key(reads[i - 1]);
  return sum;
}
inline int requests() {
  std::set<std::pair<int, int>> all;
  for (int i = 0; i < num_reads; i++) all.insert({reads[i].warp, reads[i].number});
  return all.size();
}
[[noreturn]] SIM_QUIET inline void astray(int64_t size) {
  fprintf(stderr, "cuda_on_cpu: an index is outside of its array (which has %lld elements)\\n", (long long)size);
  fflush(stderr);
  _exit(1);
}
template <class T, int64_t N> struct Array {  // for T name[N]
  static_assert(N > 0 && N * sizeof(T) <= sim::kDefaultShared, "an array has at most 48 KB");
  T data[N];
  SIM_QUIET T& operator[](int64_t index) {
    if (index < 0 || index >= N) astray(N);
    return data[index];
  }
  SIM_QUIET const T& operator[](int64_t index) const {
    if (index < 0 || index >= N) astray(N);
    return data[index];
  }
};
template <class T> class Pointer {  // for a parameter T* name: it knows the array that it points into
  template <class U> friend class Pointer;
  T* data;
  int64_t size, at;
 public:
  explicit Pointer(T* data_, int64_t size_, int64_t at_ = 0) : data(data_), size(size_), at(at_) {}
  template <class U> Pointer(const Pointer<U>& other) : data(other.data), size(other.size), at(other.at) {}
  template <int64_t N> Pointer(Array<std::remove_const_t<T>, N>& array) : data(array.data), size(N), at(0) {}
  template <int64_t N> Pointer(const Array<std::remove_const_t<T>, N>& array) : data(array.data), size(N), at(0) {}
  SIM_QUIET T& operator[](int64_t index) const {
    if (at + index < 0 || at + index >= size) astray(size);
    return data[at + index];
  }
  T& operator*() const { return (*this)[0]; }
  Pointer& operator+=(int64_t by) { at += by; return *this; }
  Pointer& operator-=(int64_t by) { at -= by; return *this; }
  Pointer& operator++() { return *this += 1; }
  Pointer& operator--() { return *this -= 1; }
  Pointer operator++(int) { Pointer old = *this; at++; return old; }
  Pointer operator--(int) { Pointer old = *this; at--; return old; }
  friend Pointer operator+(Pointer p, int64_t by) { return p += by; }
  friend Pointer operator+(int64_t by, Pointer p) { return p += by; }
  friend Pointer operator-(Pointer p, int64_t by) { return p -= by; }
  friend int64_t operator-(const Pointer& a, const Pointer& b) { return a.at - b.at; }
  friend bool operator<(const Pointer& a, const Pointer& b) { return a.at < b.at; }
  friend bool operator!=(const Pointer& a, const Pointer& b) { return a.at != b.at; }
};
template <class T> Pointer<T> all(std::vector<T>& array) { return Pointer<T>(array.data(), array.size()); }
inline double number() { double x = 0; if (scanf("%lf", &x) != 1) exit(3); return x; }
template <class T> std::vector<T> numbers(int count) {
  std::vector<T> all(count);
  for (T& x : all) x = number();
  return all;
}
inline std::vector<float> floats(int count) { return numbers<float>(count); }
inline std::vector<int> ints(int count) { return numbers<int>(count); }
}  // namespace lab

#undef threadIdx  // which thread reads is not for the kernel to say
#undef blockIdx
#undef blockDim
#undef gridDim
#define threadIdx ((const dim3&)sim::current->index)
#define blockIdx ((const dim3&)sim::block->index)
#define blockDim ((const dim3&)sim::block->dims)
#define gridDim ((const dim3&)sim::block->grid)

class Floats {
  const float* data;
  int64_t size;

 public:
  explicit Floats(const std::vector<float>& all) : data(all.data()), size(all.size()) {}
  SIM_QUIET float operator[](int64_t index) const {
    lab::note(index, size);
    return index < 0 || index >= size ? NAN : data[index];
  }
};
'''
