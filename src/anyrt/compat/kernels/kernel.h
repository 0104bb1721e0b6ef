// What a kernel written for CUDA finds when it is compiled for this machine: names of CUDA's C++, and functions that
// call a kernel for every place in a grid, one block after the other. Threads of a block run one after the other,
// too; where a text has them wait for each other (ANYRT_TOGETHER), each has a stack of its own, and a thread that
// waits lets the others run until all have come as far.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static thread_local
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

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
ANYRT_VECTORS(unsigned, uint)
ANYRT_VECTORS(signed char, char)
ANYRT_VECTORS(unsigned char, uchar)
ANYRT_VECTORS(short, short)
ANYRT_VECTORS(unsigned short, ushort)
ANYRT_VECTORS(long long, longlong)
ANYRT_VECTORS(unsigned long long, ulonglong)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
static thread_local uint3 threadIdx, blockIdx;
static thread_local dim3 blockDim, gridDim;
static const int warpSize = 32;

// Shared memory whose size a launch tells: `extern __shared__ T name[]` is a pointer to it.
static thread_local std::vector<std::max_align_t> anyrt_room;
template <class T> static inline T *anyrt_shared() { return reinterpret_cast<T *>(anyrt_room.data()); }

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
#define ANYRT_READ(name) template <class T> static inline T name(const T *p) { return *p; }
ANYRT_READ(__ldg)
ANYRT_READ(__ldca)
ANYRT_READ(__ldcg)
ANYRT_READ(__ldcs)
ANYRT_READ(__ldcv)
ANYRT_READ(__ldlu)
#define ANYRT_WRITE(name) template <class T> static inline void name(T *p, T x) { *p = x; }
ANYRT_WRITE(__stcg)
ANYRT_WRITE(__stcs)
ANYRT_WRITE(__stwb)
ANYRT_WRITE(__stwt)

// What one thread has written the others see, as they run one after the other.
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}

// The same bits as another type.
#define ANYRT_BITS(name, from, to)                              \
    static inline to name(from x) {                             \
        to bits;                                                \
        static_assert(sizeof(bits) == sizeof(x), "same bits");  \
        std::memcpy(&bits, &x, sizeof(x));                      \
        return bits;                                            \
    }
ANYRT_BITS(__float_as_int, float, int)
ANYRT_BITS(__int_as_float, int, float)
ANYRT_BITS(__float_as_uint, float, unsigned)
ANYRT_BITS(__uint_as_float, unsigned, float)
ANYRT_BITS(__double_as_longlong, double, long long)
ANYRT_BITS(__longlong_as_double, long long, double)
ANYRT_BITS(__half_as_short, __half, short)
ANYRT_BITS(__half_as_ushort, __half, unsigned short)
ANYRT_BITS(__short_as_half, short, __half)
ANYRT_BITS(__ushort_as_half, unsigned short, __half)
static inline int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
static inline int __double2loint(double x) { return int(__double_as_longlong(x)); }
static inline double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)((unsigned long long)unsigned(high) << 32 | unsigned(low)));
}
static inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
static inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
static inline float __saturatef(float x) { return x < 0 ? 0 : x < 1 ? x : 1; }
static inline float __fdividef(float x, float y) { return x / y; }
static inline int __float2int_rn(float x) { return int(std::nearbyint(x)); }
static inline int __float2int_rz(float x) { return int(x); }
static inline int __float2int_rd(float x) { return int(std::floor(x)); }
static inline int __float2int_ru(float x) { return int(std::ceil(x)); }
static inline unsigned __float2uint_rn(float x) { return unsigned(std::nearbyint(x)); }
static inline unsigned __float2uint_rz(float x) { return unsigned(x); }
static inline float __int2float_rn(int x) { return float(x); }
static inline float __uint2float_rn(unsigned x) { return float(x); }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return std::sqrt(x); }
static inline float __frsqrt_rn(float x) { return 1.0f / std::sqrt(x); }
static inline int __mul24(int x, int y) { return x * y; }
static inline unsigned __umul24(unsigned x, unsigned y) { return x * y; }
static inline int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
static inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned((unsigned long long)x * y >> 32); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int k = 0; k < 32; k++) y |= (x >> k & 1) << (31 - k);
    return y;
}
#define __expf expf
#define __logf logf
#define __sinf sinf
#define __cosf cosf
#define __powf powf
#define __tanf tanf
#define __log2f log2f
#define __log10f log10f
#define __exp10f exp10f

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

#ifdef ANYRT_TOGETHER
#include <sys/mman.h>
#include <ucontext.h>

// Where threads of a block have their variables: as much as a GPU gives a thread, and room for calls. Below each
// stack lies a page that nobody may touch, so that what grows beyond ends the process with SIGSEGV, and never
// writes into memory of others.
struct anyrt_stacks {
    static constexpr size_t SIZE = (512 + 64) << 10, GUARD = 1 << 16;  // no page is larger
    char *memory = nullptr;
    size_t count = 0;
    anyrt_stacks() = default;
    anyrt_stacks(const anyrt_stacks &) = delete;
    ~anyrt_stacks() { give_back(); }
    void give_back() {
        if (memory) munmap(memory, count * (GUARD + SIZE));
        memory = nullptr, count = 0;
    }
    char *of(size_t k) { return memory + k * (GUARD + SIZE) + GUARD; }
    // Room for so many threads; false where the system has none.
    bool fit(size_t wanted) {
        if (wanted <= count) return true;
        give_back();
        void *found = mmap(nullptr, wanted * (GUARD + SIZE), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found == MAP_FAILED) return false;
        memory = static_cast<char *>(found), count = wanted;
        for (size_t k = 0; k < wanted; k++)
            if (mprotect(of(k), SIZE, PROT_READ | PROT_WRITE)) return give_back(), false;
        return true;
    }
};

enum anyrt_state { ANYRT_READY, ANYRT_AT_BLOCK, ANYRT_AT_WARP, ANYRT_OVER };
struct anyrt_thread {
    ucontext_t context;
    uint3 place;
    anyrt_state state;
    unsigned mask;  // of the lanes that it waits for
    uint64_t told;  // to other lanes
};
struct anyrt_block {
    std::vector<anyrt_thread> threads;
    anyrt_stacks stacks;
    ucontext_t home;
    anyrt_thread *now;
    void (*body)(void **);
    void **arguments;

    unsigned lane() const { return unsigned(now - threads.data()) % 32; }
    anyrt_thread *warp() { return threads.data() + (now - threads.data()) / 32 * 32; }
    bool has(unsigned lane) { return size_t(warp() - threads.data()) + lane < threads.size(); }
    void wait(anyrt_state state, unsigned mask) {
        now->state = state, now->mask = mask;
        swapcontext(&now->context, &home);
    }
    // Whether the lanes that a lane waits for wait for the same ones, or are over.
    static bool met(const anyrt_thread *lanes, unsigned size, const anyrt_thread &one) {
        bool all = one.state == ANYRT_AT_WARP;
        for (unsigned k = 0; k < size; k++)
            if (one.mask >> k & 1 && lanes[k].state != ANYRT_OVER)
                all &= lanes[k].state == ANYRT_AT_WARP && lanes[k].mask == one.mask;
        return all;
    }
    // Lets those go on that have all come; whether there are any.
    bool release() {
        bool all = true, some = false;
        for (auto &t : threads) all &= t.state == ANYRT_AT_BLOCK || t.state == ANYRT_OVER;
        for (auto &t : threads)
            if (all && t.state == ANYRT_AT_BLOCK) t.state = ANYRT_READY, some = true;
        for (size_t first = 0; first < threads.size(); first += 32) {
            unsigned size = unsigned(std::min<size_t>(32, threads.size() - first));
            anyrt_thread *lanes = &threads[first];
            unsigned go = 0;
            for (unsigned k = 0; k < size; k++) go |= unsigned(met(lanes, size, lanes[k])) << k;
            for (unsigned k = 0; k < size; k++)
                if (go >> k & 1) lanes[k].state = ANYRT_READY, some = true;
        }
        return some;
    }
};
static thread_local anyrt_block anyrt_now;
static void anyrt_enter() {
    anyrt_now.body(anyrt_now.arguments);
    anyrt_now.now->state = ANYRT_OVER;
}
// Runs a block; false where its threads wait for others that never come, or there is no memory for their stacks.
static bool anyrt_run(void (*body)(void **), void **arguments) {
    auto &b = anyrt_now;
    size_t count = size_t(blockDim.x) * blockDim.y * blockDim.z, left = count;
    b.threads.resize(count), b.body = body, b.arguments = arguments;
    if (!b.stacks.fit(count)) return false;
    for (size_t k = 0; k < count; k++) {
        auto &t = b.threads[k];
        getcontext(&t.context);
        t.context.uc_stack.ss_sp = b.stacks.of(k), t.context.uc_stack.ss_size = b.stacks.SIZE;
        t.context.uc_link = &b.home, t.state = ANYRT_READY;
        t.place = {unsigned(k % blockDim.x), unsigned(k / blockDim.x % blockDim.y), unsigned(k / blockDim.x / blockDim.y)};
        makecontext(&t.context, anyrt_enter, 0);
    }
    while (left) {
        for (auto &t : b.threads)
            if (t.state == ANYRT_READY) {
                b.now = &t, threadIdx = t.place;
                swapcontext(&b.home, &t.context);
                left -= t.state == ANYRT_OVER;
            }
        if (left && !b.release()) return false;
    }
    return true;
}

static inline void __syncthreads() { anyrt_now.wait(ANYRT_AT_BLOCK, 0); }
static inline void __syncwarp(unsigned mask = ~0u) { anyrt_now.wait(ANYRT_AT_WARP, mask); }
template <class T> static T anyrt_from(unsigned mask, T value, unsigned lane) {
    static_assert(sizeof(T) <= 8, "lanes tell each other 8 bytes");
    std::memcpy(&anyrt_now.now->told, &value, sizeof(T));
    anyrt_now.wait(ANYRT_AT_WARP, mask);
    if (anyrt_now.has(lane)) std::memcpy(&value, &anyrt_now.warp()[lane].told, sizeof(T));
    anyrt_now.wait(ANYRT_AT_WARP, mask);
    return value;
}
template <class T> static T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    return anyrt_from(mask, value, anyrt_now.lane() / width * width + unsigned(from) % width);
}
template <class T> static T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    unsigned lane = anyrt_now.lane();
    return anyrt_from(mask, value, lane % width < by ? lane : lane - by);
}
template <class T> static T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    unsigned lane = anyrt_now.lane();
    return anyrt_from(mask, value, lane % width + by < unsigned(width) ? lane + by : lane);
}
template <class T> static T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32) {
    unsigned lane = anyrt_now.lane(), other = lane ^ unsigned(with);
    return anyrt_from(mask, value, other / width <= lane / width ? other : lane);
}
static inline unsigned __ballot_sync(unsigned mask, int is) {
    unsigned found = 0;
    anyrt_now.now->told = is != 0;
    anyrt_now.wait(ANYRT_AT_WARP, mask);
    for (unsigned k = 0; k < 32; k++)
        if (mask >> k & 1 && anyrt_now.has(k) && anyrt_now.warp()[k].state != ANYRT_OVER)
            found |= unsigned(anyrt_now.warp()[k].told) << k;
    anyrt_now.wait(ANYRT_AT_WARP, mask);
    return found;
}
static inline int __any_sync(unsigned mask, int is) { return __ballot_sync(mask, is) != 0; }
static inline int __all_sync(unsigned mask, int is) { return __ballot_sync(mask, !is) == 0; }
#endif

template <auto kernel> struct anyrt_kernel;
template <class... A, void (*kernel)(A...)> struct anyrt_kernel<kernel> {
    static constexpr int64_t sizes[] = {int64_t(sizeof(A))..., 0};
    template <size_t... i> static void place(void **a, std::index_sequence<i...>) {
        kernel(*static_cast<std::remove_cv_t<std::remove_reference_t<A>> *>(a[i])...);
    }
    static void call(void **a) { place(a, std::index_sequence_for<A...>()); }
    static bool block(void **a) {
#ifdef ANYRT_TOGETHER
        return anyrt_run(call, a);
#else
        for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++)
            for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)
                for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) call(a);
        return true;
#endif
    }
    // `n`: blocks along x, y and z, threads in each, bytes of shared memory; `a`: where each argument lies. 0 when
    // it is done.
    static int launch(const unsigned *n, void **a) {
        gridDim = dim3(n[0], n[1], n[2]);
        blockDim = dim3(n[3], n[4], n[5]);
        anyrt_room.resize(n[6] / sizeof(std::max_align_t) + 1);
        for (blockIdx.z = 0; blockIdx.z < n[2]; blockIdx.z++)
            for (blockIdx.y = 0; blockIdx.y < n[1]; blockIdx.y++)
                for (blockIdx.x = 0; blockIdx.x < n[0]; blockIdx.x++)
                    if (!block(a)) return 1;
        return 0;
    }
};
#define ANYRT_KERNEL(name, ...)                                                                                   \
    extern "C" int anyrt_launch_##name(const unsigned *n, void **a) { return anyrt_kernel<__VA_ARGS__>::launch(n, a); } \
    extern "C" const int64_t *anyrt_sizes_##name() { return anyrt_kernel<__VA_ARGS__>::sizes; }
