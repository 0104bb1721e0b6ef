/* Plug-ins in C: what a shared object gives AnyRT, so that networks and plans find its plug-ins.

   A library defines `anyrt_plugin_table`, which gives a table of kinds of plug-ins. Programs load it with
   trt.get_plugin_registry().load_library("libmine.so"); from then on each kind has a creator. All memory is the
   host's; what is pointed to belongs to the caller and ends with the call, where nothing else is said.
   examples/scaled.c is a whole library.

   A function that returns int32_t returns 0 when it did its work, and any other number when it failed. */

#ifndef ANYRT_PLUGIN_H
#define ANYRT_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with every change of what is below; a table of another version is refused. */
#define ANYRT_PLUGIN_VERSION 2
#define ANYRT_MAX_DIMS 8

/* Types of elements, numbered as trt.DataType. */
enum {
  ANYRT_FLOAT = 0, ANYRT_HALF = 1, ANYRT_INT8 = 2, ANYRT_INT32 = 3, ANYRT_BOOL = 4, ANYRT_UINT8 = 5,
  ANYRT_FP8 = 6, ANYRT_BF16 = 7, ANYRT_INT64 = 8, ANYRT_INT4 = 9, ANYRT_FP4 = 10, ANYRT_E8M0 = 11
};

/* How memory lies, numbered as trt.TensorFormat. */
enum {
  ANYRT_LINEAR = 0, ANYRT_CHW2 = 1, ANYRT_HWC8 = 2, ANYRT_CHW4 = 3, ANYRT_CHW16 = 4, ANYRT_CHW32 = 5,
  ANYRT_DHWC8 = 6, ANYRT_CDHW32 = 7, ANYRT_HWC = 8, ANYRT_HWC16 = 11, ANYRT_DHWC = 12
};

/* Types of fields, numbered as trt.PluginFieldType. */
enum {
  ANYRT_FIELD_FLOAT16 = 0, ANYRT_FIELD_FLOAT32 = 1, ANYRT_FIELD_FLOAT64 = 2, ANYRT_FIELD_INT8 = 3,
  ANYRT_FIELD_INT16 = 4, ANYRT_FIELD_INT32 = 5, ANYRT_FIELD_CHAR = 6, ANYRT_FIELD_DIMS = 7,
  ANYRT_FIELD_UNKNOWN = 8, ANYRT_FIELD_BF16 = 9, ANYRT_FIELD_INT64 = 10, ANYRT_FIELD_FP8 = 11,
  ANYRT_FIELD_INT4 = 12, ANYRT_FIELD_FP4 = 13
};

/* Arithmetic on sizes, numbered as trt.DimensionOperation. */
enum {
  ANYRT_SUM = 0, ANYRT_PROD = 1, ANYRT_MAX = 2, ANYRT_MIN = 3, ANYRT_SUB = 4, ANYRT_EQUAL = 5,
  ANYRT_LESS = 6, ANYRT_FLOOR_DIV = 7, ANYRT_CEIL_DIV = 8
};

/* A field that a plug-in is made of. The data of text (ANYRT_FIELD_CHAR) ends after `count` bytes, without a 0. */
typedef struct AnyrtField {
  const char *name;
  const void *data;
  int32_t type;
  int32_t count; /* of elements */
} AnyrtField;

/* A tensor that a plug-in reads or makes. */
typedef struct AnyrtTensor {
  int32_t type;
  int32_t format;
  float scale; /* what a step of an int8 is worth; 0 of others */
  int32_t rank;
  int64_t dims[ANYRT_MAX_DIMS]; /* while building -1 where a run gives them */
} AnyrtTensor;

/* A size while building: the number of an expression. Below 0: there is none, and the call may return its error. */
typedef int32_t AnyrtSize;

typedef struct AnyrtShape {
  int32_t rank;
  AnyrtSize dims[ANYRT_MAX_DIMS];
} AnyrtShape;

/* Makes sizes of numbers and of other sizes; `builder` is passed to each of its functions. */
typedef struct AnyrtSizes {
  void *builder;
  AnyrtSize (*constant)(void *builder, int64_t value);
  AnyrtSize (*operation)(void *builder, int32_t operation, AnyrtSize a, AnyrtSize b);
  /* A size that `output`, an int32 or int64 of rank 0, tells while running: usually `usual`, at most `most`. */
  AnyrtSize (*declare)(void *builder, int32_t output, AnyrtSize usual, AnyrtSize most);
} AnyrtSizes;

/* A kind of plug-ins. Functions marked (or NULL) may be left out. `self`: what `create` or `restore` gave. */
typedef struct AnyrtPlugin {
  const char *name;
  const char *version;
  const char *space; /* the namespace; "" for none */

  const AnyrtField *fields; /* names and types of fields that `create` takes; their data is not read */
  int32_t field_count;

  /* A plug-in of these fields; NULL where they do not fit. What it keeps of them it copies. */
  void *(*create)(const AnyrtField *fields, int32_t count);

  /* (or NULL) It is used no more. */
  void (*destroy)(void *self);

  /* (or NULL) What a plan keeps: at most `room` bytes are written to `to`; their number is returned, also
     where that is more than `room`, and below 0 in case of an error. It is called twice, with no room first.
     Where it is NULL, the plan keeps the fields that the plug-in was created of, and it is created again. */
  int64_t (*serialize)(void *self, void *to, int64_t room);

  /* (or NULL, as serialize) A plug-in of what `serialize` wrote. Each context has a plug-in of its own. */
  void *(*restore)(const void *data, int64_t size);

  /* (or NULL) Why the last call failed, as text that stays until the next call; `self` is NULL after `create`
     and `restore`. */
  const char *(*error)(void *self);

  /* How many outputs it has: 1 to 128. */
  int32_t (*output_count)(void *self);

  /* Writes the type of each output, for those of the inputs. */
  int32_t (*output_types)(void *self, const int32_t *inputs, int32_t input_count, int32_t *outputs,
                          int32_t output_count);

  /* Writes the sizes of each output. `values`: the elements of all shape inputs, one after the other. */
  int32_t (*output_shapes)(void *self, const AnyrtSizes *sizes, const AnyrtShape *inputs, int32_t input_count,
                           const AnyrtSize *values, int32_t value_count, AnyrtShape *outputs,
                           int32_t output_count);

  /* (or NULL) 1 where tensor `at` of the inputs and then outputs may be as it is there, where those before it
     are as they are there; else 0. Where it is NULL: row-major tensors of float32, and no others. */
  int32_t (*supports)(void *self, int32_t at, const AnyrtTensor *tensors, int32_t input_count,
                      int32_t output_count);

  /* (or NULL) The input in whose memory an output lies; -1 for none. */
  int32_t (*aliased)(void *self, int32_t output);

  /* (or NULL) Bytes that `enqueue` wants to work in, at these greatest sizes; below 0 in case of an error. */
  int64_t (*workspace)(void *self, const AnyrtTensor *inputs, int32_t input_count, const AnyrtTensor *outputs,
                       int32_t output_count);

  /* (or NULL) Sizes of the next calls of `enqueue`. */
  int32_t (*resize)(void *self, const AnyrtTensor *inputs, int32_t input_count, const AnyrtTensor *outputs,
                    int32_t output_count);

  /* Computes: reads inputs, writes outputs, works in `workspace`. Plug-ins of several contexts are called by
     several threads at once. The memory of an empty tensor may be NULL. */
  int32_t (*enqueue)(void *self, const AnyrtTensor *inputs, int32_t input_count, const AnyrtTensor *outputs,
                     int32_t output_count, const void *const *input_memory, void *const *output_memory,
                     void *workspace, void *stream);

  /* (or NULL) The ways in which `enqueue` can compute, as numbers from 1 on: at most `room` of them are written
     to `to`; how many there are is returned, below 0 in case of an error. It is called twice, with no room
     first. A build tries each, and the plan keeps the fastest. */
  int32_t (*tactics)(void *self, int32_t *to, int32_t room);

  /* (or NULL, as tactics) The next calls of `enqueue` shall compute in this way. */
  int32_t (*choose)(void *self, int32_t tactic);

  /* (or NULL) What times of tactics are kept under in a timing cache, as text that stays until the next call;
     plug-ins that take other times have other texts. Where it is NULL, each build tries them again. */
  const char *(*timing_id)(void *self);
} AnyrtPlugin;

typedef struct AnyrtPluginTable {
  uint32_t version; /* ANYRT_PLUGIN_VERSION */
  uint32_t size;    /* sizeof(AnyrtPlugin) */
  const AnyrtPlugin *plugins;
  int32_t count;
} AnyrtPluginTable;

/* What a library defines; the table, and all that it points to, stays as long as the process. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const AnyrtPluginTable *anyrt_plugin_table(void);

#ifdef __cplusplus
}
#endif

#endif
