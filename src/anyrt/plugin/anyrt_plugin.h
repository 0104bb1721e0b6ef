/* Plug-ins in C: the table of functions with which a shared object adds plug-ins to AnyRT.

   A library defines `anyrt_plugin_table`, which returns a table of kinds of plug-ins. Programs load it with
   trt.get_plugin_registry().load_library("libmine.so"), which registers a creator for each kind. All pointers
   are to host memory. Unless stated otherwise, that memory belongs to the caller and is valid during the call.
   examples/scaled.c is a complete library.

   A function that returns int32_t returns 0 for success and any other number for failure. */

#ifndef ANYRT_PLUGIN_H
#define ANYRT_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. AnyRT rejects a table of another version. */
#define ANYRT_PLUGIN_VERSION 2
#define ANYRT_MAX_DIMS 8

/* Element types, numbered like trt.DataType. */
enum {
  ANYRT_FLOAT = 0, ANYRT_HALF = 1, ANYRT_INT8 = 2, ANYRT_INT32 = 3, ANYRT_BOOL = 4, ANYRT_UINT8 = 5,
  ANYRT_FP8 = 6, ANYRT_BF16 = 7, ANYRT_INT64 = 8, ANYRT_INT4 = 9, ANYRT_FP4 = 10, ANYRT_E8M0 = 11
};

/* Memory formats, numbered like trt.TensorFormat. */
enum {
  ANYRT_LINEAR = 0, ANYRT_CHW2 = 1, ANYRT_HWC8 = 2, ANYRT_CHW4 = 3, ANYRT_CHW16 = 4, ANYRT_CHW32 = 5,
  ANYRT_DHWC8 = 6, ANYRT_CDHW32 = 7, ANYRT_HWC = 8, ANYRT_HWC16 = 11, ANYRT_DHWC = 12
};

/* Field types, numbered like trt.PluginFieldType. */
enum {
  ANYRT_FIELD_FLOAT16 = 0, ANYRT_FIELD_FLOAT32 = 1, ANYRT_FIELD_FLOAT64 = 2, ANYRT_FIELD_INT8 = 3,
  ANYRT_FIELD_INT16 = 4, ANYRT_FIELD_INT32 = 5, ANYRT_FIELD_CHAR = 6, ANYRT_FIELD_DIMS = 7,
  ANYRT_FIELD_UNKNOWN = 8, ANYRT_FIELD_BF16 = 9, ANYRT_FIELD_INT64 = 10, ANYRT_FIELD_FP8 = 11,
  ANYRT_FIELD_INT4 = 12, ANYRT_FIELD_FP4 = 13
};

/* Operations on dimensions, numbered like trt.DimensionOperation. */
enum {
  ANYRT_SUM = 0, ANYRT_PROD = 1, ANYRT_MAX = 2, ANYRT_MIN = 3, ANYRT_SUB = 4, ANYRT_EQUAL = 5,
  ANYRT_LESS = 6, ANYRT_FLOOR_DIV = 7, ANYRT_CEIL_DIV = 8
};

/* A field of a plug-in. Text (ANYRT_FIELD_CHAR) has `count` bytes and no terminating 0. */
typedef struct AnyrtField {
  const char *name;
  const void *data;
  int32_t type;
  int32_t count; /* number of elements */
} AnyrtField;

/* An input or output of a plug-in. */
typedef struct AnyrtTensor {
  int32_t type;
  int32_t format;
  float scale; /* the scale of an int8 tensor; 0 for other types */
  int32_t rank;
  int64_t dims[ANYRT_MAX_DIMS]; /* during the build -1 for dynamic dimensions */
} AnyrtTensor;

/* A dimension during the build: the number of an expression. A negative number is an error, which the call may
   return. */
typedef int32_t AnyrtSize;

typedef struct AnyrtShape {
  int32_t rank;
  AnyrtSize dims[ANYRT_MAX_DIMS];
} AnyrtShape;

/* Functions that make expressions from numbers and other expressions; each receives `builder`. */
typedef struct AnyrtSizes {
  void *builder;
  AnyrtSize (*constant)(void *builder, int64_t value);
  AnyrtSize (*operation)(void *builder, int32_t operation, AnyrtSize a, AnyrtSize b);
  /* The value of `output`, an int32 or int64 of rank 0: usually `usual`, at most `most`. */
  AnyrtSize (*declare)(void *builder, int32_t output, AnyrtSize usual, AnyrtSize most);
} AnyrtSizes;

/* A kind of plug-ins. Functions marked (or NULL) are optional. `self`: the result of `create` or `restore`. */
typedef struct AnyrtPlugin {
  const char *name;
  const char *version;
  const char *space; /* the namespace; "" for none */

  const AnyrtField *fields; /* names and types of the fields of `create`; their data is not read */
  int32_t field_count;

  /* Returns a plug-in with these fields, or NULL if they are invalid. It must copy the data that it keeps. */
  void *(*create)(const AnyrtField *fields, int32_t count);

  /* (or NULL) Called when the plug-in is no longer used. */
  void (*destroy)(void *self);

  /* (or NULL) Writes at most `room` bytes for a plan to `to`. Returns their total number, even if that is more
     than `room`, or a negative number for an error. AnyRT calls it twice, first with a `room` of 0. Without this
     function, the plan stores the fields, and `create` makes the plug-in from them. */
  int64_t (*serialize)(void *self, void *to, int64_t room);

  /* (or NULL, like serialize) Returns a plug-in from the bytes of `serialize`. Each context has its own plug-in. */
  void *(*restore)(const void *data, int64_t size);

  /* (or NULL) Returns the reason why the last call failed, as text that is valid until the next call. `self` is
     NULL after `create` and `restore`. */
  const char *(*error)(void *self);

  /* Returns the number of outputs: 1 to 128. */
  int32_t (*output_count)(void *self);

  /* Writes the element type of each output, for the element types of the inputs. */
  int32_t (*output_types)(void *self, const int32_t *inputs, int32_t input_count, int32_t *outputs,
                          int32_t output_count);

  /* Writes the shape of each output. `values`: the elements of all shape inputs, one after the other. */
  int32_t (*output_shapes)(void *self, const AnyrtSizes *sizes, const AnyrtShape *inputs, int32_t input_count,
                           const AnyrtSize *values, int32_t value_count, AnyrtShape *outputs,
                           int32_t output_count);

  /* (or NULL) Returns 1 if the type and format of tensor `at` are supported, given those of the tensors before it;
     otherwise 0. Inputs come first, then outputs. Without this function, only row-major float32 is supported. */
  int32_t (*supports)(void *self, int32_t at, const AnyrtTensor *tensors, int32_t input_count,
                      int32_t output_count);

  /* (or NULL) Returns the input whose memory an output shares; -1 for none. */
  int32_t (*aliased)(void *self, int32_t output);

  /* (or NULL) Returns the bytes of workspace for these maximum shapes, or a negative number for an error. */
  int64_t (*workspace)(void *self, const AnyrtTensor *inputs, int32_t input_count, const AnyrtTensor *outputs,
                       int32_t output_count);

  /* (or NULL) Receives the shapes of the next calls of `enqueue`. */
  int32_t (*resize)(void *self, const AnyrtTensor *inputs, int32_t input_count, const AnyrtTensor *outputs,
                    int32_t output_count);

  /* Computes the outputs. `workspace` is scratch memory. Several threads may call plug-ins of different contexts
     concurrently. The address of an empty tensor may be NULL. */
  int32_t (*enqueue)(void *self, const AnyrtTensor *inputs, int32_t input_count, const AnyrtTensor *outputs,
                     int32_t output_count, const void *const *input_memory, void *const *output_memory,
                     void *workspace, void *stream);

  /* (or NULL) Writes at most `room` tactics, numbers from 1 on, to `to`. Returns their total number, or a negative
     number for an error. AnyRT calls it twice, first with a `room` of 0. The builder measures each tactic, and
     the plan stores the fastest. */
  int32_t (*tactics)(void *self, int32_t *to, int32_t room);

  /* (or NULL, like tactics) Selects the tactic of the next calls of `enqueue`. */
  int32_t (*choose)(void *self, int32_t tactic);

  /* (or NULL) Returns the key of measured tactics in a timing cache, as text that is valid until the next call.
     Plug-ins with different times need different keys. Without this function, each build measures them again. */
  const char *(*timing_id)(void *self);
} AnyrtPlugin;

typedef struct AnyrtPluginTable {
  uint32_t version; /* ANYRT_PLUGIN_VERSION */
  uint32_t size;    /* sizeof(AnyrtPlugin) */
  const AnyrtPlugin *plugins;
  int32_t count;
} AnyrtPluginTable;

/* The function that a library defines. The table and all its memory must stay valid as long as the process. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const AnyrtPluginTable *anyrt_plugin_table(void);

#ifdef __cplusplus
}
#endif

#endif
