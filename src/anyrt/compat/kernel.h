// What a kernel written for CUDA finds when it is compiled for this machine: names of CUDA's C++ for one thread
// that runs after the other, and functions that call a kernel for every place in a grid.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
static thread_local uint3 threadIdx, blockIdx;
static thread_local dim3 blockDim, gridDim;
static const int warpSize = 32;

#define ANYRT_VECTORS(type, name)                                                                 \
    struct name##2 { type x, y; };                                                                \
    struct name##3 { type x, y, z; };                                                             \
    struct alignas(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)) name##4 { type x, y, z, w; };   \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                       \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }            \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
ANYRT_VECTORS(float, float)
ANYRT_VECTORS(double, double)
ANYRT_VECTORS(int, int)

// Numbers of 16 bits, which are computed as float and rounded to the nearest, ties to even.
struct __half {
    uint16_t bits;
    __half() = default;
    __half(float x) : bits(rounded(x)) {}
    operator float() const {
        float magnitude, sign = bits & 0x8000 ? -1.0f : 1.0f;
        int exponent = bits >> 10 & 31, fraction = bits & 1023;
        if (exponent == 31) magnitude = fraction ? NAN : INFINITY;
        else magnitude = std::ldexp(float(exponent ? fraction | 1024 : fraction), (exponent ? exponent : 1) - 25);
        return sign * magnitude;
    }
    static uint16_t rounded(float x) {
        uint32_t all, most = 0x7c00;
        std::memcpy(&all, &x, 4);
        uint32_t sign = all >> 16 & 0x8000, rest = all & 0x7fffffff;
        if (rest > 0x7f800000) return sign | 0x7e00;
        if (rest < 0x38800000) return sign | uint32_t(std::nearbyint(std::ldexp(std::fabs(x), 24)));
        rest -= 112 << 23;
        rest = (rest + 0xfff + (rest >> 13 & 1)) >> 13;
        return sign | (rest < most ? rest : most);
    }
};
typedef __half half;
static inline __half __float2half(float x) { return x; }
static inline __half __float2half_rn(float x) { return x; }
static inline float __half2float(__half x) { return x; }

template <class A, class B> static inline std::common_type_t<A, B> min(A a, B b) { return a < b ? a : b; }
template <class A, class B> static inline std::common_type_t<A, B> max(A a, B b) { return a < b ? b : a; }
template <class T> static inline T __ldg(const T *p) { return *p; }
static inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
static inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
static inline float __saturatef(float x) { return x < 0 ? 0 : x < 1 ? x : 1; }
static inline float __fdividef(float x, float y) { return x / y; }
static inline int __float2int_rn(float x) { return int(std::nearbyint(x)); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
#define __expf expf
#define __logf logf
#define __sinf sinf
#define __cosf cosf
#define __powf powf

// One thread runs after the other, so that what is read and written in one call stays together.
#define ANYRT_ATOMIC(name, value)                                               \
    template <class T, class U> static inline T name(T *p, U given) {           \
        T old = *p, x = T(given);                                               \
        *p = value;                                                             \
        return old;                                                             \
    }
ANYRT_ATOMIC(atomicAdd, old + x)
ANYRT_ATOMIC(atomicSub, old - x)
ANYRT_ATOMIC(atomicMin, x < old ? x : old)
ANYRT_ATOMIC(atomicMax, old < x ? x : old)
ANYRT_ATOMIC(atomicExch, x)
ANYRT_ATOMIC(atomicAnd, old & x)
ANYRT_ATOMIC(atomicOr, old | x)
ANYRT_ATOMIC(atomicXor, old ^ x)
template <class T> static inline T atomicCAS(T *p, T wanted, T x) {
    T old = *p;
    *p = old == wanted ? x : old;
    return old;
}

template <auto kernel> struct anyrt_kernel;
template <class... A, void (*kernel)(A...)> struct anyrt_kernel<kernel> {
    static constexpr int64_t sizes[] = {int64_t(sizeof(A))..., 0};
    template <size_t... i> static void call(void **a, std::index_sequence<i...>) {
        kernel(*static_cast<std::remove_cv_t<std::remove_reference_t<A>> *>(a[i])...);
    }
    // `n`: blocks along x, y and z, then threads in each; `a`: where each argument lies.
    static void launch(const unsigned *n, void **a) {
        gridDim = dim3(n[0], n[1], n[2]);
        blockDim = dim3(n[3], n[4], n[5]);
        for (blockIdx.z = 0; blockIdx.z < n[2]; blockIdx.z++)
            for (blockIdx.y = 0; blockIdx.y < n[1]; blockIdx.y++)
                for (blockIdx.x = 0; blockIdx.x < n[0]; blockIdx.x++)
                    for (threadIdx.z = 0; threadIdx.z < n[5]; threadIdx.z++)
                        for (threadIdx.y = 0; threadIdx.y < n[4]; threadIdx.y++)
                            for (threadIdx.x = 0; threadIdx.x < n[3]; threadIdx.x++)
                                call(a, std::index_sequence_for<A...>());
    }
};
#define ANYRT_KERNEL(name, ...)                                                                         \
    extern "C" void anyrt_launch_##name(const unsigned *n, void **a) { anyrt_kernel<__VA_ARGS__>::launch(n, a); } \
    extern "C" const int64_t *anyrt_sizes_##name() { return anyrt_kernel<__VA_ARGS__>::sizes; }
