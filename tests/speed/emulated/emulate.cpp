// Runs a kernel of musictx/speed/cuda on the CPU, one block at a time, a fiber a thread; built by emulated/__init__.py with
// SOURCE, the kernel's text, and ENTRY, its name. Settings of a run: when cp.async lands (at once, or only at the wait: both must
// work) and the order of warps between barriers. A wrong address or meeting ends the run with a sentence.
#include SOURCE
#include <setjmp.h>
#include <ucontext.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

Dim threadIdx, blockIdx, gridDim;
alignas(1024) unsigned char shared_bytes[SHARED_BYTES + 1024];

namespace {
enum { FIBERS = 256, STACK = 64 * 1024 };
struct Copy { uint32_t to; unsigned char data[16]; };
struct Warp { int count; unsigned turn; Slot in[2][32], out[2][32]; } warps[FIBERS / 32];
struct Fiber { ucontext_t context; jmp_buf place; bool begun, done; unsigned warp_wait; bool in_warp; unsigned block_wait; bool in_block; std::vector<Copy> copies; std::vector<std::function<void()>> open; std::vector<std::vector<std::function<void()>>> groups; } fibers[FIBERS];
jmp_buf scheduler;            // contexts are switched by jumps: swapcontext would ask the kernel each time
char failure[200];
int current, arrived;
unsigned block_turn;
bool late_copies, late_products;
Arguments call;
const float *sums[3]; long long sum_counts[3];

[[noreturn]] void fail(const char* what) {        // back to the scheduler for good
    snprintf(failure, sizeof failure, "%s (block %u,%u thread %d)", what, blockIdx.x, blockIdx.y, current);
    _longjmp(scheduler, 1);
}
void leave() { if (!_setjmp(fibers[current].place)) _longjmp(scheduler, 1); }

// A number of a tile in the 128-byte swizzle: 8 rows of 128 bytes after 8 rows, pieces of 16 bytes turned by the row.
float swizzled_value(uint32_t start, int row, int column) {
    const uint32_t at = start + (row >> 3) * 1024 + (row & 7) * 128 + 2 * column, place = at ^ ((at >> 7 & 7) << 4);
    check_shared(place, 2);
    uint16_t bits; memcpy(&bits, shared_bytes + place, 2);
    return to_float(bits);
}
void run_warp(Warp& w, unsigned turn) {
    Slot *in = w.in[turn & 1], *out = w.out[turn & 1];
    const Kind kind = in[0].kind;
    for (int i = 0; i < 32; i++) if (in[i].kind != kind) fail("lanes of a warp meet in different operations");
    if (kind == MATRICES || kind == TRANSPOSED) {
        uint16_t m[4][8][8];
        for (int i = 0; i < 4; i++) for (int r = 0; r < 8; r++) {
            const uint32_t at = in[8 * i + r].u[0];
            if (at & 15) fail("ldmatrix row not aligned");
            check_shared(at, 16);
            memcpy(m[i][r], shared_bytes + at, 16);
        }
        for (int i = 0; i < 4; i++) {           // each of the four phases must touch all 32 banks once
            unsigned seen = 0;
            for (int r = 0; r < 8; r++) seen |= 1u << (in[8 * i + r].u[0] / 16 % 8);
            if (seen != 255) fail("ldmatrix with a bank conflict");
        }
        for (int l = 0; l < 32; l++) for (int i = 0; i < 4; i++) {
            const int r = l / 4, c = 2 * (l % 4);
            out[l].u[i] = kind == MATRICES ? m[i][r][c] | (uint32_t)m[i][r][c + 1] << 16 : m[i][c][r] | (uint32_t)m[i][c + 1][r] << 16;
        }
    } else if (kind == STORED) {
        for (int i = 0; i < 4; i++) {
            unsigned seen = 0;
            for (int r = 0; r < 8; r++) {
                const uint32_t at = in[8 * i + r].u[0];
                if (at & 15) fail("stmatrix row not aligned");
                check_shared(at, 16);
                for (int c = 0; c < 4; c++) memcpy(shared_bytes + at + 4 * c, &in[4 * r + c].u[1 + i], 4);
                seen |= 1u << (at / 16 % 8);
            }
            if (seen != 255) fail("stmatrix with a bank conflict");
        }
    } else if (kind == MMA) {
        float a[16][16], b[16][8];
        for (int l = 0; l < 32; l++) {
            const int g = l / 4, p = 2 * (l % 4);
            for (int i = 0; i < 4; i++) for (int e = 0; e < 2; e++)
                a[g + 8 * (i & 1)][p + e + 8 * (i >> 1)] = to_float(in[l].u[i] >> (16 * e) & 0xffff);
            for (int i = 0; i < 2; i++) for (int e = 0; e < 2; e++) b[p + e + 8 * i][g] = to_float(in[l].u[4 + i] >> (16 * e) & 0xffff);
        }
        for (int l = 0; l < 32; l++) for (int i = 0; i < 4; i++) {
            const int r = l / 4 + 8 * (i >> 1), c = 2 * (l % 4) + (i & 1);
            float s = in[l].f[i];
            for (int k = 0; k < 16; k++) s += a[r][k] * b[k][c];
            out[l].f[i] = s;
        }
    } else if (kind == ROWS || kind == TILES) {
        static float a[16][16], b[16][64];
        const uint32_t at = kind == ROWS ? in[0].u[4] : in[0].u[1];
        const int columns = in[0].columns;
        const bool right = kind == ROWS ? in[0].n : in[0].n & 2;        // rows of y lie as rows
        const int first = (int)(&w - warps) % 4 * 16;       // of the warp's 16 rows
        for (int k = 0; k < 16; k++) for (int n = 0; n < columns; n++) b[k][n] = right ? swizzled_value(at, k, n) : swizzled_value(at, n, k);
        for (int l = 0; l < 32 && kind == ROWS; l++) for (int i = 0; i < 4; i++) for (int e = 0; e < 2; e++)
            a[l / 4 + 8 * (i & 1)][2 * (l % 4) + e + 8 * (i >> 1)] = to_float(in[l].u[i] >> (16 * e) & 0xffff);
        for (int m = 0; m < 16 && kind == TILES; m++) for (int k = 0; k < 16; k++)
            a[m][k] = in[0].n & 1 ? swizzled_value(in[0].u[0], k, first + m) : swizzled_value(in[0].u[0], first + m, k);
        for (int l = 0; l < 32; l++) for (int i = 0; i < columns / 2; i++) {
            const int r = l / 4 + 8 * (i >> 1 & 1), c = i / 4 * 8 + 2 * (l % 4) + (i & 1);
            float s = in[l].f[i];
            for (int k = 0; k < 16; k++) s += a[r][k] * b[k][c];
            out[l].f[i] = s;
        }
    } else if (kind == SHUFFLE) {
        for (int l = 0; l < 32; l++) out[l].f[0] = in[l ^ in[l].n].f[0];
    }
}
void body() {
    ENTRY(call);
    if (!fibers[current].copies.empty()) fail("a copy never waited for");
    if (!fibers[current].open.empty() || !fibers[current].groups.empty()) fail("a product never waited for");
    fibers[current].done = true;
    leave();
}
bool ready(int i) {
    Fiber& f = fibers[i];
    if (f.done) return false;
    if (f.in_warp && warps[i / 32].turn == f.warp_wait) return false;
    if (f.in_block && block_turn == f.block_wait) return false;
    return true;
}
void resume(int i) {
    current = i; threadIdx = {(unsigned)i, 0, 0};
    if (_setjmp(scheduler)) return;
    Fiber& f = fibers[i];
    if (f.begun) _longjmp(f.place, 1);
    f.begun = true;
    setcontext(&f.context);
}
}

void check_shared(uint32_t at, uint32_t bytes) {
    if (at + bytes > SHARED_BYTES) fail("shared address out of range");
    if (at % bytes) fail("shared address not aligned");
}
void check_sum(const float* at, int count) {
    for (int i = 0; i < 3; i++)
        if (sums[i] && at >= sums[i] && at + count <= sums[i] + sum_counts[i]) { if ((at - sums[i]) % count) fail("sum not aligned"); return; }
    fail("a sum out of range");
}
Slot& collective(const Slot& in) {
    const int me = current, lane = me & 31;
    Warp& w = warps[me / 32];
    const unsigned turn = w.turn;
    w.in[turn & 1][lane] = in;
    if (++w.count == 32) { w.count = 0; run_warp(w, turn); w.turn++; }
    else { fibers[me].in_warp = true; fibers[me].warp_wait = turn; leave(); fibers[me].in_warp = false; }
    return w.out[turn & 1][lane];
}
void block_barrier() {
    const int me = current;
    if (++arrived == FIBERS) { arrived = 0; block_turn++; }
    else { fibers[me].in_block = true; fibers[me].block_wait = block_turn; leave(); fibers[me].in_block = false; }
}
void copy_later(uint32_t to, const void* from, bool valid) {
    if (to & 15 || (uintptr_t)from & 15) fail("cp.async not aligned");
    check_shared(to, 16);
    Copy c; c.to = to;
    if (valid) memcpy(c.data, from, 16); else memset(c.data, 0, 16);
    fibers[current].copies.push_back(c);
    if (late_copies) memset(shared_bytes + to, 0xff, 16);       // what lies there is gone from now on (NaN in 16 bits)
    else memcpy(shared_bytes + to, c.data, 16);
}
void copies_arrive() {
    for (const Copy& c : fibers[current].copies) memcpy(shared_bytes + c.to, c.data, 16);
    fibers[current].copies.clear();
}
void product(std::function<void()> act) {
    if (late_products) fibers[current].open.push_back(act);
    else act();
}
void products_committed() {
    Fiber& f = fibers[current];
    if (late_products) f.groups.push_back(std::move(f.open));
    f.open.clear();
}
void products_awaited(int left) {
    Fiber& f = fibers[current];
    while ((int)f.groups.size() > left) {
        const auto group = std::move(f.groups.front());
        f.groups.erase(f.groups.begin());
        for (const auto& act : group) act();
    }
}

extern "C" int shared_bytes_needed() { return SHARED_BYTES; }

// order: 0 lanes of all warps in turn, 1 a warp as far as it comes then the next, 2 the same from the last warp
// Returns what went wrong, empty if nothing did.
extern "C" const char* emulate(const Arguments* arguments, unsigned columns, unsigned rows, long long keys_count, long long table_count, int late, int order) {
    call = *arguments;
    sums[0] = call.dk; sums[1] = call.dv; sums[2] = call.dtable;
    sum_counts[0] = sum_counts[1] = keys_count; sum_counts[2] = table_count;
    late_copies = late & 1; late_products = late >> 1; failure[0] = 0;
    static std::vector<unsigned char> stacks((size_t)FIBERS * STACK);
    gridDim = {columns, rows, 1};
    for (unsigned y = 0; y < rows; y++) for (unsigned x = 0; x < columns; x++) {
        blockIdx = {x, y, 0};
        memset(shared_bytes, 0xff, sizeof shared_bytes);
        memset(warps, 0, sizeof warps);
        arrived = 0; block_turn = 0;
        for (int i = 0; i < FIBERS; i++) {
            Fiber& f = fibers[i];
            f.begun = f.done = f.in_warp = f.in_block = false; f.copies.clear(); f.open.clear(); f.groups.clear();
            getcontext(&f.context);
            f.context.uc_stack.ss_sp = &stacks[(size_t)i * STACK]; f.context.uc_stack.ss_size = STACK; f.context.uc_link = nullptr;
            makecontext(&f.context, body, 0);
        }
        for (bool any = true; any;) {
            any = false;
            for (int w = 0; w < FIBERS / 32; w++) {
                const int warp = order == 2 ? FIBERS / 32 - 1 - w : w;
                for (bool more = true; more;) {
                    more = false;
                    for (int l = 0; l < 32; l++) if (ready(warp * 32 + l)) {
                        resume(warp * 32 + l);
                        if (failure[0]) return failure;
                        any = true; more = order != 0;
                    }
                }
            }
        }
        for (int i = 0; i < FIBERS; i++) if (!fibers[i].done) return "a deadlock";
    }
    return failure;
}
