"""The forward of a few tokens on the CPU in float32: linear layers and whole decoder layers, compiled.

Knows addresses and shapes, no torch: the caller keeps the tensors alive, contiguous and in float32. The arithmetic is in
kernels.h. Work is shared among the threads of the OpenMP runtime that torch has loaded, so that there is one pool of
threads and not two; where there is none, the calling thread does it all. Not thread-safe: layers that share a Workspace
run one at a time.
"""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, malloc

cdef extern from "dispatch.h":
    const int SAMLIB_HAS_KERNELS
    const long QUERY_BLOCK
    const long MAX_HEAD
    const int LINEAR, PROJECT, FINISH

    ctypedef struct linear:
        const float* weight
        const float* bias
        long inputs, outputs

    ctypedef struct linear_call:
        linear layer
        long tokens
        const float* x
        float* y

    ctypedef struct decoder_layer:
        linear query, key, value, output, gate, up, down
        const float* input_norm
        const float* middle_norm
        const float* query_norm
        const float* key_norm
        float epsilon, scale
        long heads, kv_heads, head_size

    ctypedef struct attention_call "attention":
        const float* queries
        const float* keys
        const float* values
        long key_head_stride, key_stride, value_head_stride, value_stride
        const float* cosines
        const float* sines
        const float* query_norm
        const float* additive
        const unsigned char* seen
        long mask_stride
        int causal
        long tokens, length, heads, group, head_size
        float epsilon, scale
        float* out

    ctypedef struct layer_call:
        decoder_layer layer
        long tokens
        const float* hidden
        const float* cosines
        const float* sines
        float* queries
        float* raw_keys
        float* raw_values
        float* new_keys
        float* new_values
        attention_call attention
        float* middle
        float* gates
        float* ups
        float* out
        float* private_room
        long private_size
        void (*barrier)() noexcept nogil

    ctypedef struct runtime:
        void* parallel
        void (*barrier)() noexcept nogil
        void* thread
        void* threads

    ctypedef void (*part_function)(const void*, int, int) noexcept nogil
    bint has_avx2() noexcept nogil
    part_function part_named(int part, bint avx2) noexcept nogil
    void no_barrier() noexcept nogil
    void run_part(part_function part, const void* call, const runtime* openmp, int threads) noexcept nogil

AVAILABLE = bool(SAMLIB_HAS_KERNELS)
LARGEST_HEAD = MAX_HEAD

cdef enum:
    LINE = 16  # numbers of a cache line

cdef runtime openmp
cdef bint has_openmp = False
cdef bint avx2 = has_avx2()


def use_openmp(uintptr_t parallel, uintptr_t barrier, uintptr_t thread, uintptr_t threads):
    """Share work by these functions, given by address: GOMP_parallel, GOMP_barrier, omp_get_thread_num, omp_get_num_threads.

    They must be those of the runtime that torch uses, and stay loaded.
    """
    global has_openmp
    openmp.parallel = <void*>parallel
    openmp.barrier = <void (*)() noexcept nogil>barrier
    openmp.thread = <void*>thread
    openmp.threads = <void*>threads
    has_openmp = True


def use_generic(bint generic=True):
    """Use the code that needs no AVX2 although the processor has it, or no longer; returns what was used before."""
    global avx2
    before = not avx2
    avx2 = not generic and has_avx2()
    return before


cdef class Room:
    """Memory for intermediate results; grows as needed. Layers that run one after the other share one."""

    cdef void* _memory
    cdef float* _numbers
    cdef size_t _size

    def __dealloc__(self):
        free(self._memory)

    cdef float* numbers(self, size_t count) except NULL:
        """At least `count` numbers, from the start of a cache line on; where it had to grow, what was there is lost."""
        if self._memory == NULL or count > self._size:
            free(self._memory)
            self._size = 0
            self._memory = malloc((count + LINE) * sizeof(float))
            if self._memory == NULL:
                raise MemoryError(f"no room for {count * sizeof(float)} bytes of intermediate results")
            self._size = count
            self._numbers = <float*>((<uintptr_t>self._memory + 4 * LINE - 1) & ~<uintptr_t>(4 * LINE - 1))
        return self._numbers


cdef class Linear:
    """A linear layer, y = x W' + b.

    weight: address of W, shape (outputs, inputs). bias: address of b, or 0.
    """

    cdef linear_call _call

    def __init__(self, uintptr_t weight, uintptr_t bias, long inputs, long outputs):
        self._call.layer = linear_of((weight, bias, inputs, outputs))

    def run(self, uintptr_t x, uintptr_t y, long tokens, int threads):
        """Write to y, (tokens, outputs), what the layer makes of x, (tokens, inputs)."""
        self._call.x, self._call.y, self._call.tokens = <const float*>x, <float*>y, tokens
        with nogil:
            run_part(part_named(LINEAR, avx2), &self._call, &openmp, team(threads))


cdef class DecoderLayer:
    """A decoder layer as Llama's: norm, rotated attention in groups, norm, gated network, with two residuals.

    It runs in two halves, because the cache of keys and values is the caller's: `project`, and once the cache holds
    what that wrote, `finish`. Layers that run one after the other share the two rooms.
    """

    cdef layer_call _call
    cdef Room _results, _private

    def __init__(
        self, Room results not None, Room private not None, *, linears, norms, float epsilon, float scale, long head_size
    ):
        """linears: for query, key, value, output, gate, up and down what Linear takes, in its order.

        norms: addresses of the weights of the norm before attention, of that after it, and of queries' and keys' norms
        (0 where there is none, which is possible for all but the second). scale: of the scores. Head sizes are multiples of 8 up to LARGEST_HEAD.
        """
        cdef decoder_layer* layer = &self._call.layer
        if head_size % 8 != 0 or head_size > MAX_HEAD:
            raise ValueError(f"heads of {head_size} dimensions: only multiples of 8 up to {MAX_HEAD} are possible")
        self._results, self._private = results, private
        query, key, value, output, gate, up, down = linears
        layer.query, layer.key, layer.value = linear_of(query), linear_of(key), linear_of(value)
        layer.output, layer.gate, layer.up, layer.down = (
            linear_of(output), linear_of(gate), linear_of(up), linear_of(down)
        )
        layer.input_norm, layer.middle_norm, layer.query_norm, layer.key_norm = (
            <const float*><uintptr_t>norms[0], <const float*><uintptr_t>norms[1],
            <const float*><uintptr_t>norms[2], <const float*><uintptr_t>norms[3],
        )
        layer.epsilon, layer.scale, layer.head_size = epsilon, scale, head_size
        layer.heads, layer.kv_heads = layer.query.outputs // head_size, layer.key.outputs // head_size

    def project(
        self, uintptr_t hidden, uintptr_t cosines, uintptr_t sines, long tokens, uintptr_t keys, uintptr_t values,
        int threads
    ):
        """Write the tokens' rotated keys, and their values, both (key-value heads, tokens, head size).

        hidden: (tokens, hidden size), also read by `finish`; cosines, sines: (tokens, head size), likewise.
        """
        cdef layer_call* call = &self._call
        call.tokens, call.hidden = tokens, <const float*>hidden
        call.cosines, call.sines = <const float*>cosines, <const float*>sines
        call.new_keys, call.new_values = <float*>keys, <float*>values
        self._place_results(tokens)
        self._place_private(call.layer.query.inputs * tokens, threads)
        with nogil:
            run_part(part_named(PROJECT, avx2), call, &openmp, team(threads))

    def finish(
        self, uintptr_t keys, uintptr_t values, strides, long length, uintptr_t additive, uintptr_t seen, long mask_stride,
        bint causal, uintptr_t out, int threads
    ):
        """Write the layer's output, (tokens, hidden size), for the tokens of the last `project`.

        keys, values: of all `length` tokens, the new ones last; strides: from head to head and from token to token, of
        keys and then of values. The mask is `additive` (floats), or `seen` (truth values), its rows mask_stride apart, or
        where both are 0, causal or none.
        """
        cdef layer_call* call = &self._call
        cdef attention_call* a = &call.attention
        cdef decoder_layer* layer = &call.layer
        a.queries, a.keys, a.values = call.queries, <const float*>keys, <const float*>values
        a.key_head_stride, a.key_stride, a.value_head_stride, a.value_stride = strides
        a.cosines, a.sines, a.query_norm = call.cosines, call.sines, layer.query_norm
        a.additive, a.seen, a.mask_stride, a.causal = <const float*>additive, <const unsigned char*>seen, mask_stride, causal
        a.tokens, a.length, a.heads, a.head_size = call.tokens, length, layer.heads, layer.head_size
        a.group, a.epsilon, a.scale = layer.heads // layer.kv_heads, layer.epsilon, layer.scale
        call.out = <float*>out
        self._place_private(max(layer.query.inputs * call.tokens, QUERY_BLOCK * (layer.head_size + length)), threads)
        with nogil:
            run_part(part_named(FINISH, avx2), call, &openmp, team(threads))

    cdef int _place_results(self, long tokens) except -1:
        cdef layer_call* call = &self._call
        cdef decoder_layer* layer = &call.layer
        cdef long queries = tokens * layer.query.outputs, keys = tokens * layer.key.outputs
        cdef long hidden = tokens * layer.query.inputs, gates = tokens * layer.gate.outputs
        call.queries = self._results.numbers(2 * (queries + keys + gates) + hidden)
        call.raw_keys = call.queries + queries
        call.raw_values = call.raw_keys + keys
        call.attention.out = call.raw_values + keys
        call.middle = call.attention.out + queries
        call.gates = call.middle + hidden
        call.ups = call.gates + gates
        return 0

    cdef int _place_private(self, long size, int threads) except -1:
        cdef layer_call* call = &self._call
        call.private_size = (size + LINE - 1) // LINE * LINE
        call.private_room = self._private.numbers(call.private_size * threads)
        call.barrier = openmp.barrier if team(threads) > 1 else no_barrier
        return 0


cdef linear linear_of(tuple entry):
    cdef linear layer
    cdef uintptr_t weight = entry[0], bias = entry[1]
    layer.weight, layer.bias = <const float*>weight, <const float*>bias
    layer.inputs, layer.outputs = entry[2], entry[3]
    return layer


cdef int team(int threads) noexcept nogil:
    """How many threads can work together."""
    return threads if has_openmp else 1
