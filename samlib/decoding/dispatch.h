/* The kernels of kernels.h for the instruction sets that a processor may have, and the threads that share their work.

   Needs the vector types of GCC and Clang; with another compiler SAMLIB_HAS_KERNELS is 0 and nothing else is here. */

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#define TOKEN_BLOCK 64  /* tokens whose inputs stay in the second-level cache */
#define OUTPUT_BLOCK 48 /* outputs that are put together; a multiple of 3, 4 and 16 */
#define QUERY_BLOCK 24  /* queries whose scores stay there */
#define MAX_HEAD 512    /* dimensions of a head */

typedef struct {
    const float *weight, *bias; /* (outputs, inputs), and (outputs) or NULL */
    long inputs, outputs;
} linear;

typedef struct {
    linear layer;
    long tokens;
    const float *x;
    float *y;
} linear_call;

typedef struct {
    linear query, key, value, output, gate, up, down;
    const float *input_norm, *middle_norm;
    const float *query_norm, *key_norm; /* (head_size), or NULL */
    float epsilon, scale;
    long heads, kv_heads, head_size;
} decoder_layer;

typedef struct {
    const float *queries; /* (tokens, heads, head_size), not yet rotated */
    const float *keys, *values;
    long key_head_stride, key_stride, value_head_stride, value_stride;
    const float *cosines, *sines; /* (tokens, head_size) */
    const float *query_norm;
    const float *additive;     /* mask, its rows mask_stride apart; or NULL */
    const unsigned char *seen; /* the same as truth values; or NULL */
    long mask_stride;
    int causal; /* each token sees what is before it and itself */
    long tokens, length, heads, group, head_size;
    float epsilon, scale;
    float *out; /* (tokens, heads, head_size) */
} attention;

typedef struct {
    decoder_layer layer;
    long tokens;
    const float *hidden, *cosines, *sines;
    float *queries, *raw_keys, *raw_values, *new_keys, *new_values; /* the new ones: (kv_heads, tokens, head_size) */
    attention attention;
    float *middle, *gates, *ups, *out;
    float *private_room; /* private_size numbers for each thread */
    long private_size;
    void (*barrier)(void);
} layer_call;

enum { LINEAR, PROJECT, FINISH };

typedef void (*part_function)(const void *call, int thread, int threads);

/* Functions of the OpenMP runtime that torch uses, by GCC's names, which others offer too. */
typedef struct {
    void (*parallel)(void (*function)(void *), void *data, unsigned threads, unsigned flags);
    void (*barrier)(void);
    int (*thread)(void);
    int (*threads)(void);
} runtime;

#if defined(__GNUC__) && (__GNUC__ >= 9 || defined(__clang__))
#define SAMLIB_HAS_KERNELS 1

typedef float f8 __attribute__((vector_size(32)));
typedef float f8_unaligned __attribute__((vector_size(32), aligned(4), may_alias));
typedef float f4 __attribute__((vector_size(16)));
typedef int i8 __attribute__((vector_size(32)));
typedef unsigned char u8 __attribute__((vector_size(8)));

#define LOAD(address) (*(const f8_unaligned *)(address))
#define STORE(address, vector) (*(f8_unaligned *)(address) = (vector))
#define ALL(number) ((f8){0} + (number))
/* Within each half of two vectors, their entries at even places, or at odd ones: a's, then b's. */
#if defined(__clang__) || __GNUC__ >= 12
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15)
#else
#define EVEN(a, b) __builtin_shuffle(a, b, (i8){0, 2, 8, 10, 4, 6, 12, 14})
#define ODD(a, b) __builtin_shuffle(a, b, (i8){1, 3, 9, 11, 5, 7, 13, 15})
#endif
#define PART(count, index) ((count) * (long)(index) / threads) /* where the work of thread `index` begins */

#define NAME(name) name##_generic
#include "kernels.h"
#undef NAME

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define NAME(name) name##_avx2
#include "kernels.h"
#undef NAME
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

static int has_avx2(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

static part_function part_named(int part, int avx2)
{
#if defined(__x86_64__)
    static const part_function fast[] = {
        (part_function)linear_part_avx2, (part_function)project_part_avx2, (part_function)finish_part_avx2};
    if (avx2)
        return fast[part];
#endif
    static const part_function generic[] = {
        (part_function)linear_part_generic, (part_function)project_part_generic, (part_function)finish_part_generic};
    return generic[part];
}

/* ---- threads ---- */

typedef struct {
    part_function part;
    const void *call;
    const runtime *of;
} job;

static void do_job(void *data)
{
    const job *j = data;
    j->part(j->call, j->of->thread(), j->of->threads());
}

static void no_barrier(void) {}

static void run_part(part_function part, const void *call, const runtime *openmp, int threads)
{
    job j = {part, call, openmp};
    if (threads > 1)
        openmp->parallel(do_job, &j, (unsigned)threads, 0);
    else
        part(call, 0, 1);
}

#else
#define SAMLIB_HAS_KERNELS 0

static int has_avx2(void) { return 0; }
static part_function part_named(int part, int avx2) { return NULL; }
static void no_barrier(void) {}
static void run_part(part_function part, const void *call, const runtime *openmp, int threads) {}
#endif
