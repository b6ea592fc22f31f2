/* A kind of device as a plug-in: what a shared object offers so that Weft has one kind of device more.
 *
 * The object exports weft_plugin_init, which names the kind and fills a table of functions. Weft is not rebuilt; a
 * program loads the object by weft::load_device_plugin or by WEFT_PLUGINS="a.so:b.so". docs/adding_a_device.md builds
 * one from an empty folder. This header is C99 and C++.
 *
 * Rules that hold for every function of the table:
 *   - It returns WEFT_OK or a code; the host makes a DeviceError of any other, with the function, the code and the
 *     device. No exception leaves it.
 *   - `device` is a number that get_device_list gave. Before a call with a device, that is initialised and the calling
 *     thread has selected it; but for init_device, set_device, and the sizes of chunks and padding, which are asked for
 *     when the plug-in is loaded.
 *   - Functions are called from any thread, several at once. What is queued on one stream comes from one thread at a
 *     time, but waits and questions may come meanwhile.
 *   - What the functions use is there when weft_plugin_init returns, or is never destroyed: `finalize` is called at the
 *     program's end, before what the object made until then is destroyed, and after what it made later.
 *   - (R) marks entries that are required; any other may be null, and the host then does what stands with it.
 *   - A kernel gives the same bits for the same call in every run: no additions of floats in the order of threads.
 *   - The host asks for no memory of 0 bytes, frees no null pointer and copies nothing of 0 bytes.
 */
#ifndef WEFT_BACKENDS_PLUGIN_PLUGIN_H
#define WEFT_BACKENDS_PLUGIN_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Another major version is refused; so is a plug-in whose minor version is above the host's. One below is served:
 * entries that it does not know are null. New entries are added at the end. */
#define WEFT_PLUGIN_ABI_MAJOR 2
#define WEFT_PLUGIN_ABI_MINOR 2
#define WEFT_PLUGIN_ABI_PATCH 0

enum WeftStatus {
  WEFT_OK = 0,
  WEFT_FAILED = 1,        /* any failure without a code of its own */
  WEFT_NOT_READY = 2,     /* of query_stream and query_event: not reached yet */
  WEFT_OUT_OF_MEMORY = 3, /* of the allocators: the host frees what it caches and asks once more */
  WEFT_UNSUPPORTED = 4,   /* of run_kernel: not for these dtypes; the op raises DTypeError */
  /* Of kernels. The host raises the error of that name, at the op and line of the call. */
  WEFT_INDEX_ERROR = 5,
  WEFT_SHAPE_ERROR = 6,
  WEFT_DTYPE_ERROR = 7,
  WEFT_VALUE_ERROR = 8,
  WEFT_NOT_IMPLEMENTED = 9
};

enum WeftDType {
  WEFT_BOOL,
  WEFT_U8,
  WEFT_I8,
  WEFT_U16,
  WEFT_I16,
  WEFT_U32,
  WEFT_I32,
  WEFT_U64,
  WEFT_I64,
  WEFT_F16,
  WEFT_BF16,
  WEFT_F32,
  WEFT_F64,
  WEFT_F8_E4M3FN,
  WEFT_F8_E5M2,
  WEFT_F8_E4M3FNUZ,
  WEFT_F8_E5M2FNUZ,
  WEFT_F8_E8M0FNU,
  /* Two WEFT_F32, two WEFT_F64: the real and the imaginary part. */
  WEFT_C64,
  WEFT_C128
};

#define WEFT_MAX_RANK 8

/* Shape and strides of a strided array. Strides are signed and count bytes; 0 repeats an element. */
typedef struct WeftLayout {
  uint8_t dtype; /* a WeftDType */
  uint8_t rank;
  uint8_t contiguous; /* row-major without gaps */
  uint8_t device_type;
  uint8_t device_index; /* Weft's index, not the plug-in's number */
  uint8_t host_scalar;  /* `data` is one element in the host's memory: a number of the program's */
  uint8_t reserved[2];
  int64_t numel;
  int64_t sizes[WEFT_MAX_RANK];
  int64_t strides[WEFT_MAX_RANK];
} WeftLayout;

/* A typed, strided window into memory; `data` is the address of the first element. An operand that is absent (a bias,
 * a mask) has null data. */
typedef struct WeftView {
  void* data;
  WeftLayout layout;
} WeftView;

enum WeftAttributeKind {
  WEFT_ATTRIBUTE_I64,
  WEFT_ATTRIBUTE_U64,
  WEFT_ATTRIBUTE_F64,
  WEFT_ATTRIBUTE_BOOL,     /* value.i64 is 0 or 1 */
  WEFT_ATTRIBUTE_I64_LIST, /* `count` numbers at value.i64s */
  WEFT_ATTRIBUTE_F64_LIST
};

typedef struct WeftAttribute {
  const char* name; /* "dim", "epsilon"; empty where it goes by position alone */
  int32_t kind;     /* a WeftAttributeKind */
  int32_t count;
  union {
    int64_t i64;
    uint64_t u64;
    double f64;
    const int64_t* i64s;
    const double* f64s;
  } value;
} WeftAttribute;

/* One call of a kernel. `kernel` is the name of a pointer of weft::KernelTable, whose comment in
 * <weft/backends/dispatch.hpp> is the kernel's contract; the parts stand in the order of that pointer's parameters:
 *   - views in `views`. The first `output_count` are written, and some are read too (index_add, optimizer_step). An
 * index plan is the views of its indices, the lists sizes, strides and dims, and the number wraps. Slots of an
 * optimizer are first those that are written, slot by slot (parameter, three of state, of which some have no data),
 * then the gradient of each.
 *   - the enumerator, if the kernel has one, as `variant` and `variant_name`: ("binary", "mul"). Names stay as they are
 *     from version to version, numbers do not.
 *   - everything else in `attributes`; the fields of a struct one after the other.
 * All of it lives as long as the call of run_kernel; `keep` of WeftHost copies it for longer. */
typedef struct WeftKernelCall {
  size_t size; /* of this struct */
  const char* kernel;
  const char* variant_name; /* null where there is none */
  int32_t variant;          /* -1 where there is none */
  int32_t view_count;
  int32_t output_count;
  int32_t attribute_count;
  const WeftView* views;
  const WeftAttribute* attributes;
  /* Of a kernel that gives a number (count_nonzero): where to put it, until the stream has been waited for. */
  int64_t* result;
  /* The op that the program called, and where; for profiles and messages. Null and 0 where unknown. */
  const char* op;
  const char* file;
  uint32_t line;
  uint32_t reserved;
  uint64_t origin[3]; /* the host's own; a copy keeps them */
} WeftKernelCall;

/* What the host does for a plug-in. Every function may be called by any thread, those of streams too. */
typedef struct WeftHost {
  size_t size;
  /* Runs the CPU's kernel on a call whose views point into memory that the host can address. So a plug-in begins with
   * all kernels computed by the host, from its own queue's thread, and replaces them one by one. Where the kernel
   * fails, with an index that is out of range for example, the error is raised by the next wait for the call's stream,
   * with the op and line that queued it; the code returned is of that error. */
  int (*compute)(const WeftKernelCall* call);
  /* A copy of the call and of all that it points to, numbers of the host included, but not the elements of tensors.
   * Null where there is no memory. */
  const WeftKernelCall* (*keep)(const WeftKernelCall* call);
  void (*release)(const WeftKernelCall* kept);
  /* A kernel that was queued failed: as `compute` does, for a plug-in's own kernels. */
  void (*fail)(const WeftKernelCall* call, int code, const char* message);
} WeftHost;

typedef struct WeftPluginStream* WeftStream;
typedef struct WeftPluginEvent* WeftEvent;
typedef struct WeftPluginComm* WeftComm;
typedef struct WeftPluginRecipe* WeftRecipe;

enum WeftReduceOp { WEFT_REDUCE_SUM, WEFT_REDUCE_PROD, WEFT_REDUCE_MAX, WEFT_REDUCE_MIN, WEFT_REDUCE_MEAN };

/* Collectives between processes, in order on a stream. `count` counts elements of `dtype`. */
typedef struct WeftCollectives {
  size_t size;
  int (*unique_id_size)(size_t* bytes);
  int (*unique_id)(void* id);
  int (*comm_init_rank)(int32_t device, WeftComm* comm, int32_t ranks, const void* id, int32_t rank);
  int (*destroy)(WeftComm comm);
  int (*all_reduce)(WeftComm comm, WeftStream stream, void* to, const void* from, size_t count, int32_t dtype,
                    int32_t op);
  int (*broadcast)(WeftComm comm, WeftStream stream, void* data, size_t count, int32_t dtype, int32_t root);
  int (*reduce)(WeftComm comm, WeftStream stream, void* to, const void* from, size_t count, int32_t dtype, int32_t op,
                int32_t root);
  int (*all_gather)(WeftComm comm, WeftStream stream, void* to, const void* from, size_t count, int32_t dtype);
  int (*reduce_scatter)(WeftComm comm, WeftStream stream, void* to, const void* from, size_t count, int32_t dtype,
                        int32_t op);
  int (*send)(WeftComm comm, WeftStream stream, const void* from, size_t count, int32_t dtype, int32_t to_rank);
  int (*recv)(WeftComm comm, WeftStream stream, void* to, size_t count, int32_t dtype, int32_t from_rank);
  int (*group_start)(void);
  int (*group_end)(void);
} WeftCollectives;

/* One span of the device's time, on the host's monotonic clock; `name` is copied. A stream that is null is unknown. */
typedef void (*WeftSpan)(void* data, const char* name, WeftStream stream, uint64_t begin_ns, uint64_t end_ns);

/* Of the vendor's, which runs while weft::Profiler does. One thread calls these, while no other computes. */
typedef struct WeftProfiler {
  size_t size;
  int (*initialize)(void); /* (R) once, before the first profile */
  int (*prepare)(void);    /* (R) before each */
  int (*start)(void);      /* (R) */
  int (*stop)(void);       /* (R) */
  /* (R) After `stop`: tells what was measured since `start`, in any order. The program's profile shows it. */
  int (*collect)(WeftSpan tell, void* data);
  int (*finalize)(void); /* (R) once, after the last profile */

  /* ---- since 1.2 ---- */
  /* Between `start` and `stop`, by every thread that queues: what it queues until the span ends is of this op of the
   * program's, called there. Spans nest: an op in which another one runs holds that one's. In backward the outer one is
   * "exp backward", at the line of the forward call. A span of an op that failed ends when the thread begins its next
   * one. `file` is null and `line` 0 where the place is unknown; both functions may be null. */
  void (*begin_span)(const char* name, const char* file, uint32_t line);
  void (*end_span)(void);
} WeftProfiler;

/* Programs that are compiled once for a signature: kernel, variant, the layouts and aliases of the views, attributes.
 * `launch` gets a call of that signature; its data pointers differ. */
typedef struct WeftRecipes {
  size_t size;
  int (*compile)(int32_t device, const WeftKernelCall* call, WeftRecipe* recipe);
  int (*launch)(WeftRecipe recipe, WeftStream stream, const WeftKernelCall* call);
  /* After its last launch has run. */
  int (*destroy)(WeftRecipe recipe);
} WeftRecipes;

typedef struct WeftDeviceInterface {
  size_t size; /* of the table that the plug-in knows: sizeof(WeftDeviceInterface) */

  /* ---- lifecycle ---- */
  int (*initialize)(void);              /* (R) once, before all others; a second call does nothing */
  int (*finalize)(void);                /* (R) last, when streams and memory are gone; nothing is called afterwards */
  int (*init_device)(int32_t device);   /* (R) before a device is first used */
  int (*deinit_device)(int32_t device); /* (R) */
  int (*set_device)(int32_t device);    /* (R) selects for the calling thread alone, and releases no other */
  int (*get_device)(int32_t* device);   /* (R) the calling thread's */
  int (*get_device_count)(int32_t* count);  /* (R) 0 is no error */
  int (*get_device_list)(int32_t* devices); /* (R) `count` different numbers, 0 or more */

  /* ---- streams: work in order ---- */
  int (*create_stream)(int32_t device, WeftStream* stream);     /* (R) */
  int (*destroy_stream)(int32_t device, WeftStream stream);     /* (R) when its work is done */
  int (*synchronize_stream)(int32_t device, WeftStream stream); /* (R) waits */
  int (*query_stream)(int32_t device, WeftStream stream);       /* or WEFT_NOT_READY; null: an event is recorded */
  /* Calls `callback` on a thread of the plug-in's after what is queued; what comes later waits for it. Null, or without
   * query_event: the calling thread waits for the stream and calls it. */
  int (*add_callback)(int32_t device, WeftStream stream, void (*callback)(void* data), void* data);

  /* ---- events: a point of a stream ---- */
  int (*create_event)(int32_t device, WeftEvent* event); /* (R) */
  /* (R) Also of one that was not reached: waits that were queued for it hold. */
  int (*destroy_event)(int32_t device, WeftEvent event);
  int (*record_event)(int32_t device, WeftStream stream, WeftEvent event);      /* (R) */
  int (*query_event)(int32_t device, WeftEvent event);                          /* or WEFT_NOT_READY; null: waits */
  int (*synchronize_event)(int32_t device, WeftEvent event);                    /* (R) waits */
  int (*stream_wait_event)(int32_t device, WeftStream stream, WeftEvent event); /* (R) of any device of this kind */
  int (*synchronize_device)(int32_t device); /* (R) all of its streams: before its end */

  /* ---- memory ---- */
  int (*device_alloc)(int32_t device, void** data, size_t bytes); /* (R) aligned to 64 and to min_chunk_size */
  int (*device_free)(int32_t device, void* data, size_t bytes);   /* (R) */
  /* Of the host, for copies without a detour. Null: ordinary memory. */
  int (*pinned_host_alloc)(int32_t device, void** data, size_t bytes);
  int (*pinned_host_free)(int32_t device, void* data, size_t bytes);
  /* Queued: every byte becomes `value`. Null: the kernel `fill`, or a copy from the host. */
  int (*memory_set)(int32_t device, WeftStream stream, void* data, uint8_t value, size_t bytes);
  int (*memory_stats)(int32_t device, size_t* total, size_t* free); /* (R) in bytes */
  /* (R) The alignment of addresses, a power of two. Every request is rounded up to it. */
  int (*min_chunk_size)(int32_t device, size_t* bytes);
  int (*max_chunk_size)(int32_t device, size_t* bytes);     /* the largest request; null, or 0: no limit */
  int (*extra_padding_size)(int32_t device, size_t* bytes); /* behind every tensor; null: 0 */

  /* ---- copies ---- */
  /* The host has waited for the stream; each is complete on return. */
  int (*h2d)(int32_t device, void* to, const void* from, size_t bytes); /* (R) */
  int (*d2h)(int32_t device, void* to, const void* from, size_t bytes); /* (R) */
  int (*d2d)(int32_t device, void* to, const void* from, size_t bytes); /* (R) */
  /* Between two devices. Null: through the host. */
  int (*p2p)(int32_t to_device, void* to, int32_t from_device, const void* from, size_t bytes);
  /* Queued. Host memory is not written, nor freed, before the copy is done: the host stages what must not wait. Null:
   * the function above, after a wait. */
  int (*async_h2d)(int32_t device, WeftStream stream, void* to, const void* from, size_t bytes);
  int (*async_d2h)(int32_t device, WeftStream stream, void* to, const void* from, size_t bytes);
  int (*async_d2d)(int32_t device, WeftStream stream, void* to, const void* from, size_t bytes);

  /* ---- what it is ---- */
  int (*compute_capability)(int32_t device, int32_t* major, int32_t* minor);
  int (*runtime_version)(int32_t* version);
  int (*driver_version)(int32_t* version);

  /* ---- groups of their own; null where the device has none ---- */
  const WeftCollectives* collectives; /* null: NotImplementedError where they are asked for */
  const WeftProfiler* profiler;       /* null: the program's profile has what the host measures */

  /* ---- kernels ---- */
  /* Whether run_kernel knows it: asked once for each, when the plug-in is loaded. Ops run their composite bodies
   * without it, or raise NotImplementedError where they have none. Null: none. */
  int32_t (*has_kernel)(const char* kernel);
  /* Queues one call. */
  int (*run_kernel)(int32_t device, WeftStream stream, const WeftKernelCall* call);

  /* ---- since 1.1 ---- */
  /* Milliseconds from one reached event to another of the same device. Null: NotImplementedError. */
  int (*elapsed_time)(int32_t device, WeftEvent begin, WeftEvent end, double* milliseconds);
  /* Where it is there, kernels run by recipes; those for which `compile` says WEFT_UNSUPPORTED by run_kernel. The host
   * caches them by all that they depend on, and destroys what it has not used for long. */
  const WeftRecipes* recipes;
  /* What a code of this plug-in's means, for errors. Null, or a null result: the number alone. */
  const char* (*error_text)(int code);
} WeftDeviceInterface;

/* The host fills struct_size, the version, `table`, `host`, with the table all null; the plug-in the rest. */
typedef struct WeftPluginParams {
  size_t struct_size;                      /* in: the host's; out: sizeof(WeftPluginParams) of the plug-in's */
  int32_t abi_major, abi_minor, abi_patch; /* in: the host's; out: the version that the plug-in was written for */
  const char* device_type;                 /* "npu": letters, digits and _; lives as long as the process */
  const char* sub_type;                    /* of the hardware, for people; may be null */
  WeftDeviceInterface* table;              /* filled in place */
  const WeftHost* host;                    /* lives as long as the process */
} WeftPluginParams;

/* What the shared object exports. */
int weft_plugin_init(WeftPluginParams* params);

#ifdef __cplusplus
}
#endif

#endif
