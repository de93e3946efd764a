/* The forward of a decoder layer over few tokens, in float32 on the CPU: products, norms, rotation, attention.

   Included once for each instruction set (see dispatch.h): NAME gives every function the set's suffix. Matrices are row-major;
   a weight has one row an output feature, as in torch, and is read where it lies: nothing is packed. Each function does a
   *part* of the work, a range of rows, so that threads can share it; none allocates memory.

   A token's results do not depend, by one bit, on how many tokens or threads there are: every product is summed in the same
   order wherever it is computed, and remainders of a vector go through the vector's code.

   What makes a forward over a few tokens cost little more than one over a single token: a tile of three weight rows meets
   all tokens, four at a time, while it is in the first-level cache, and meanwhile the next tile is asked for, evenly
   spread, so that memory is never idle and never waited for. */

/* ---- sums of products ---- */

/* A vector's sum, in the same order as sums_of: how a product is rounded must not depend on the tile that it falls in. */
static inline float NAME(sum_of)(f8 v)
{
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

/* The sums of four vectors, for less than four times the work. */
static inline f4 NAME(sums_of)(f8 a, f8 b, f8 c, f8 d)
{
    f8 ab = EVEN(a, b) + ODD(a, b), cd = EVEN(c, d) + ODD(c, d);
    union { f8 whole; f4 half[2]; } sums = {EVEN(ab, cd) + ODD(ab, cd)};
    return sums.half[0] + sums.half[1];
}

/* y[t][r] = x[t] . w[r] for ROWS x TOKENS of them. Of the rows at `next`, the `first`-th and each `step`-th after it are
   loaded ahead. */
#define DOT_TILE(ROWS, TOKENS)                                                                                            \
    static inline __attribute__((always_inline)) void NAME(dot_##ROWS##_##TOKENS)(                                       \
        const float *x, long x_stride, const float *w, long w_stride, long length, float *y, long y_stride,              \
        const float *next, int first, int step)                                                                          \
    {                                                                                                                     \
        f8 sums[ROWS][TOKENS];                                                                                            \
        for (int r = 0; r < ROWS; r++)                                                                                    \
            for (int t = 0; t < TOKENS; t++)                                                                              \
                sums[r][t] = (f8){0};                                                                                     \
        long k = 0;                                                                                                       \
        for (; k + 16 <= length; k += 16) {                                                                               \
            for (int r = first; r < ROWS; r += step)                                                                      \
                __builtin_prefetch(next + r * w_stride + k);                                                              \
            for (int half = 0; half < 16; half += 8) {                                                                    \
                f8 weights[ROWS];                                                                                         \
                for (int r = 0; r < ROWS; r++)                                                                            \
                    weights[r] = LOAD(w + r * w_stride + k + half);                                                       \
                for (int t = 0; t < TOKENS; t++) {                                                                        \
                    f8 inputs = LOAD(x + t * x_stride + k + half);                                                        \
                    for (int r = 0; r < ROWS; r++)                                                                        \
                        sums[r][t] += weights[r] * inputs;                                                                \
                }                                                                                                         \
            }                                                                                                             \
        }                                                                                                                 \
        /* The sums' indices must be constants, or else they would not be kept in registers. */                           \
        for (int r = 0; r < ROWS; r++) {                                                                                  \
            if (TOKENS == 4) {                                                                                            \
                f4 four = NAME(sums_of)(sums[r][0], sums[r][1 % TOKENS], sums[r][2 % TOKENS], sums[r][3 % TOKENS]);       \
                for (int t = 0; t < 4; t++)                                                                               \
                    y[t * y_stride + r] = four[t];                                                                        \
            } else {                                                                                                      \
                for (int t = 0; t < TOKENS; t++)                                                                          \
                    y[t * y_stride + r] = NAME(sum_of)(sums[r][t]);                                                       \
            }                                                                                                             \
        }                                                                                                                 \
        for (; k < length; k++)                                                                                           \
            for (int r = 0; r < ROWS; r++)                                                                                \
                for (int t = 0; t < TOKENS; t++)                                                                          \
                    y[t * y_stride + r] += w[r * w_stride + k] * x[t * x_stride + k];                                     \
    }

DOT_TILE(4, 1)
DOT_TILE(4, 2)
DOT_TILE(4, 3)
DOT_TILE(3, 1)
DOT_TILE(3, 2)
DOT_TILE(3, 3)
DOT_TILE(3, 4)
DOT_TILE(1, 1)

/* A tile of three rows against up to four tokens. */
#define DOT(ROWS, TOKENS) NAME(dot_##ROWS##_##TOKENS)(x, x_stride, w, w_stride, length, y, y_stride, next, first, step)

static inline __attribute__((always_inline)) void NAME(dot_tokens)(
    int tokens, const float *x, long x_stride, const float *w, long w_stride, long length, float *y, long y_stride,
    const float *next, int first, int step)
{
    switch (tokens) {
    case 1: DOT(3, 1); break;
    case 2: DOT(3, 2); break;
    case 3: DOT(3, 3); break;
    default: DOT(3, 4);
    }
}

/* Three rows against all tokens, in groups of four; each third of the groups loads one of the next three rows ahead. */
static inline void NAME(dot_all_tokens)(
    long tokens, const float *x, long x_stride, const float *w, long w_stride, long length, float *y, long y_stride)
{
    const float *next = w + 3 * w_stride;
    long groups = (tokens + 3) / 4;
    for (long g = 0; g < groups; g++) {
        int size = tokens - 4 * g < 4 ? (int)(tokens - 4 * g) : 4;
        const float *inputs = x + 4 * g * x_stride;
        float *outputs = y + 4 * g * y_stride;
#define AHEAD(FIRST, STEP) \
    NAME(dot_tokens)(size, inputs, x_stride, w, w_stride, length, outputs, y_stride, next, FIRST, STEP)
        if (groups == 1)
            AHEAD(0, 1);
        else if (groups == 2 && g == 0)
            AHEAD(0, 2);
        else if (groups == 2)
            AHEAD(1, 2);
        else if (g == 0)
            AHEAD(0, 3);
        else if (g == groups / 3)
            AHEAD(1, 3);
        else if (g == 2 * groups / 3)
            AHEAD(2, 3);
        else
            AHEAD(3, 3);
#undef AHEAD
    }
}

/* y[t][r] = x[t] . w[r] for rows `from` to `to` of w. */
static void NAME(dot_rows)(
    long tokens, const float *x, long x_stride, const float *w, long w_stride, long length, float *y, long y_stride,
    long from, long to)
{
    long r = from;
#define EACH(ROWS, TOKENS)                                                                                                \
    for (; r + ROWS <= to; r += ROWS)                                                                                     \
        NAME(dot_##ROWS##_##TOKENS)(x, x_stride, w + r * w_stride, w_stride, length, y + r, y_stride,                     \
                                    w + (r + ROWS) * w_stride, 0, 1)
    switch (tokens) {
    case 1: EACH(4, 1); break;
    case 2: EACH(4, 2); break;
    case 3: EACH(4, 3); break;
    default:
        for (; r + 3 <= to; r += 3)
            NAME(dot_all_tokens)(tokens, x, x_stride, w + r * w_stride, w_stride, length, y + r, y_stride);
    }
#undef EACH
    for (; r < to; r++)
        for (long t = 0; t < tokens; t++)
            NAME(dot_1_1)(x + t * x_stride, x_stride, w + r * w_stride, w_stride, length, y + t * y_stride + r, y_stride,
                          w, 1, 1);
}

/* A linear layer's outputs `from` to `to`: y = x w' + bias + added; bias and added may be NULL, added has y's shape.

   Tokens go in blocks, of about one size, whose inputs stay in the second-level cache; and a few outputs of all of them
   are put together before they are written out, since rows of y may lie so far apart that they push each other out of the
   cache. */
static void NAME(linear_rows)(
    long tokens, const float *x, const float *w, long length, const float *bias, const float *added, float *y,
    long outputs, long from, long to)
{
    float together[TOKEN_BLOCK * OUTPUT_BLOCK];
    if (tokens <= 0)
        return;
    long blocks = (tokens + TOKEN_BLOCK - 1) / TOKEN_BLOCK, most = ((tokens + blocks - 1) / blocks + 3) / 4 * 4;
    for (long start = 0; start < tokens; start += most) {
        long size = tokens - start < most ? tokens - start : most;
        for (long first = from; first < to; first += OUTPUT_BLOCK) {
            long count = to - first < OUTPUT_BLOCK ? to - first : OUTPUT_BLOCK;
            NAME(dot_rows)(size, x + start * length, length, w + first * length, length, length, together, OUTPUT_BLOCK, 0,
                           count);
            for (long t = 0; t < size; t++) {
                float *sums = together + t * OUTPUT_BLOCK;
                if (bias)
                    for (long r = 0; r < count; r++)
                        sums[r] += bias[first + r];
                if (added)
                    for (long r = 0; r < count; r++)
                        sums[r] += added[(start + t) * outputs + first + r];
                memcpy(y + (start + t) * outputs + first, sums, count * sizeof(float));
            }
        }
    }
}

/* ---- one element after the other ---- */

static inline f8 NAME(larger)(f8 a, f8 b)
{
    i8 first = a > b;
    return (f8)(((i8)a & first) | ((i8)b & ~first));
}

/* e^x, within 2e-7 of it; 0 below -87, and e^88 (1.7e38) above 88. */
static inline f8 NAME(exponential)(f8 x)
{
    const f8 magic = ALL(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    x = -NAME(larger)(-NAME(larger)(x, ALL(-104.0f)), ALL(-88.0f));
    f8 n = (x * ALL(1.44269504f) + magic) - magic;
    f8 r = (x - n * ALL(0.693359375f)) + n * ALL(2.12194440e-4f);
    f8 p = ALL(1.0f / 5040);
    p = p * r + ALL(1.0f / 720);
    p = p * r + ALL(1.0f / 120);
    p = p * r + ALL(1.0f / 24);
    p = p * r + ALL(1.0f / 6);
    p = p * r + ALL(0.5f);
    p = p * r + ALL(1.0f);
    p = p * r + ALL(1.0f);
    i8 exponent = __builtin_convertvector(n, i8) + 127;
    f8 result = p * (f8)(exponent << 23);
    return (f8)((i8)result & (exponent > 0));
}

static inline f8 NAME(gated)(f8 gate, f8 up)
{
    return gate / (ALL(1.0f) + NAME(exponential)(-gate)) * up;
}

/* gate = silu(gate) * up, in place, for columns `from` to `to`. */
static void NAME(swiglu)(long tokens, float *gate, const float *up, long width, long from, long to)
{
    for (long t = 0; t < tokens; t++) {
        float *g = gate + t * width;
        const float *u = up + t * width;
        long i = from;
        for (; i + 8 <= to; i += 8)
            STORE(g + i, NAME(gated)(LOAD(g + i), LOAD(u + i)));
        if (i < to) {
            f8 rest[2] = {{0}, {0}};
            memcpy(&rest[0], g + i, (to - i) * sizeof(float));
            memcpy(&rest[1], u + i, (to - i) * sizeof(float));
            rest[0] = NAME(gated)(rest[0], rest[1]);
            memcpy(g + i, &rest[0], (to - i) * sizeof(float));
        }
    }
}

/* y = x / rms(x) * weight, for each of `count` vectors, `x_stride` and `y_stride` apart. */
static void NAME(rms_norm)(
    long count, const float *x, long x_stride, const float *weight, float epsilon, long length, float *y, long y_stride)
{
    for (long t = 0; t < count; t++) {
        const float *in = x + t * x_stride;
        float *out = y + t * y_stride;
        f8 squares = {0};
        float rest = 0;
        long i = 0;
        for (; i + 8 <= length; i += 8)
            squares += LOAD(in + i) * LOAD(in + i);
        for (; i < length; i++)
            rest += in[i] * in[i];
        float scale = 1.0f / sqrtf((NAME(sum_of)(squares) + rest) / (float)length + epsilon);
        for (i = 0; i < length; i++)
            out[i] = in[i] * scale * weight[i];
    }
}

/* One head at one token: normed where `norm` is given, then rotated by cos and sin (the halves are the pairs). */
static void NAME(rotate)(
    const float *x, const float *norm, float epsilon, const float *cosines, const float *sines, long size, float *y)
{
    float normed[MAX_HEAD];
    long half = size / 2;
    if (norm) {
        NAME(rms_norm)(1, x, size, norm, epsilon, size, normed, size);
        x = normed;
    }
    for (long i = 0; i < half; i++) {
        y[i] = x[i] * cosines[i] - x[half + i] * sines[i];
        y[half + i] = x[half + i] * cosines[half + i] + x[i] * sines[half + i];
    }
}

/* ---- attention ---- */

/* row = row * scale + the mask, which is `additive`, or `seen` (truth values), or nothing; returns the largest. */
static float NAME(masked)(float *row, long length, float scale, const float *additive, const unsigned char *seen)
{
    f8 largest = ALL(-FLT_MAX);
    long j = 0;
    for (; j + 8 <= length; j += 8) {
        f8 scores = LOAD(row + j) * ALL(scale);
        if (additive)
            scores += LOAD(additive + j);
        if (seen) {
            u8 flags;
            memcpy(&flags, seen + j, sizeof flags);
            i8 hidden = __builtin_convertvector(flags, i8) == 0;
            scores = (f8)(((i8)ALL(-FLT_MAX) & hidden) | ((i8)scores & ~hidden));
        }
        STORE(row + j, scores);
        largest = NAME(larger)(largest, scores);
    }
    float most = -FLT_MAX;
    for (int i = 0; i < 8; i++)
        most = largest[i] > most ? largest[i] : most;
    for (; j < length; j++) {
        row[j] = seen && !seen[j] ? -FLT_MAX : row[j] * scale + (additive ? additive[j] : 0.0f);
        most = row[j] > most ? row[j] : most;
    }
    return most;
}

/* A row of scores becomes one of probabilities, up to their sum, which is returned. */
static float NAME(softmax)(float *row, long length, float scale, const float *additive, const unsigned char *seen)
{
    float largest = NAME(masked)(row, length, scale, additive, seen);
    f8 sums = {0};
    long j = 0;
    for (; j + 8 <= length; j += 8) {
        f8 p = NAME(exponential)(LOAD(row + j) - ALL(largest));
        STORE(row + j, p);
        sums += p;
    }
    if (j < length) {
        f8 rest = ALL(-FLT_MAX);
        memcpy(&rest, row + j, (length - j) * sizeof(float));
        rest = NAME(exponential)(rest - ALL(largest));
        memcpy(row + j, &rest, (length - j) * sizeof(float));
        sums += rest;
    }
    return NAME(sum_of)(sums);
}

/* out[q] = sum over j of p[q][j] * v[j], for ROWS queries and 8 * VECTORS dimensions. */
#define MIX_TILE(ROWS, VECTORS)                                                                                           \
    static inline void NAME(mix_##ROWS##_##VECTORS)(                                                                    \
        const float *p, long p_stride, const float *v, long v_stride, long length, float *const *out,                     \
        const float *scales, long at)                                                                                     \
    {                                                                                                                     \
        f8 sums[ROWS][VECTORS];                                                                                           \
        for (int q = 0; q < ROWS; q++)                                                                                    \
            for (int d = 0; d < VECTORS; d++)                                                                             \
                sums[q][d] = (f8){0};                                                                                     \
        for (long j = 0; j < length; j++) {                                                                               \
            f8 values[VECTORS];                                                                                           \
            for (int d = 0; d < VECTORS; d++)                                                                             \
                values[d] = LOAD(v + j * v_stride + at + 8 * d);                                                          \
            for (int q = 0; q < ROWS; q++) {                                                                              \
                f8 weight = ALL(p[q * p_stride + j]);                                                                     \
                for (int d = 0; d < VECTORS; d++)                                                                         \
                    sums[q][d] += weight * values[d];                                                                     \
            }                                                                                                             \
        }                                                                                                                 \
        for (int q = 0; q < ROWS; q++)                                                                                    \
            for (int d = 0; d < VECTORS; d++)                                                                             \
                STORE(out[q] + at + 8 * d, sums[q][d] * ALL(scales[q]));                                                  \
    }

MIX_TILE(3, 4)
MIX_TILE(3, 1)
MIX_TILE(1, 4)
MIX_TILE(1, 1)

/* All `size` dimensions of `rows` queries; out[q] is where query q's result goes. */
static void NAME(mix)(
    long rows, const float *p, long p_stride, const float *v, long v_stride, long length, long size, float *const *out,
    const float *scales)
{
    long q = 0;
#define ALL_DIMENSIONS(ROWS)                                                                                              \
    for (; q + ROWS <= rows; q += ROWS) {                                                                                 \
        long at = 0;                                                                                                      \
        for (; at + 32 <= size; at += 32)                                                                                 \
            NAME(mix_##ROWS##_4)(p + q * p_stride, p_stride, v, v_stride, length, out + q, scales + q, at);               \
        for (; at < size; at += 8)                                                                                        \
            NAME(mix_##ROWS##_1)(p + q * p_stride, p_stride, v, v_stride, length, out + q, scales + q, at);               \
    }
    ALL_DIMENSIONS(3)
    ALL_DIMENSIONS(1)
#undef ALL_DIMENSIONS
}

/* Queries `from` to `to` of a key-value head (its heads one after the other, each with all tokens) against all its keys.
   scratch: room for `QUERY_BLOCK` rotated queries, and as many rows of scores. */
static void NAME(attend_rows)(const attention *a, long kv_head, long from, long to, float *scratch)
{
    const float *keys = a->keys + kv_head * a->key_head_stride;
    const float *values = a->values + kv_head * a->value_head_stride;
    float *queries = scratch, *scores = scratch + QUERY_BLOCK * a->head_size;
    float *out[QUERY_BLOCK], scales[QUERY_BLOCK];
    long before = a->length - a->tokens;
    for (long start = from; start < to; start += QUERY_BLOCK) {
        long rows = to - start < QUERY_BLOCK ? to - start : QUERY_BLOCK, seen_by_any = a->causal ? 0 : a->length;
        for (long q = 0; q < rows; q++) {
            long head = kv_head * a->group + (start + q) / a->tokens, token = (start + q) % a->tokens;
            long place = token * a->heads * a->head_size + head * a->head_size;
            NAME(rotate)(a->queries + place, a->query_norm, a->epsilon, a->cosines + token * a->head_size,
                         a->sines + token * a->head_size, a->head_size, queries + q * a->head_size);
            out[q] = a->out + place;
            if (a->causal && before + token + 1 > seen_by_any)
                seen_by_any = before + token + 1;
        }
        NAME(dot_rows)(rows, queries, a->head_size, keys, a->key_stride, a->head_size, scores, a->length, 0, seen_by_any);
        for (long q = 0; q < rows; q++) {
            long token = (start + q) % a->tokens;
            long sees = a->causal ? before + token + 1 : a->length;
            const float *additive = a->additive ? a->additive + token * a->mask_stride : NULL;
            const unsigned char *seen = a->seen ? a->seen + token * a->mask_stride : NULL;
            scales[q] = 1.0f / NAME(softmax)(scores + q * a->length, sees, a->scale, additive, seen);
            for (long j = sees; j < seen_by_any; j++)
                scores[q * a->length + j] = 0;
        }
        NAME(mix)(rows, scores, a->length, values, a->value_stride, seen_by_any, a->head_size, out, scales);
    }
}

/* ---- the parts of a thread ---- */

static void NAME(linear_part)(const linear_call *call, int thread, int threads)
{
    const linear *layer = &call->layer;
    NAME(linear_rows)(call->tokens, call->x, layer->weight, layer->inputs, layer->bias, NULL, call->y, layer->outputs,
                      PART(layer->outputs, thread), PART(layer->outputs, thread + 1));
}

/* One of the layer's products, of which this thread does its rows. */
#define PRODUCT(LAYER, X, ADDED, Y)                                                                                       \
    NAME(linear_rows)(tokens, X, layer->LAYER.weight, layer->LAYER.inputs, layer->LAYER.bias, ADDED, Y,                   \
                      layer->LAYER.outputs, PART(layer->LAYER.outputs, thread), PART(layer->LAYER.outputs, thread + 1))

/* First half of a decoder layer: norm, queries, keys and values; keys are rotated. */
static void NAME(project_part)(const layer_call *call, int thread, int threads)
{
    const decoder_layer *layer = &call->layer;
    long tokens = call->tokens, hidden = layer->query.inputs, size = layer->head_size;
    const float *normed = call->hidden;
    if (layer->input_norm) {
        float *room = call->private_room + thread * call->private_size;
        NAME(rms_norm)(tokens, call->hidden, hidden, layer->input_norm, layer->epsilon, hidden, room, hidden);
        normed = room;
    }
    PRODUCT(query, normed, NULL, call->queries);
    PRODUCT(key, normed, NULL, call->raw_keys);
    PRODUCT(value, normed, NULL, call->raw_values);
    call->barrier();
    long units = layer->kv_heads * tokens;
    for (long unit = PART(units, thread); unit < PART(units, thread + 1); unit++) {
        long head = unit / tokens, token = unit % tokens;
        long from = (token * layer->kv_heads + head) * size, to = unit * size;
        NAME(rotate)(call->raw_keys + from, layer->key_norm, layer->epsilon, call->cosines + token * size,
                     call->sines + token * size, size, call->new_keys + to);
        memcpy(call->new_values + to, call->raw_values + from, size * sizeof(float));
    }
}

/* Second half: attention over the cache, which holds the new keys and values by now, and the gated network. */
static void NAME(finish_part)(const layer_call *call, int thread, int threads)
{
    const decoder_layer *layer = &call->layer;
    long tokens = call->tokens, hidden = layer->query.inputs, width = layer->gate.outputs;
    long rows = call->attention.group * tokens; /* of a key-value head */
    long size = (rows * layer->kv_heads + 4 * threads - 1) / (4 * threads);
    if (size > 3) /* products like groups of four, and of three */
        size = size > QUERY_BLOCK / 2 ? QUERY_BLOCK : size > 8 ? QUERY_BLOCK / 2 : (size + 3) / 4 * 4;
    long blocks = (rows + size - 1) / size, units = blocks * layer->kv_heads;
    float *room = call->private_room + thread * call->private_size;
    for (long unit = PART(units, thread); unit < PART(units, thread + 1); unit++) {
        long from = unit % blocks * size;
        NAME(attend_rows)(&call->attention, unit / blocks, from, from + size < rows ? from + size : rows, room);
    }
    call->barrier();
    PRODUCT(output, call->attention.out, call->hidden, call->middle);
    call->barrier();
    NAME(rms_norm)(tokens, call->middle, hidden, layer->middle_norm, layer->epsilon, hidden, room, hidden);
    PRODUCT(gate, room, NULL, call->gates);
    PRODUCT(up, room, NULL, call->ups);
    NAME(swiglu)(tokens, call->gates, call->ups, width, PART(width, thread), PART(width, thread + 1));
    call->barrier();
    PRODUCT(down, call->gates, call->middle, call->out);
}

#undef DOT_TILE
#undef DOT
#undef MIX_TILE
#undef PRODUCT
