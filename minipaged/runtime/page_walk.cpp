// Attention of single tokens straight from the blocks (chapter 04): nothing is gathered.
//
// For each request: walk its pages once for the scores of all heads, make them weights, walk once more for the
// weighted sums of the values. A page is read from end to end, whatever head its numbers belong to. Positions
// outside start .. context_len - 1 are never read. Arithmetic is in T, offsets are 64-bit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

// e^x for x <= 0, written so that compilers turn a loop of it into vector code. Relative error below 3e-7.
inline float exp_negative(float x) {
    x = x < -87.0f ? -87.0f : x;
    const float n = static_cast<float>(static_cast<int32_t>(x * 1.44269504f - 0.5f));
    const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    return y * power;
}

inline double exp_negative(double x) { return std::exp(x); }

// Ask for the next page while this one is computed: it lies anywhere, so that the processor can't guess it.
template <typename T>
inline void fetch(const T* page, int64_t count) {
    const char* bytes = reinterpret_cast<const char*>(page);
    for (int64_t i = 0; i < static_cast<int64_t>(count * sizeof(T)); i += 64) __builtin_prefetch(bytes + i);
}

// D is the head dimension where it is known when this is compiled (registers then hold a whole row), or 0.
template <typename T, int64_t D>
void page_walk(const T* query, const T* keys, const T* values, T* out, const int64_t* tables,
               const int64_t* requests, int64_t num_requests, int64_t heads, int64_t kv_heads, int64_t any_dim,
               int64_t block_size, int64_t window, double scale) {
    const int64_t dim = D ? D : any_dim, group = heads / kv_heads, stride = kv_heads * dim;
    const T factor = static_cast<T>(scale);
    std::vector<T> weights, total(heads * dim);
    for (int64_t r = 0; r < num_requests; ++r) {
        const T* q = query + requests[3 * r] * heads * dim;
        const int64_t context = requests[3 * r + 1];
        const int64_t* table = tables + requests[3 * r + 2];
        const int64_t start = window > 0 && context > window ? context - window : 0, length = context - start;
        weights.resize(heads * length);
        for (int64_t at = start; at < context;) {  // one page at a time
            const int64_t offset = at % block_size, count = std::min(block_size - offset, context - at);
            const T* page = keys + (table[at / block_size] * block_size + offset) * stride;
            if (at + count < context)
                fetch(keys + table[(at + count) / block_size] * block_size * stride, block_size * stride);
            for (int64_t h = 0; h < heads; ++h) {
                const T* k = page + h / group * dim;
                T* w = weights.data() + h * length + at - start;
                int64_t i = 0;
                for (; i + 4 <= count; i += 4, k += 4 * stride) {  // four sums that don't wait for one another
                    T a = 0, b = 0, c = 0, e = 0;
#pragma omp simd reduction(+ : a, b, c, e)
                    for (int64_t d = 0; d < dim; ++d) {
                        const T x = q[h * dim + d];
                        a += x * k[d];
                        b += x * k[stride + d];
                        c += x * k[2 * stride + d];
                        e += x * k[3 * stride + d];
                    }
                    w[i] = a * factor, w[i + 1] = b * factor, w[i + 2] = c * factor, w[i + 3] = e * factor;
                }
                for (; i < count; ++i, k += stride) {
                    T a = 0;
#pragma omp simd reduction(+ : a)
                    for (int64_t d = 0; d < dim; ++d) a += q[h * dim + d] * k[d];
                    w[i] = a * factor;
                }
            }
            at += count;
        }
        for (int64_t h = 0; h < heads; ++h) {  // softmax
            T* w = weights.data() + h * length;
            T largest = w[0], sum = 0;
#pragma omp simd reduction(max : largest)
            for (int64_t i = 0; i < length; ++i) largest = w[i] > largest ? w[i] : largest;
#pragma omp simd reduction(+ : sum)
            for (int64_t i = 0; i < length; ++i) sum += w[i] = exp_negative(w[i] - largest);
            const T share = 1 / sum;
#pragma omp simd
            for (int64_t i = 0; i < length; ++i) w[i] *= share;
        }
        std::fill(total.begin(), total.end(), T(0));
        for (int64_t at = start; at < context;) {
            const int64_t offset = at % block_size, count = std::min(block_size - offset, context - at);
            const T* page = values + (table[at / block_size] * block_size + offset) * stride;
            if (at + count < context)
                fetch(values + table[(at + count) / block_size] * block_size * stride, block_size * stride);
            for (int64_t h = 0; h < heads; ++h) {
                const T* v = page + h / group * dim;
                const T* w = weights.data() + h * length + at - start;
                T registers[D ? D : 1];
                T* sum = D ? registers : total.data() + h * dim;
                if (D) std::memcpy(registers, total.data() + h * dim, sizeof(T) * dim);
                int64_t i = 0;
                for (; i + 4 <= count; i += 4, v += 4 * stride) {
#pragma omp simd
                    for (int64_t d = 0; d < dim; ++d)
                        sum[d] += w[i] * v[d] + w[i + 1] * v[stride + d] + w[i + 2] * v[2 * stride + d] +
                                  w[i + 3] * v[3 * stride + d];
                }
                for (; i < count; ++i, v += stride) {
#pragma omp simd
                    for (int64_t d = 0; d < dim; ++d) sum[d] += w[i] * v[d];
                }
                if (D) std::memcpy(total.data() + h * dim, registers, sizeof(T) * dim);
            }
            at += count;
        }
        std::memcpy(out + requests[3 * r] * heads * dim, total.data(), sizeof(T) * heads * dim);
    }
}

template <typename T, typename... Rest>
void choose(int64_t dim, Rest... rest) {
    switch (dim) {
        case 16: return page_walk<T, 16>(rest...);
        case 32: return page_walk<T, 32>(rest...);
        case 64: return page_walk<T, 64>(rest...);
        case 128: return page_walk<T, 128>(rest...);
        default: return page_walk<T, 0>(rest...);
    }
}

}  // namespace

#define PAGE_WALK(NAME, T)                                                                                       \
    extern "C" void NAME(const T* query, const T* keys, const T* values, T* out, const int64_t* tables,          \
                         const int64_t* requests, int64_t num_requests, int64_t heads, int64_t kv_heads,         \
                         int64_t dim, int64_t block_size, int64_t window, double scale) {                        \
        choose<T>(dim, query, keys, values, out, tables, requests, num_requests, heads, kv_heads, dim,           \
                  block_size, window, scale);                                                                    \
    }

PAGE_WALK(page_walk_float32, float)
PAGE_WALK(page_walk_float64, double)
