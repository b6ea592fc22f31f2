// Work-item functions, barriers and atomics.
#include "builtins.h"

#define STATE(field, dimension, beyond) ((dimension) < 3 ? weft_work_state()->field[dimension] : (beyond))

#define GLOBAL_SIZE(s, d) ((s)->local_size[d] * (s)->num_groups[d])

static ulong global_id_of(uint d) {
  const WeftWorkState* s = weft_work_state();
  if (d >= 3) return 0;
  return s->group_id[d] * s->local_size[d] + s->local_id[d] + s->global_offset[d];
}

BUILTIN(ulong, "_Z13get_global_idj", (uint d), global_id_of(d))
BUILTIN(ulong, "_Z12get_local_idj", (uint d), STATE(local_id, d, 0))
BUILTIN(ulong, "_Z12get_group_idj", (uint d), STATE(group_id, d, 0))
BUILTIN(ulong, "_Z14get_local_sizej", (uint d), STATE(local_size, d, 1))
BUILTIN(ulong, "_Z23get_enqueued_local_sizej", (uint d), STATE(local_size, d, 1))
BUILTIN(ulong, "_Z14get_num_groupsj", (uint d), STATE(num_groups, d, 1))
BUILTIN(ulong, "_Z17get_global_offsetj", (uint d), STATE(global_offset, d, 0))
BUILTIN(ulong, "_Z15get_global_sizej", (uint d), d < 3 ? GLOBAL_SIZE(weft_work_state(), d) : 1)
BUILTIN(uint, "_Z12get_work_dimv", (void), (uint)weft_work_state()->work_dim)
BUILTIN_BODY(ulong, "_Z19get_local_linear_idv", (void), const WeftWorkState* s = weft_work_state();
             return (s->local_id[2] * s->local_size[1] + s->local_id[1]) * s->local_size[0] + s->local_id[0];)
BUILTIN_BODY(ulong, "_Z20get_global_linear_idv", (void), const WeftWorkState* s = weft_work_state();
             ulong rows = (s->group_id[2] * s->local_size[2] + s->local_id[2]) * GLOBAL_SIZE(s, 1);
             rows += s->group_id[1] * s->local_size[1] + s->local_id[1];
             return rows * GLOBAL_SIZE(s, 0) + s->group_id[0] * s->local_size[0] + s->local_id[0];)

BUILTIN(void, "_Z7barrierj", (uint flags), (void)flags, weft_work_barrier())
BUILTIN(void, "_Z18work_group_barrierj", (uint flags), (void)flags, weft_work_barrier())
BUILTIN(void, "_Z18work_group_barrierj12memory_scope", (uint flags, uint scope), (void)flags, (void)scope,
        weft_work_barrier())
BUILTIN(void, "_Z9mem_fencej", (uint flags), (void)flags, __atomic_thread_fence(__ATOMIC_SEQ_CST))
BUILTIN(void, "_Z14read_mem_fencej", (uint flags), (void)flags, __atomic_thread_fence(__ATOMIC_SEQ_CST))
BUILTIN(void, "_Z15write_mem_fencej", (uint flags), (void)flags, __atomic_thread_fence(__ATOMIC_SEQ_CST))
BUILTIN(void, "_Z22atomic_work_item_fencej12memory_order12memory_scope", (uint flags, uint order, uint scope),
        (void)flags, (void)order, (void)scope, __atomic_thread_fence(__ATOMIC_SEQ_CST))

// Read-modify-write functions; the strings after `prefix` are the lengths of the names, which the mangling needs.
#define ATOMICS(space, p, type, code, prefix, or_, op, xchg, cmpxchg)                                     \
  ATOMIC(space, p, type, code, op prefix "_add", __atomic_fetch_add(a, v, __ATOMIC_SEQ_CST))              \
  ATOMIC(space, p, type, code, op prefix "_sub", __atomic_fetch_sub(a, v, __ATOMIC_SEQ_CST))              \
  ATOMIC(space, p, type, code, op prefix "_min", __atomic_fetch_min(a, v, __ATOMIC_SEQ_CST))              \
  ATOMIC(space, p, type, code, op prefix "_max", __atomic_fetch_max(a, v, __ATOMIC_SEQ_CST))              \
  ATOMIC(space, p, type, code, op prefix "_and", __atomic_fetch_and(a, v, __ATOMIC_SEQ_CST))              \
  ATOMIC(space, p, type, code, op prefix "_xor", __atomic_fetch_xor(a, v, __ATOMIC_SEQ_CST))              \
  ATOMIC(space, p, type, code, or_ prefix "_or", __atomic_fetch_or(a, v, __ATOMIC_SEQ_CST))               \
  ATOMIC(space, p, type, code, xchg prefix "_xchg", __atomic_exchange_n(a, v, __ATOMIC_SEQ_CST))          \
  BUILTIN(type, "_Z" op prefix "_inc" p "V" code, (volatile space type * a),                              \
          __atomic_fetch_add(a, 1, __ATOMIC_SEQ_CST))                                                     \
  BUILTIN(type, "_Z" op prefix "_dec" p "V" code, (volatile space type * a),                              \
          __atomic_fetch_sub(a, 1, __ATOMIC_SEQ_CST))                                                     \
  BUILTIN_BODY(type, "_Z" cmpxchg prefix "_cmpxchg" p "V" code code code,                                 \
               (volatile space type * a, type expected, type desired),                                    \
               __atomic_compare_exchange_n(a, &expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
               return expected;)
#define ATOMIC(space, p, type, code, name, ...) \
  BUILTIN(type, "_Z" name p "V" code code, (volatile space type * a, type v), __VA_ARGS__)
#define ATOMICS_6(space, p, type, code) ATOMICS(space, p, type, code, "atomic", "9", "10", "11", "14")
#define ATOMICS_4(space, p, type, code) ATOMICS(space, p, type, code, "atom", "7", "8", "9", "12")

FOR_EACH_POINTER(ATOMICS_6, int, "i")
FOR_EACH_POINTER(ATOMICS_6, uint, "j")
FOR_EACH_POINTER(ATOMICS_6, long, "l")
FOR_EACH_POINTER(ATOMICS_6, ulong, "m")
FOR_EACH_POINTER(ATOMICS_4, int, "i")
FOR_EACH_POINTER(ATOMICS_4, uint, "j")
FOR_EACH_POINTER(ATOMICS_4, long, "l")
FOR_EACH_POINTER(ATOMICS_4, ulong, "m")

#define EXCHANGE_FLOAT(space, p, unused)                                                             \
  BUILTIN_BODY(float, "_Z11atomic_xchg" p "Vff", (volatile space float* a, float v), uint bits, old; \
               __builtin_memcpy(&bits, &v, sizeof bits);                                             \
               old = __atomic_exchange_n((volatile space uint*)a, bits, __ATOMIC_SEQ_CST);           \
               __builtin_memcpy(&v, &old, sizeof v); return v;)
FOR_EACH_POINTER(EXCHANGE_FLOAT, )
